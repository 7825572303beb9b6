package director_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// telling is a protocol whose second step quotes what the first one gave, and
// whose third one does not.
const telling = "# Telling\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"}}}}\n```\n\n" +
	"## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"one\",\"shell\":{\"cmd\":\"greet {{ input.who }}\"}}}\n```\n\n" +
	"## Two\n\ntwo\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"use {{ steps.one.found }}\"}}}\n```\n\n" +
	"## Three\n\nthree\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"end\"}}}\n```\n"

func (w *world) redact(id run.ID, step int) (archive.RedactReply, error) {
	return w.Redact(w.t.Context(), w.caller, archive.RedactInput{Run: id, Step: step, Reason: "a customer asked"})
}

// told is everything that the store holds of a run, as text.
func (w *world) told(id run.ID) string {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	line, err := w.Timeline(w.t.Context(), w.caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := json.Marshal([]any{w.state(id), events, line})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) lacks(id run.ID, secrets ...string) {
	w.t.Helper()
	told := w.told(id)
	for _, secret := range secrets {
		if at := strings.Index(told, secret); at >= 0 {
			w.t.Errorf("%q is still told: …%s…", secret, told[max(at-80, 0):min(at+80, len(told))])
		}
	}
}

func (w *world) verified(id run.ID) {
	w.t.Helper()
	if err := w.state(id).Verify(); err != nil {
		w.t.Errorf("Verify = %v, want the chain to hold", err)
	}
}

func TestASolvedStepIsErasedWhileTheRunContinues(t *testing.T) {
	dir := t.TempDir()
	w := worldOn(t, filepath.Join(dir, "kairos.db"), nil)
	uris := w.mint(telling)
	r := w.reply(w.beginRound(uris[0], `{"who":"Betty Wolf"}`))
	id := runOf(r)
	first := solve(r, `{"ok":true,"found":"red herring"}`)
	r = w.next(uris[0], first)
	if _, err := w.redact(id, 1); fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "step 2 needs") {
		t.Errorf("Redact(step 1, which step 2 needs) = %v, want it refused", err)
	}
	if _, err := w.redact(id, 2); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("Redact(the open step) = %v, want it refused", err)
	}
	if _, err := w.redact(id, 0); fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "is still open") {
		t.Errorf("Redact(a live run) = %v, want it refused", err)
	}
	r = w.next(uris[0], solve(r, `{"ok":true,"note":"kept"}`))
	reply, err := w.redact(id, 1)
	want := archive.RedactReply{RunID: string(id), Steps: []int{1}, Quoting: []int{2}}
	if diff := cmp.Diff(want, reply); err != nil || diff != "" {
		t.Fatalf("Redact(step 1) = %v (-want +got):\n%s", err, diff)
	}
	w.lacks(id, "red herring")
	if !strings.Contains(w.told(id), "kept") || !strings.Contains(w.told(id), "a customer asked") {
		t.Error("the evidence of step 2 or the reason is gone, too")
	}
	for _, file := range []string{"kairos.db", "kairos.db-wal"} {
		if b, err := os.ReadFile(filepath.Join(dir, file)); err == nil && strings.Contains(string(b), "red herring") {
			t.Errorf("%s still holds what was erased", file)
		}
	}
	w.verified(id)

	// Nobody gets the old reply again, and the run continues.
	if again := w.next(uris[0], first); again.ErrorCode != "NONCE_MISMATCH" {
		t.Errorf("a repeat of the erased submission = %q %s, want NONCE_MISMATCH", again.ErrorCode, again.Message)
	}
	w.next(uris[0], solve(r, `{"ok":true}`))
	done, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[0], Outcome: "success", Message: "done", RunID: string(id)})
	if err != nil || !done.Verified {
		t.Errorf("Attest = %+v, %v, want it verified", done, err)
	}
}

func TestARunThatHasEndedIsErasedWhole(t *testing.T) {
	for name, end := range map[string]func(w *world, uri string, id run.ID) error{
		"attested": func(w *world, uri string, id run.ID) error {
			_, err := w.Attest(w.t.Context(), w.caller, api.AttestRequest{URI: uri, Outcome: "failure", Message: "it smells of herring", RunID: string(id)})
			return err
		},
		"abandoned": func(w *world, _ string, id run.ID) error {
			_, err := w.Abandon(w.t.Context(), w.caller, id, "it smells of herring")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint(telling)
			r := w.reply(w.beginRound(uris[0], `{"who":"Betty Wolf"}`))
			id := runOf(r)
			r = w.next(uris[0], solve(r, `{"ok":true,"found":"red herring"}`))
			w.code(w.next(uris[0], solve(r, `{"ok":false,"note":"pickled herring"}`)), "COMMAND_FAILED")
			if err := end(w, uris[0], id); err != nil {
				t.Fatal(err)
			}
			before, err := w.Timeline(t.Context(), w.caller, id)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // once more does no harm
				reply, err := w.redact(id, 0)
				if diff := cmp.Diff(archive.RedactReply{RunID: string(id), Steps: []int{1}}, reply); err != nil || diff != "" {
					t.Fatalf("Redact = %v (-want +got):\n%s", err, diff)
				}
			}
			w.lacks(id, "herring", "Betty")
			w.verified(id)
			after, err := w.Timeline(t.Context(), w.caller, id)
			if err != nil || len(after.Moments) != len(before.Moments)+2 {
				t.Fatalf("Timeline = %d moments, %v, want those %d and two that say what was erased", len(after.Moments), err, len(before.Moments))
			}
			for i, m := range before.Moments {
				if got := after.Moments[i]; got.What != m.What || got.ProofHash != m.ProofHash || got.Provenance != m.Provenance || !got.At.Equal(m.At) {
					t.Errorf("moment %d = %+v, want %s still told", i, got, m.What)
				}
			}
			account, err := w.Account(t.Context(), w.caller, id)
			if err != nil || !account.Run.Evidence[0].Erased() || len(account.Challenges[0]) != 0 || account.Run.Evidence[0].Answers[0].Via != "agent" {
				t.Errorf("Account = %+v, %v, want step 1 erased, who answered it kept", account.Run.Evidence, err)
			}
			if _, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], RunID: string(id)}); fault.CodeOf(err) != fault.NoOpenRun || strings.Contains(err.Error(), "redacted") {
				t.Errorf("Next = %v, want how the run ended", err)
			}
		})
	}
}

func TestRedactingMissingValuesIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(telling)
	id := runOf(w.reply(w.beginRound(uris[0], `{"who":"B"}`)))
	if _, err := w.redact("nothing", 0); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Redact(no run) = %v, want NOT_FOUND", err)
	}
	for _, step := range []int{-1, 1, 4} {
		if _, err := w.redact(id, step); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("Redact(step %d) = %v, want INVALID_ARGUMENT", step, err)
		}
	}
}

func TestTheSameEvidenceHasTwoDigests(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(telling)
	digests := map[string]bool{}
	for range 3 {
		r := w.reply(w.beginRound(uris[0], `{"who":"B"}`))
		w.next(uris[0], solve(r, `{"ok":true,"found":"yes"}`))
		got := w.state(runOf(r))
		digests[got.Proofs[0].EvidenceDigest] = true
		if salt := got.Evidence[0].Salt; len(salt) != 32 {
			t.Errorf("salt = %q, want 128 bits in hex", salt)
		}
	}
	if len(digests) != 3 {
		t.Errorf("%d digests for three runs with the same evidence, want 3: a digest alone would confirm a guess", len(digests))
	}
}

func TestEvidenceOfEarlierVersionsStillVerifies(t *testing.T) {
	// Recorded by the version before evidence had a salt.
	const stored = `{"proof":{"seen":true},"output":{"ok":true},"answers":[{"input_id":"evidence","value":{"ok":true},"provenance":"agent-reported","via":"agent"}]}`
	var ev run.Evidence
	if err := json.Unmarshal([]byte(stored), &ev); err != nil {
		t.Fatal(err)
	}
	got, err := ev.Digest()
	want, wantErr := run.Digest([]byte(stored))
	if err != nil || wantErr != nil || got != want {
		t.Errorf("Digest = %s, %v, want %s, %v as it was", got, err, want, wantErr)
	}
	if ev.Erased() {
		t.Error("evidence that is whole counts as erased")
	}
}
