package director_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func (w *world) attest(in api.AttestRequest) api.AttestReply {
	w.t.Helper()
	in.Message = "m"
	a, err := w.Attest(w.t.Context(), w.caller, in)
	if err != nil {
		w.t.Fatalf("Attest(%+v): %v", in, err)
	}
	return a
}

// finish solves every step of a run that was begun.
func (w *world) finish(r *api.StepReply) *api.StepReply {
	w.t.Helper()
	for r.Challenge.Nonce != "" {
		r = w.next(r.CurrentStep.URI, solve(r, `{"ok":true}`))
		w.code(r, "")
	}
	return r
}

// counted is what ratings were stored for the first step, once all are written.
func (w *world) counted(uri string) api.Quality {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Fatal(err)
	}
	id, err := protocol.ParseURI(uri)
	if err != nil {
		w.t.Fatal(err)
	}
	q, err := w.store.Quality(w.t.Context(), w.caller.Space, []string{id})
	if err != nil {
		w.t.Fatal(err)
	}
	return q[id]
}

func TestOnlyVerifiedRunsCountAsSuccess(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(w *world, uris []string)
		want api.Quality
	}{
		"without a run": {func(w *world, uris []string) {
			for range 5 {
				a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "success", QualityBonus: 1000})
				if a.Verified || a.TotalRated != 1 || a.Results[0].QualityBonus != 1005 {
					w.t.Errorf("Attest without a run = %+v, want one unverified result of 1005", a)
				}
			}
		}, api.Quality{}},
		"with unsolved steps": {func(w *world, uris []string) {
			w.begin(uris[0])
			if a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "success", QualityBonus: 1000}); a.Verified || a.Results[0].QualityBonus != 1005 {
				w.t.Errorf("Attest = %+v, want an unverified result of 1005", a)
			}
		}, api.Quality{PartialCount: 1}},
		"verified": {func(w *world, uris []string) {
			w.finish(w.begin(uris[0]))
			w.attest(api.AttestRequest{URI: uris[0], Outcome: "success", QualityBonus: 1000})
		}, api.Quality{SuccessCount: 2, QualityBonus: 1 + 5 + 5}}, // the step itself, and the run
		"failed": {func(w *world, uris []string) {
			w.begin(uris[0])
			w.attest(api.AttestRequest{URI: uris[0], Outcome: "failure", QualityBonus: -1000})
		}, api.Quality{FailureCount: 1, QualityBonus: -0.2 - 5}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint(threeSteps)
			tc.play(w, uris)
			q := w.counted(uris[0])
			got := api.Quality{SuccessCount: q.SuccessCount, PartialCount: q.PartialCount, FailureCount: q.FailureCount, QualityBonus: q.QualityBonus}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASecondAttestationRepliesWhatWasRecorded(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.finish(w.begin(uris[0]))
	first := w.attest(api.AttestRequest{URI: uris[2], Outcome: "success", QualityBonus: 2, RunID: r.RunID})
	second, err := w.Attest(t.Context(), w.caller, api.AttestRequest{
		URI: uris[2], Outcome: "failure", Message: "another", QualityBonus: 7, RunID: r.RunID,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !second.AlreadyAttested || first.AlreadyAttested || second.TotalRated != 1 || !second.Verified || !strings.Contains(second.Message, "attested before") {
		t.Errorf("the second attestation = %+v, want it already attested", second)
	}
	got := second.Results[0]
	if got.RatedAt == "" || got.Outcome != "success" || got.QualityBonus != 7 || got.Message != "m" {
		t.Errorf("its result = %+v, want the recorded one", got)
	}
	if q := w.counted(uris[2]); q.SuccessCount != 2 || q.FailureCount != 0 {
		t.Errorf("stored %+v, want one solved step and one verified run", q)
	}
}

func TestARunThatHasEndedIsNotAttested(t *testing.T) {
	w := newWorld(t, nil)
	r := w.begin(w.mint(threeSteps)[0])
	if _, err := w.Abandon(t.Context(), w.caller, runOf(r), "no need"); err != nil {
		t.Fatal(err)
	}
	_, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: r.CurrentStep.URI, Outcome: "success", Message: "m", RunID: r.RunID})
	refused(t, err, fault.NoOpenRun, "abandoned")
}

func TestMessagesOfMintAndAttestBeginWithACapital(t *testing.T) {
	w := newWorld(t, nil)
	minted, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: "# Two notes\n\n## Read\n\nRead it.\n\n## Write\n\nWrite it.\n", ModelID: "test"})
	if err != nil || minted.Message != "Both steps prove nothing." {
		t.Errorf("mint says %q, %v", minted.Message, err)
	}
	uri := minted.Items[0].URI
	w.begin(uri)
	if a := w.attest(api.AttestRequest{URI: uri, Outcome: "failure"}); a.Message != "None of 2 steps is proved." {
		t.Errorf("attest says %q", a.Message)
	}
}

const worthSteps = "# Worth\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"go\"}}}\n```\n" +
	"\n## Look\n\nlook\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"required\":false,\"shell\":{\"cmd\":\"a\"}}}\n```\n" +
	"\n## Ask\n\nask\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"Sure?\"}}}\n```\n"

func TestTheAttestationSaysWhatTheRunIsWorth(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.ElicitationForm = true
	uris := w.mint(worthSteps)
	r := w.begin(uris[0])
	yes := `{"action":"accept","content":{"confirmation":"approved","ok":true}}`
	r = w.reply(w.answer(w.ask(w.nextRound(uris[0], placeholder(r)), "elicitation/create"), yes))
	r = w.next(uris[0], solve(r, `{"ok":true}`))
	r = w.next(uris[1], solve(r, `{"ok":false,"x":1}`))
	w.code(r, "")
	if want := "Step 2 failed, not required: it is not ok"; !strings.Contains(r.Message, want) || !strings.HasPrefix(r.Solved[0].Verdict, run.NotRequired) {
		t.Errorf("message %q, solved %+v, want %q", r.Message, r.Solved, want)
	}
	w.reply(w.answer(w.ask(w.nextRound(uris[2], placeholder(r)), "elicitation/create"), yes))
	if _, err := w.Redact(t.Context(), w.caller, archive.RedactInput{Run: runOf(r), Step: 2, Reason: "private"}); err != nil {
		t.Fatal(err)
	}
	a := w.attest(api.AttestRequest{URI: uris[2], Outcome: "success"})
	if want := "1 of 3 steps failed and was not required, 1 rests on the agent's word, 1 answered by a person. The proof chain is whole."; !strings.Contains(a.Message, want) {
		t.Errorf("the attestation says %q, want %q", a.Message, want)
	}
	if !a.Verified || a.WeakestProvenance != driver.AgentReported || !strings.Contains(a.Message, "step 2 failed") {
		t.Errorf("Attest = %+v, want it verified, the weakest agent-reported, and the failed step named", a)
	}
	if diff := cmp.Diff(map[driver.Provenance]int{driver.AgentReported: 2, driver.ClientAttested: 1}, a.StepsByProvenance); diff != "" {
		t.Errorf("steps_by_provenance (-want +got):\n%s", diff)
	}
	verdicts := []string{"accepted", run.NotRequired, "accepted"}
	for i, s := range a.Steps {
		if s.StepIndex != i+1 || s.URI != uris[i] || s.Verdict != verdicts[i] || s.Driver == "" || s.Via == "" {
			t.Errorf("step %d = %+v, want verdict %q", i+1, s, verdicts[i])
		}
	}
	if len(a.Approvals) != 1 || a.Approvals[0].StepIndex != 1 || a.Approvals[0].Via != "elicitation" ||
		a.Approvals[0].Provenance != driver.ClientAttested || a.Approvals[0].Basis != string(run.BasisForm) || a.Approvals[0].ApprovedAt == "" {
		t.Errorf("approvals = %+v, want that of step 1 through the form", a.Approvals)
	}
	if len(a.Redactions) != 1 || a.Redactions[0].StepIndex != 2 || a.Redactions[0].RedactedAt == "" {
		t.Errorf("redactions = %+v, want that of step 2", a.Redactions)
	}
	var told []string
	for _, m := range w.timeline(r).Moments {
		if m.What == "accepted" || m.What == "failed" {
			told = append(told, m.What+": "+m.Verdict)
		}
	}
	if diff := cmp.Diff([]string{"accepted: accepted", "failed: " + run.NotRequired, "accepted: accepted"}, told); diff != "" {
		t.Errorf("the timeline (-want +got):\n%s", diff)
	}
}

func TestAttestMeansTheRunThatTheLastCallCompleted(t *testing.T) {
	for name, connection := range map[string]string{"on one connection": "c1", "without a connection": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Connection = connection
			uris := w.mint(threeSteps)
			left, done := w.begin(uris[0]), w.begin(uris[0])
			w.next(uris[0], solve(left, `{"ok":true}`))
			w.finish(done)
			later := w.begin(uris[0])
			if a := w.attest(api.AttestRequest{URI: uris[2], Outcome: "success"}); a.RunID != done.RunID || !a.Verified {
				t.Errorf("Attest closed run %q (%s), want the completed one, %s", a.RunID, a.ErrorCode, done.RunID)
			}
			// Now the last call completed nothing.
			w.finish(later)
			w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
			a := w.attest(api.AttestRequest{URI: uris[2], Outcome: "failure"})
			if a.RunID == later.RunID || connection == "" && a.ErrorCode != "AMBIGUOUS_RUN" {
				t.Errorf("Attest = %+v, want not the run that was completed before", a)
			}
		})
	}
}

// A run of one protocol says nothing of another, whatever became of either meanwhile.
func TestARunDoesNotAttestAnotherProtocol(t *testing.T) {
	const gone = "# Old\n\n## Only\n\nx\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"ls\"}}}\n```\n"
	for name, tc := range map[string]struct {
		before func(w *world, claimed, of []string)
		uri    func(claimed, of []string) string
		want   fault.Code
	}{
		"another protocol":            {nil, func(claimed, _ []string) string { return claimed[0] }, fault.InvalidArgument},
		"another one that is deleted": {func(w *world, claimed, _ []string) { w.remove(claimed) }, func(claimed, _ []string) string { return claimed[0] }, fault.InvalidArgument},
		"one that nobody knows":       {nil, func([]string, []string) string { return "kairos://mem/11111111-1111-1111-1111-111111111111" }, fault.InvalidArgument},
		"not a URI":                   {nil, func([]string, []string) string { return "Old" }, fault.InvalidArgument},
		"nothing":                     {nil, func([]string, []string) string { return "" }, fault.InvalidArgument},
		"its own":                     {nil, func(_, of []string) string { return of[0] }, ""},
		"its own, updated": {func(w *world, _, of []string) {
			if u, err := w.Update(w.t.Context(), w.caller, api.UpdateRequest{URIs: of, Updates: []byte(`{"label":"Other","text":"y"}`)}); err != nil || u.TotalFailed > 0 {
				w.t.Fatalf("Update = %+v, %v", u, err)
			}
		}, func(_, of []string) string { return of[0] }, ""},
		"its own, minted anew": {func(w *world, claimed, of []string) { w.remove(of); claimed[0] = w.mint(gone)[0] }, func(claimed, _ []string) string { return claimed[0] }, ""},
		"its own, deleted":     {func(w *world, _, of []string) { w.remove(of) }, func(_, of []string) string { return of[0] }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			claimed, of := w.mint(threeSteps), w.mint(gone)
			r := w.next(of[0], solve(w.begin(of[0]), `{"ok":true}`))
			if tc.before != nil {
				tc.before(w, claimed, of)
			}
			in := api.AttestRequest{URI: tc.uri(claimed, of), Outcome: "success", Message: "m", RunID: r.RunID}
			a, err := w.Attest(t.Context(), w.caller, in)
			if fault.CodeOf(err) != tc.want || a.Verified != (tc.want == "") {
				t.Fatalf("Attest = %+v, %v, want %q", a, err, tc.want)
			}
			if open, err := w.stored(runOf(r)); err != nil || (open.State == run.Complete) != (tc.want != "") {
				t.Errorf("the run is %s (%v)", open.State, err)
			}
			if tc.want == "" {
				return
			}
			w.attest(api.AttestRequest{URI: of[0], Outcome: "success", RunID: r.RunID})
			if again, err := w.Attest(t.Context(), w.caller, in); fault.CodeOf(err) != tc.want {
				t.Errorf("Attest of the closed run = %+v, %v, want %s", again, err, tc.want)
			}
		})
	}
}

func (w *world) remove(uris []string) {
	w.t.Helper()
	if d, err := w.Delete(w.t.Context(), w.caller, api.DeleteRequest{URIs: uris}); err != nil || d.TotalFailed > 0 {
		w.t.Fatalf("Delete = %+v, %v", d, err)
	}
}

func TestWhatAnAttestationMaySayIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint("# Long\n\n## A\n\nx\n")[0]
	for name, in := range map[string]api.AttestRequest{
		"quality_bonus": {QualityBonus: 1e308, Message: "m"}, "-1000 to 1000": {QualityBonus: -1001, Message: "m"},
		"message": {Message: strings.Repeat("m", 1<<20)},
	} {
		in.URI, in.Outcome = uri, "success"
		_, err := w.Attest(t.Context(), w.caller, in)
		refused(t, err, fault.InvalidArgument, name)
	}
}
