package archive_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// telling is a protocol whose second step quotes what the first one gave, and
// whose third one does not.
const telling = "# Telling\n\n" +
	"## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"one\",\"shell\":{\"cmd\":\"begin\"}}}\n```\n\n" +
	"## Two\n\ntwo\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"use {{ steps.one.found }}\"}}}\n```\n\n" +
	"## Three\n\nthree\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"end\"}}}\n```\n"

func (w *world) redact(id run.ID, step int) (archive.RedactReply, error) {
	return w.Redact(w.t.Context(), w.caller, archive.RedactInput{Run: id, Step: step, Reason: "a customer asked"})
}

// told is everything that the store holds of a run, as text. Its proof chain holds.
func (w *world) told(id run.ID) string {
	w.t.Helper()
	account, err := w.Account(w.t.Context(), w.caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := account.Run.Verify(); err != nil {
		w.t.Errorf("Verify = %v, want the chain to hold", err)
	}
	events, err := w.store.Events(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := json.Marshal([]any{account.Run, events, w.timeline(id)})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) timeline(id run.ID) archive.Timeline {
	w.t.Helper()
	line, err := w.Timeline(w.t.Context(), w.caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return line
}

func TestASolvedStepIsErasedWhileTheRunContinues(t *testing.T) {
	w := newWorld(t, 0)
	id := w.begin(w.mint(telling)[0])
	w.solveWith(id, `{"found":"red herring"}`)
	for step, says := range map[int]string{0: "is still open", 1: "step 2 needs", 2: "has no evidence", 4: "has no evidence", -1: "has no evidence"} {
		if _, err := w.redact(id, step); fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("Redact(step %d) = %v, want it refused: %s", step, err, says)
		}
	}
	if _, err := w.redact("nothing", 0); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Redact(no run) = %v, want NOT_FOUND", err)
	}
	w.solveWith(id, `{"note":"kept"}`)
	reply, err := w.redact(id, 1)
	want := archive.RedactReply{RunID: string(id), Steps: []int{1}, Quoting: []int{2}}
	if diff := cmp.Diff(want, reply); err != nil || diff != "" {
		t.Fatalf("Redact(step 1) = %v (-want +got):\n%s", err, diff)
	}
	if told := w.told(id); strings.Contains(told, "red herring") || !strings.Contains(told, "kept") || !strings.Contains(told, "a customer asked") {
		t.Errorf("told is still what was erased, or neither the evidence of step 2 nor the reason: %s", told)
	}
	w.solve(id) // the run continues
}

func TestARunThatHasEndedIsErasedWhole(t *testing.T) {
	for name, end := range map[string]func(w *world, id run.ID) error{
		"attested": func(w *world, id run.ID) error {
			w.happen(id, run.Event{Kind: run.Attested, Outcome: "failure", Reason: "it smells of herring"})
			return nil
		},
		"abandoned": func(w *world, id run.ID) error {
			_, err := w.Abandon(w.t.Context(), w.caller, id, "it smells of herring")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			id := w.begin(w.mint(telling)[0])
			w.solveWith(id, `{"found":"red herring"}`)
			if err := end(w, id); err != nil {
				t.Fatal(err)
			}
			before := w.timeline(id)
			for range 2 { // once more does no harm
				reply, err := w.redact(id, 0)
				if diff := cmp.Diff(archive.RedactReply{RunID: string(id), Steps: []int{1}}, reply); err != nil || diff != "" {
					t.Fatalf("Redact = %v (-want +got):\n%s", err, diff)
				}
			}
			if told := w.told(id); strings.Contains(told, "herring") || strings.Contains(told, "Betty") {
				t.Errorf("told is still what was erased: %s", told)
			}
			after := w.timeline(id)
			if len(after.Moments) != len(before.Moments)+2 {
				t.Fatalf("the timeline has %d moments, want those %d and two that say what was erased", len(after.Moments), len(before.Moments))
			}
			for i, m := range before.Moments {
				if got := after.Moments[i]; got.What != m.What || got.ProofHash != m.ProofHash || got.Provenance != m.Provenance || !got.At.Equal(m.At) {
					t.Errorf("moment %d = %+v, want %s still told", i, got, m.What)
				}
			}
			account, err := w.Account(t.Context(), w.caller, id)
			if err != nil || !account.Run.Evidence[0].Erased() || account.Run.Evidence[0].Answers[0].Via != "agent" {
				t.Errorf("Account = %+v, %v, want step 1 erased, who answered it kept", account.Run.Evidence, err)
			}
		})
	}
}
