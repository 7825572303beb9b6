package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newRun(id run.ID, steps int) run.Run {
	return run.Run{
		ID: id, StepCount: steps, State: run.Open, CreatedAt: epoch, UpdatedAt: epoch,
		Step: run.Step{Index: 1, Nonce: "n0"},
	}
}

func evidenceInput() driver.Input { return driver.Input{ID: "evidence", Kind: driver.KindEvidence} }

func must(t *testing.T, r run.Run, e run.Event) run.Run {
	t.Helper()
	e.Run, e.Step = r.ID, r.Step.Index
	if e.At.IsZero() {
		e.At = epoch
	}
	next, err := run.Apply(r, e)
	if err != nil {
		t.Fatalf("Apply(%s) = %v, want no error", e.Kind, err)
	}
	return next
}

func refuses(t *testing.T, r run.Run, e run.Event, want error) {
	t.Helper()
	e.Run, e.Step, e.At = r.ID, r.Step.Index, orEpoch(e.At)
	next, err := run.Apply(r, e)
	if !errors.Is(err, want) {
		t.Errorf("Apply(%s) error = %v, want %v", e.Kind, err, want)
	}
	if diff := cmp.Diff(r, next); diff != "" {
		t.Errorf("Apply(%s) changed the run it refused to change (-before +after):\n%s", e.Kind, diff)
	}
}

func orEpoch(at time.Time) time.Time {
	if at.IsZero() {
		return epoch
	}
	return at
}

func needs(gated bool) run.Event {
	return run.Event{Kind: run.Needed, Inputs: []driver.Input{evidenceInput()}, Gated: gated, Digest: "d1"}
}

func supplies(via string) run.Event {
	return run.Event{Kind: run.Supplied, Input: "evidence", Via: via, Answer: &driver.Answer{
		InputID: "evidence", Value: json.RawMessage(`{"ok":true}`), Via: via,
	}}
}

func approves(via, digest string, expires time.Time) run.Event {
	return run.Event{Kind: run.Supplied, Input: driver.KindApproval, Via: via, Approval: &run.Approval{
		Digest: digest, Via: via, GrantedAt: epoch, ExpiresAt: expires,
	}}
}

func accepts(t interface{ Fatal(...any) }, r run.Run, nonce string) run.Event {
	ev := run.Evidence{Proof: json.RawMessage(`{}`), Answers: r.Step.Answers, Approval: r.Step.Approval}
	digest, err := ev.Digest()
	if err != nil {
		t.Fatal(err)
	}
	p, err := run.Proof{Previous: r.ProofHash(), Run: r.ID, Step: r.Step.Index, EvidenceDigest: digest, At: epoch}.Seal()
	if err != nil {
		t.Fatal(err)
	}
	return run.Event{Kind: run.Accepted, Proof: &p, Evidence: &ev, Nonce: nonce}
}

func TestAcceptedEvidenceOpensTheNextStep(t *testing.T) {
	r := must(t, must(t, newRun("r1", 2), needs(false)), supplies("agent"))
	r = must(t, r, accepts(t, r, "n1"))
	if r.Step.Index != 2 || r.Step.Nonce != "n1" || r.State != run.Open {
		t.Errorf("after acceptance = step %d nonce %q state %s, want step 2 nonce n1 open", r.Step.Index, r.Step.Nonce, r.State)
	}
	r = must(t, must(t, r, needs(false)), supplies("agent"))
	r = must(t, r, accepts(t, r, ""))
	if r.State != run.Complete || r.Step.Nonce != "" {
		t.Errorf("after the last step = %s nonce %q, want complete and no nonce", r.State, r.Step.Nonce)
	}
	if err := r.Verify(); err != nil {
		t.Errorf("Verify() = %v, want a whole chain", err)
	}
}

// The digests of what this process accepted hold; those of what it read are compared.
func TestEvidenceThatWasReadIsComparedWithItsDigest(t *testing.T) {
	one := must(t, must(t, newRun("r1", 2), needs(false)), supplies("agent"))
	first := accepts(t, one, "n1")
	one = must(t, one, first)
	two := must(t, must(t, one, needs(false)), supplies("agent"))
	second := accepts(t, two, "")
	two = must(t, two, second)
	if err := two.VerifyRead(); err != nil || two.Held != 2 {
		t.Errorf("accepted here: VerifyRead() = %v, held %d, want 2", err, two.Held)
	}
	other := *second.Evidence
	other.Salt = "changed on disk"
	changed := second
	changed.Evidence = &other
	for name, read := range map[string]run.Run{
		"all of it":       two.Recall(run.Run{}, []run.Event{first, changed}),
		"what came since": two.Recall(one, []run.Event{changed}),
	} {
		if err := read.VerifyRead(); err == nil || !strings.Contains(err.Error(), "step 2, evidence") {
			t.Errorf("%s was read and is not what was accepted: VerifyRead() = %v", name, err)
		}
	}
}

func TestNothingIsAcceptedWithout(t *testing.T) {
	for name, tc := range map[string]struct {
		before []run.Event
		want   error
	}{
		"any input":     {nil, run.ErrImpossible},
		"an answer":     {[]run.Event{needs(false)}, run.ErrImpossible},
		"a fresh nonce": {[]run.Event{needs(false), supplies("agent")}, run.ErrImpossible},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun("r1", 2)
			for _, e := range tc.before {
				r = must(t, r, e)
			}
			refuses(t, r, accepts(t, r, r.Step.Nonce), tc.want)
		})
	}
}

func TestGatedEvidenceNeedsAnApproval(t *testing.T) {
	r := must(t, newRun("r1", 1), needs(true))
	refuses(t, r, supplies("agent"), run.ErrUnapproved)
	refuses(t, r, run.Event{Kind: run.Asked, Question: &run.Question{Seq: 1, Input: evidenceInput(), Via: "sampling"}}, run.ErrUnapproved)
	refuses(t, r, approves("elicitation", "another digest", epoch.Add(time.Hour)), run.ErrUnapproved)

	approved := must(t, r, approves("elicitation", "d1", epoch.Add(time.Hour)))
	late := supplies("agent")
	late.At = epoch.Add(2 * time.Hour)
	refuses(t, approved, late, run.ErrUnapproved)
	must(t, approved, supplies("agent"))

	changed := must(t, approved, run.Event{Kind: run.Needed, Inputs: []driver.Input{evidenceInput()}, Gated: true, Digest: "d2"})
	refuses(t, changed, supplies("agent"), run.ErrUnapproved)

	used := must(t, approved, supplies("agent"))
	used = must(t, used, run.Event{Kind: run.Rejected, Code: "COMMAND_FAILED"})
	used = must(t, used, needs(true))
	refuses(t, used, supplies("agent"), run.ErrUnapproved)
}

func TestAClientReviewApprovesOnlyItsOwnRoute(t *testing.T) {
	r := must(t, newRun("r1", 1), needs(true))
	review := approves("sampling", "d1", epoch.Add(time.Hour))
	review.Approval.ClientReview = true
	r = must(t, r, review)
	refuses(t, r, supplies("agent"), run.ErrUnapproved)
	asked := must(t, r, run.Event{Kind: run.Asked, Question: &run.Question{Seq: 1, Input: evidenceInput(), Via: "sampling"}})
	gone := must(t, asked, run.Event{Kind: run.RouteClosed, Seq: 1, Attempt: &run.Attempt{Input: "evidence", Via: "sampling", Outcome: "invalid"}})
	if gone.Step.Approval != nil {
		t.Error("the review's approval outlived its route")
	}
}

func TestAPersonsNoStands(t *testing.T) {
	r := must(t, newRun("r1", 1), needs(false))
	r = must(t, r, run.Event{Kind: run.Asked, Question: &run.Question{Seq: 1, Input: evidenceInput(), Via: "elicitation", Human: true}})
	r = must(t, r, run.Event{Kind: run.Declined, Input: "evidence", Via: "elicitation", Seq: 1})
	refuses(t, r, supplies("agent"), run.ErrDeclined)
	refuses(t, r, run.Event{Kind: run.Asked, Question: &run.Question{Seq: 2, Input: evidenceInput(), Via: "sampling"}}, run.ErrDeclined)
	refuses(t, r, run.Event{Kind: run.Declined, Input: "evidence", Via: "agent"}, run.ErrDeclined)

	rejected := must(t, r, run.Event{Kind: run.Rejected, Code: "X"})
	rejected = must(t, rejected, needs(false))
	refuses(t, rejected, supplies("agent"), run.ErrDeclined)

	again := must(t, r, run.Event{Kind: run.Asked, Question: &run.Question{Seq: 2, Input: evidenceInput(), Via: "elicitation"}})
	again = must(t, again, run.Event{Kind: run.Answered, Seq: 2, Answer: &driver.Answer{InputID: "evidence", Value: json.RawMessage(`1`)}})
	must(t, again, accepts(t, again, ""))
}

func TestOnlyTheOpenQuestionCanBeAnswered(t *testing.T) {
	r := must(t, newRun("r1", 1), needs(false))
	q := func(seq int64) run.Event {
		return run.Event{Kind: run.Asked, Question: &run.Question{Seq: seq, Input: evidenceInput(), Via: "sampling"}}
	}
	r = must(t, must(t, r, q(1)), q(2))
	answer := run.Event{Kind: run.Answered, Seq: 1, Answer: &driver.Answer{InputID: "evidence", Value: json.RawMessage(`1`)}}
	refuses(t, r, answer, run.ErrStale)
	refuses(t, r, q(2), run.ErrImpossible)
	answer.Seq = 2
	must(t, r, answer)
}

// TestNoSequenceOfEventsBreaksAPromise plays random events, well-formed or
// not, against a model that keeps the promises in the plainest way.
func TestNoSequenceOfEventsBreaksAPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const steps = 3
		r := newRun("r1", steps)
		m := model{declined: map[string]string{}}
		for i := range rapid.IntRange(1, 40).Draw(t, "length") {
			e := drawEvent(t, r, i)
			next, err := run.Apply(r, e)
			if err != nil {
				if diff := cmp.Diff(r, next); diff != "" {
					t.Fatalf("refused %s changed the run:\n%s", e.Kind, diff)
				}
				continue
			}
			if e.Run != r.ID {
				t.Fatalf("an event of run %s changed run %s", e.Run, r.ID)
			}
			m.check(t, r, e)
			r = next
			m.invariants(t, r)
		}
	})
}

type model struct {
	declined map[string]string // input id to who received the no
	approved string            // digest
	review   string            // the only route that the approval covers
	answered bool
	gated    bool
	accepted int
}

func (m *model) check(t *rapid.T, before run.Run, e run.Event) {
	switch e.Kind {
	case run.Called, run.Deferred:
		if e.Call.Attempt != before.Step.Attempts[e.Call.Input]+1 {
			t.Fatalf("attempt %d at %q while %d came to an outcome", e.Call.Attempt, e.Call.Input, before.Step.Attempts[e.Call.Input])
		}
		if c := before.Step.Call; c != nil && (e.Kind == run.Called || c.Key != e.Call.Key) {
			t.Fatalf("%s while the outcome of another call is not known", e.Kind)
		}
	case run.Decided:
		if c := before.Step.Call; e.Decision.Happened && c.Input != "" {
			e.Kind, e.Input, e.Via = run.Supplied, c.Input, c.Driver
			m.answer(t, before, e)
		}
	case run.Needed:
		m.gated = m.gated || e.Gated
		if e.Digest != before.Step.Digest {
			m.approved = ""
		}
	case run.Supplied, run.Answered:
		m.answer(t, before, e)
	case run.Asked, run.Repaired, run.Dismissed:
		m.mayAnswer(t, e.Question.Input, e.Question.Via)
	case run.Unanswered:
		if e.Seq != before.Step.Question.Seq {
			t.Fatalf("a round without an answer to question %d was counted while %d is open", e.Seq, before.Step.Question.Seq)
		}
	case run.RouteClosed:
		if m.review == e.Attempt.Via {
			m.approved, m.review = "", ""
		}
	case run.Declined:
		m.declined[e.Input] = e.Via
		if e.Input == driver.KindApproval {
			m.approved = ""
		} else {
			m.answered = false
		}
	case run.Rejected:
		m.approved, m.review, m.answered, m.gated = "", "", false, false
	case run.Lapsed:
		if m.approved == "" {
			t.Fatal("an approval lapsed that nobody gave")
		}
		m.approved, m.review = "", ""
	case run.Restarted:
		m.approved, m.review, m.answered, m.gated = "", "", false, false
	case run.Accepted:
		if !m.answered || len(m.declined) > 0 {
			t.Fatalf("accepted with answered=%v, declined=%v", m.answered, m.declined)
		}
		m.accepted++
		*m = model{declined: map[string]string{}, accepted: m.accepted}
	}
}

func (m *model) answer(t *rapid.T, before run.Run, e run.Event) {
	input := driver.Input{ID: e.Input, Kind: kindOf(e.Input)}
	if e.Kind == run.Answered {
		if e.Seq != before.Step.Question.Seq {
			t.Fatalf("question %d was answered while %d is open", e.Seq, before.Step.Question.Seq)
		}
		input = before.Step.Question.Input
	} else {
		m.mayAnswer(t, input, e.Via)
	}
	delete(m.declined, input.ID)
	if input.Kind == driver.KindApproval {
		m.approved, m.review = e.Approval.Digest, ""
		if e.Approval.ClientReview {
			m.review = e.Approval.Via
		}
		return
	}
	m.answered = true
}

func (m *model) mayAnswer(t *rapid.T, in driver.Input, via string) {
	if by, no := m.declined[in.ID]; no && by != via {
		t.Fatalf("%s answered %q, which was declined through %s", via, in.ID, by)
	}
	if in.Kind == driver.KindApproval || !m.gated {
		return
	}
	if _, no := m.declined[driver.KindApproval]; no || m.approved == "" || (m.review != "" && m.review != via) {
		t.Fatalf("gated evidence through %s without approval (approved %q, review %q)", via, m.approved, m.review)
	}
}

func (m *model) invariants(t *rapid.T, r run.Run) {
	if len(r.Proofs) != m.accepted || r.Step.Index != m.accepted+1 || len(r.Evidence) != m.accepted {
		t.Fatalf("%d proofs, step %d, %d accepted: a step was skipped or credited", len(r.Proofs), r.Step.Index, m.accepted)
	}
	if err := r.Verify(); err != nil {
		t.Fatalf("proof chain: %v", err)
	}
	seen := map[string]bool{r.Step.Nonce: true}
	for _, n := range r.Nonces {
		if seen[n] {
			t.Fatalf("nonce %q is used twice", n)
		}
		seen[n] = true
	}
	if (r.Step.Question != nil) != (r.State == run.Asking) {
		t.Fatalf("state %s with question %v", r.State, r.Step.Question)
	}
	if (r.Step.Call != nil) != (r.State == run.Waiting) {
		t.Fatalf("state %s with call %v", r.State, r.Step.Call)
	}
	if (r.State == run.Complete) && m.accepted != r.StepCount {
		t.Fatalf("complete after %d of %d steps", m.accepted, r.StepCount)
	}
}

func kindOf(id string) string {
	if id == driver.KindApproval {
		return driver.KindApproval
	}
	return driver.KindEvidence
}

func drawEvent(t *rapid.T, r run.Run, i int) run.Event {
	kinds := []run.Kind{
		run.Needed, run.Asked, run.Answered, run.Repaired, run.Supplied, run.RouteClosed, run.Declined, run.Accepted,
		run.Accepted, run.Supplied, run.Rejected, run.Refused, run.Reissued, run.Restarted, run.Lapsed, run.Unanswered, run.Dismissed,
		run.Called, run.Deferred, run.Unsettled, run.Settled, run.Decided,
	}
	input := rapid.SampledFrom([]string{"evidence", "evidence", driver.KindApproval}).Draw(t, "input")
	via := rapid.SampledFrom([]string{"agent", "elicitation", "sampling"}).Draw(t, "via")
	digest := rapid.SampledFrom([]string{"d1", "d1", "d2"}).Draw(t, "digest")
	nonce := rapid.SampledFrom([]string{fmt.Sprintf("fresh%d", i), "n0", ""}).Draw(t, "nonce")
	e := run.Event{
		Kind:  rapid.SampledFrom(kinds).Draw(t, "kind"),
		Run:   rapid.SampledFrom([]run.ID{"r1", "r1", "r1", "r1", "r2"}).Draw(t, "run"),
		Step:  r.Step.Index + rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(t, "step"),
		At:    epoch,
		Input: input, Via: via, Code: "X", Nonce: nonce, Digest: digest,
		Gated:  rapid.Bool().Draw(t, "gated"),
		Inputs: []driver.Input{evidenceInput()},
		Seq:    r.Seq + rapid.SampledFrom([]int64{0, 0, 1, -1}).Draw(t, "seq"),
	}
	e.Question = &run.Question{Seq: r.Seq + rapid.SampledFrom([]int64{1, 1, 0}).Draw(t, "qseq"), Input: driver.Input{ID: input, Kind: kindOf(input)}, Via: via}
	e.Answer = &driver.Answer{InputID: input, Value: json.RawMessage(`{}`), Via: via}
	e.Approval = &run.Approval{Digest: digest, Via: via, ClientReview: rapid.Bool().Draw(t, "review")}
	if rapid.IntRange(0, 3).Draw(t, "old") == 0 {
		e.Approval.ExpiresAt = epoch.Add(-time.Second)
	}
	e.Attempt = &run.Attempt{Input: input, Via: via, Outcome: "unavailable"}
	e.Reason = "because"
	of := rapid.SampledFrom([]string{input, input, ""}).Draw(t, "call of")
	e.Call = &run.Call{
		Input: of, Driver: via, Key: rapid.SampledFrom([]string{"k1", "k1", "k2"}).Draw(t, "key"), Attempt: r.Step.Attempts[of] + rapid.SampledFrom([]int{1, 1, 1, 2, 0}).Draw(t, "attempt"),
		Acts: rapid.Bool().Draw(t, "acts"), At: epoch, Pending: &driver.Pending{Reason: "running"},
	}
	e.Decision = &run.Decision{Happened: rapid.Bool().Draw(t, "happened"), By: "alice"}
	if e.Kind == run.Accepted {
		a := accepts(t, r, nonce)
		e.Proof, e.Evidence = a.Proof, a.Evidence
		if rapid.IntRange(0, 5).Draw(t, "forge") == 0 {
			forged := *e.Proof
			forged.Previous = "0000"
			e.Proof = &forged
		}
	}
	return e
}

func TestALiveRunCanBeGivenUpInAnyState(t *testing.T) {
	for _, kind := range []run.Kind{run.Expired, run.Abandoned} {
		open := newRun("r1", 1)
		asking := must(t, must(t, open, needs(false)), run.Event{Kind: run.Asked, Question: &run.Question{
			Seq: 1, Input: evidenceInput(), Via: "elicitation", Human: true,
		}})
		complete := must(t, must(t, open, needs(false)), supplies("agent"))
		complete = must(t, complete, accepts(t, complete, ""))
		for _, r := range []run.Run{open, asking, complete} {
			over := must(t, r, run.Event{Kind: kind})
			if over.State != run.Ended || over.Step.Question != nil {
				t.Errorf("%s in state %s = %s with question %v, want ended and none", kind, r.State, over.State, over.Step.Question)
			}
			refuses(t, over, run.Event{Kind: run.Abandoned}, run.ErrImpossible)
			refuses(t, over, run.Event{Kind: run.Attested, Outcome: "success"}, run.ErrImpossible)
		}
	}
}

// Proofs that were made before the isolation of drivers was recorded keep their hash.
func TestDriverWithoutIsolationIsWrittenAsBefore(t *testing.T) {
	b, err := json.Marshal(run.DriverRef{Name: "shell", Version: "1.0.0", SHA256: "ab"})
	if want := `{"name":"shell","version":"1.0.0","sha256":"ab"}`; err != nil || string(b) != want {
		t.Errorf("Marshal = %s, %v, want %s", b, err, want)
	}
}

// pays is a call of a driver that changes the world to obtain the evidence.
func pays(attempt int) *run.Call {
	return &run.Call{Input: "evidence", Driver: "pay", Key: fmt.Sprint("key", attempt), Attempt: attempt, Acts: true, At: epoch}
}

func TestACallThatMayHaveActedIsNotMadeTwice(t *testing.T) {
	r := must(t, must(t, newRun("r1", 1), needs(false)), run.Event{Kind: run.Called, Call: pays(1)})
	if r.State != run.Waiting || !r.State.Live() {
		t.Errorf("state = %s, want waiting", r.State)
	}
	refuses(t, r, run.Event{Kind: run.Called, Call: pays(1)}, run.ErrImpossible)
	refuses(t, r, run.Event{Kind: run.Called, Call: pays(2)}, run.ErrImpossible)
	refuses(t, r, run.Event{Kind: run.Restarted}, run.ErrImpossible)
	refuses(t, r, supplies("agent"), run.ErrImpossible)
	refuses(t, r, run.Event{Kind: run.Asked, Question: &run.Question{Seq: 1, Input: evidenceInput(), Via: "elicitation"}}, run.ErrImpossible)
	refuses(t, r, run.Event{Kind: run.Rejected, Code: "X"}, run.ErrImpossible)

	lost := must(t, r, run.Event{Kind: run.Unsettled, Reason: "it did not answer"})
	if lost.Step.Call == nil || lost.Step.Call.Unknown != "it did not answer" {
		t.Errorf("call = %+v, want why it is unknown", lost.Step.Call)
	}
	again := must(t, lost, run.Event{Kind: run.Settled, Reason: "not done"})
	refuses(t, again, run.Event{Kind: run.Called, Call: pays(1)}, run.ErrImpossible)
	must(t, again, run.Event{Kind: run.Called, Call: pays(2)})
	must(t, lost, supplies("pay"))
}

func TestAPersonDecidesWhatCameOfACall(t *testing.T) {
	r := must(t, must(t, newRun("r1", 1), needs(false)), run.Event{Kind: run.Called, Call: pays(1)})
	by := func(happened bool) *run.Decision { return &run.Decision{Happened: happened, By: "alice"} }
	refuses(t, r, run.Event{Kind: run.Decided, Decision: &run.Decision{}}, run.ErrImpossible)
	refuses(t, r, run.Event{Kind: run.Decided, Decision: by(true)}, run.ErrImpossible)

	not := must(t, r, run.Event{Kind: run.Decided, Decision: by(false)})
	if not.State != run.Open || not.Step.Call != nil || not.Step.Attempt("evidence") != 2 {
		t.Errorf("after it did not happen = %s with %+v, attempt %d, want open and attempt 2", not.State, not.Step.Call, not.Step.Attempt("evidence"))
	}
	answer := driver.Answer{InputID: "evidence", Value: json.RawMessage(`{"paid":true}`), Via: "pay"}
	did := must(t, r, run.Event{Kind: run.Decided, Decision: by(true), Answer: &answer})
	must(t, did, accepts(t, did, ""))
}

func TestWhatWasApprovedWhenItBeganMayTakeItsTime(t *testing.T) {
	r := must(t, must(t, newRun("r1", 1), needs(true)), approves("elicitation", "d1", epoch.Add(time.Hour)))
	r = must(t, r, run.Event{Kind: run.Deferred, Call: &run.Call{
		Input: "evidence", Driver: "folder", Attempt: 1, At: epoch, Pending: &driver.Pending{Reason: "alice was asked"},
	}})
	late := supplies("folder")
	late.At = epoch.Add(24 * time.Hour)
	must(t, r, late)
}

func TestAttemptsAreCountedByWhatCameOfThem(t *testing.T) {
	r := must(t, newRun("r1", 1), needs(false))
	attempts := func(r run.Run) [2]int { return [2]int{r.Step.Attempt("evidence"), r.Step.Attempt("")} }
	if got := attempts(r); got != [2]int{1, 1} {
		t.Errorf("attempts = %v, want the first", got)
	}
	closed := must(t, r, run.Event{Kind: run.RouteClosed, Attempt: &run.Attempt{Input: "evidence", Via: "folder"}})
	if got := attempts(closed); got != [2]int{2, 1} {
		t.Errorf("attempts after a closed route = %v, want another one at the input", got)
	}
	problem := []driver.Diagnostic{driver.Problem("/ok", "is missing")}
	r = must(t, must(t, r, supplies("folder")), run.Event{Kind: run.Rejected, Code: "X", Diagnostics: problem})
	if diff := cmp.Diff(problem, r.Step.Refused["evidence"]); diff != "" || attempts(r) != [2]int{2, 2} {
		t.Errorf("attempts after a rejection = %v, want another one at both, and why (-want +got):\n%s", attempts(r), diff)
	}
}
