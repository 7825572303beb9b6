package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const threeSteps = "# Three Steps\n\n## First\n\nbody one\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n" +
	"\n## Second\n\nbody two\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"b\"}}}\n```\n" +
	"\n## Third\n\nbody three\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{}}}\n```\n"

func TestAnAgentWalksAProtocol(t *testing.T) {
	for name, convention := range map[string]func(uris []string, step int) string{
		"uri is the step being solved": func(uris []string, step int) string { return uris[step] },
		"uri is the step after it":     func(uris []string, step int) string { return uris[min(step+1, len(uris)-1)] },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint(threeSteps)
			r := w.begin(uris[0])
			w.at(r, uris[0])
			if r.Challenge.ProofHash != run.Genesis || len(r.Challenge.Nonce) != 56 {
				t.Errorf("challenge = %+v, want the genesis hash and a nonce of 56 digits", r.Challenge)
			}
			for step := range uris {
				r = w.next(convention(uris, step), solve(r, `{"ok":true}`))
				w.code(r, "")
				w.at(r, uris[min(step+1, 2)])
				if r.ProofHash == "" || r.ProofHash != r.Challenge.ProofHash {
					t.Errorf("step %d: proof_hash %q, challenge expects %q: want the same, non-empty", step, r.ProofHash, r.Challenge.ProofHash)
				}
			}
			if !strings.Contains(r.NextAction, "kairos_attest with "+uris[2]) {
				t.Errorf("next_action = %q, want the call of kairos_attest", r.NextAction)
			}
			a, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[2], Outcome: "success", Message: "done"})
			if err != nil || !a.Verified || a.Results[0].QualityBonus != 5 {
				t.Errorf("Attest = %+v, %v, want verified with bonus 5", a, err)
			}
		})
	}
}

func TestWrongSolutionsAreRefusedAndCounted(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	for name, tc := range map[string]struct {
		solution func(r *api.StepReply) string
		want     string
		counted  int
	}{
		"a failed command": {func(r *api.StepReply) string { return solve(r, `{"ok":false,"x":1}`) }, "COMMAND_FAILED", 1},
		"another type": {func(r *api.StepReply) string {
			return strings.ReplaceAll(solve(r, `{"ok":true}`), `"shell"`, `"comment"`)
		}, "TYPE_MISMATCH", 1},
		"a wrong hash": {func(r *api.StepReply) string {
			return strings.Replace(solve(r, `{"ok":true}`), r.Challenge.ProofHash, strings.Repeat("0", 64), 1)
		}, "PROOF_HASH_MISMATCH", 1},
		"no hash": {func(r *api.StepReply) string {
			return fmt.Sprintf(`{"type":"shell","nonce":%q,"shell":{"ok":true}}`, r.Challenge.Nonce)
		}, "MISSING_FIELD", 1},
		"a placeholder": {placeholder, "MISSING_FIELD", 0},
		"nothing":       {func(*api.StepReply) string { return "" }, "MISSING_FIELD", 0},
		"an unknown nonce": {func(*api.StepReply) string {
			return `{"type":"shell","nonce":"ffffffffffffffffffffffffffffffff","shell":{"ok":true}}`
		}, "NONCE_MISMATCH", 1},
		"not only an agent": {func(r *api.StepReply) string { return solve(r, `"text"`) }, "MISSING_FIELD", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.caller.Connection = name
			r := w.begin(uris[0])
			failed := w.next(uris[0], tc.solution(r))
			w.code(failed, tc.want)
			if failed.RetryCount == nil || *failed.RetryCount != tc.counted {
				t.Errorf("retry_count = %v, want %d", failed.RetryCount, tc.counted)
			}
			if failed.Challenge.Nonce != r.Challenge.Nonce {
				t.Errorf("nonce changed from %s to %s after a failure", r.Challenge.Nonce, failed.Challenge.Nonce)
			}
			w.code(w.next(uris[0], solve(failed, `{"ok":true}`)), "")
		})
	}
}

func TestTheThirdFailureOffersThreeWaysOut(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	for i := 1; i <= 3; i++ {
		r = w.next(uris[0], solve(r, `{"ok":false,"n":0}`))
		if got := *r.RetryCount; got != i {
			t.Fatalf("retry_count = %d, want %d", got, i)
		}
		if r.MustObey != (i < 3) {
			t.Errorf("failure %d: must_obey = %v", i, r.MustObey)
		}
	}
	w.code(r, "MAX_RETRIES_EXCEEDED")
	for _, want := range []string{"kairos_update with " + uris[0], "kairos_attest with " + uris[0], "ask the user"} {
		if !strings.Contains(r.NextAction, want) {
			t.Errorf("next_action = %q, want it to offer %q", r.NextAction, want)
		}
	}
}

func TestARepeatGetsTheRecordedReplyAndAReplayDoesNot(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	s := solve(r, `{"ok":true}`)
	first := w.next(uris[0], s)
	again := w.next(uris[1], s)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the repeat got another reply (-first +again):\n%s", diff)
	}
	replay := w.next(uris[0], strings.Replace(s, "true", "true,\"more\":1", 1))
	w.code(replay, "NONCE_MISMATCH")
	w.at(replay, uris[1])
	w.code(w.next(uris[1], solve(first, `{"ok":true}`)), "")
}

func TestTwoRunsOfOneProtocolNeverTouch(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	a, b := w.begin(uris[0]), w.begin(uris[0])
	a2 := w.next(uris[0], solve(a, `{"ok":true}`))
	w.at(a2, uris[1])
	crossed := strings.Replace(solve(b, `{"ok":true}`), b.Challenge.Nonce, a2.Challenge.Nonce, 1)
	w.code(w.next(uris[0], crossed), "PROOF_HASH_MISMATCH")
	b2 := w.next(uris[0], solve(b, `{"ok":true}`))
	w.at(b2, uris[1])
	if a2.RunID == b2.RunID {
		t.Error("two begins share a run")
	}
}

func TestWithoutANonceTheRunMustBeClear(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	next := func() error {
		_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0]})
		return err
	}
	if got := fault.CodeOf(next()); got != fault.NoOpenRun {
		t.Errorf("without a run: %s, want NO_OPEN_RUN", got)
	}
	w.begin(uris[0])
	w.caller.Connection = "c2"
	w.begin(uris[0])
	w.caller.Connection = ""
	err := next()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.AmbiguousRun || len(f.Details["candidates"].([]string)) != 2 {
		t.Errorf("with two runs: %v, want AMBIGUOUS_RUN and both candidates", err)
	}
	a, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[0], Outcome: "success", Message: "m"})
	if err != nil || a.Verified || a.ErrorCode != string(fault.AmbiguousRun) {
		t.Errorf("ambiguous attest = %+v, %v, want unverified AMBIGUOUS_RUN", a, err)
	}
	w.caller.Connection = "c2"
	if err := next(); err != nil {
		t.Errorf("the connection's own newest run: %v", err)
	}
}

func TestAnotherPrincipalSeesNothing(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	mine := w.caller
	w.caller.Principal, w.caller.Space = "you", "user:test:you"
	if _, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0]}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("begin of a foreign protocol: %v, want NOT_FOUND", err)
	}
	if _, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(solve(r, `{"ok":true}`))}); err == nil {
		t.Error("a foreign nonce was taken")
	}
	if _, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: r.RunID}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("resuming a foreign run: %v, want NOT_FOUND", err)
	}
	w.caller = mine
	w.code(w.next(uris[0], solve(r, `{"ok":true}`)), "")
}

const approvedStep = "# Approve\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"go\"},\"sampling\":{\"user\":\"go now\"}}}\n```\n"

func TestApprovalStandsInFront(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(approvedStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
	question := w.ask(w.beginRound(uri, ""), "elicitation/create")
	if !strings.Contains(string(question.Params), "go now") {
		t.Errorf("the approval shows %s, want the prompt it is for", question.Params)
	}
	approved := w.reply(w.answer(question, `{"action":"accept","content":{"confirmation":"approved"}}`))
	w.at(approved, uri)
	w.code(approved, "")
	work := w.ask(w.nextRound(uri, placeholder(approved)), "sampling/createMessage")
	done := w.reply(w.answer(work, `{"action":"accept","content":{"ok":true}}`))
	w.code(done, "")
	if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.ModelGenerated {
		t.Errorf("solved = %+v, want one model-generated step", done.Solved)
	}
	line, err := w.Timeline(t.Context(), w.caller, run.ID(done.RunID))
	if err != nil || !line.Verified {
		t.Fatalf("Timeline = %+v, %v, want verified", line, err)
	}
	var told []string
	for _, m := range line.Moments {
		told = append(told, m.What+" "+m.Via)
	}
	want := []string{"asked elicitation", "approved elicitation", "asked sampling", "answered sampling", "accepted sampling"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

// A step's own words for the model change what is approved as much as its prompt.
func TestAnApprovalShowsWhatTheStepTellsAModelBesides(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(strings.Replace(approvedStep, `"user":"go now"`, `"system":"obey the model of the house","user":"go now"`, 1))[0]
	w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
	question := w.ask(w.beginRound(uri, ""), "elicitation/create")
	if !strings.Contains(string(question.Params), "obey the model of the house") {
		t.Errorf("the approval shows %s, want the system prompt of the step", question.Params)
	}
}

// What is approved is shown whole: nothing hides behind its length.
func TestAnApprovalShowsALongActionToItsEnd(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(strings.Replace(approvedStep, "go now", "go "+strings.Repeat("a", 20_000)+" and remove everything", 1))[0]
	w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
	question := w.ask(w.beginRound(uri, ""), "elicitation/create")
	if !strings.Contains(string(question.Params), "and remove everything") {
		t.Error("the approval shows a long prompt only in part")
	}
}

func TestANoStandsAgainstTheAgent(t *testing.T) {
	w := newWorld(t, func(o *choices) { o.Settings.Approval.TrustAgent = true })
	uri := w.mint(approvedStep)[0]
	full := driver.Client{ElicitationForm: true, Sampling: true}
	w.caller.Client = full
	question := w.ask(w.beginRound(uri, ""), "elicitation/create")
	declined := w.reply(w.answer(question, `{"action":"decline"}`))
	w.code(declined, "USER_DECLINED")

	w.caller.Client = driver.Client{} // the agent comes back as a client that has nobody to ask
	r := w.next(uri, fmt.Sprintf(`{"type":"user_input","nonce":%q,"proof_hash":%q,"user_input":{"confirmation":"approved"}}`,
		declined.Challenge.Nonce, declined.Challenge.ProofHash))
	w.code(r, "USER_DECLINED")
	r = w.next(uri, solve(declined, `{"ok":true}`))
	w.code(r, "MAX_RETRIES_EXCEEDED")

	w.caller.Client = full
	question = w.ask(w.nextRound(uri, placeholder(declined)), "elicitation/create")
	w.code(w.reply(w.answer(question, `{"action":"accept","content":{"confirmation":"approved"}}`)), "")
}

func TestANoIsAskedAgainOnlySoOften(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(approvedStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
	round := w.beginRound(uri, "")
	var r *api.StepReply
	for range 3 {
		r = w.reply(w.answer(w.ask(round, "elicitation/create"), `{"action":"decline"}`))
		round = w.nextRound(uri, placeholder(r))
	}
	w.code(r, "MAX_RETRIES_EXCEEDED")
	last := w.reply(round)
	w.code(last, "USER_DECLINED")
	if last.MustObey || !strings.Contains(last.NextAction, "kairos_attest") {
		t.Errorf("after the third no: must_obey %v, next_action %q, want the ways out", last.MustObey, last.NextAction)
	}
}

const askStep = "# Ask\n\n## Confirm\n\nask\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"ok?\"}}}\n```\n"

func TestANoStandsThoughNobodyCouldReadIt(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(askStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true}
	r := w.begin(uri)
	ask := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	w.drivers.set("reading elicitation", true)
	w.code(w.reply(w.answer(ask, `{"action":"decline"}`)), "DRIVER_UNAVAILABLE")
	w.drivers.set("reading elicitation", false)
	w.code(w.next(uri, solve(r, `{"confirmation":"approved"}`)), "USER_DECLINED")
	ask = w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	w.code(w.reply(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved"}}`)), "")
}

func TestANoToAnOlderCopyOfTheQuestionStands(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(askStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true}
	r := w.begin(uri)
	first := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	w.code(w.reply(w.answer(first, `{"action":"decline"}`)), "USER_DECLINED")
	w.code(w.next(uri, solve(r, `{"confirmation":"approved"}`)), "USER_DECLINED")
}

func TestAYesToAnOlderCopyOfTheQuestionIsTooLate(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(askStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true}
	r := w.begin(uri)
	first := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	if late := w.reply(w.answer(first, `{"action":"accept","content":{"confirmation":"approved"}}`)); len(late.Solved) != 0 {
		t.Errorf("solved = %+v, want nothing", late.Solved)
	}
}

func TestNoDriverGetsAroundAnApproval(t *testing.T) {
	const doc = "# Gated\n\n## One\n\nx\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"approval_mode\":\"user\",\"shell\":{\"cmd\":\"a\"}}}\n```\n"
	for knob, want := range map[string]string{
		"claims a person shell":         "APPROVAL_UNAVAILABLE",
		"asks for another kind shell":   "APPROVAL_UNAVAILABLE",
		"takes the approval's id shell": "DRIVER_UNAVAILABLE",
	} {
		t.Run(knob, func(t *testing.T) {
			w := newWorld(t, nil)
			uri := w.mint(doc)[0]
			w.drivers.set(knob, true)
			r := w.begin(uri)
			w.code(r, want)
			r = w.next(uri, solve(r, `{"ok":true}`))
			w.code(r, want)
			if len(r.Solved) != 0 {
				t.Errorf("solved = %+v without an approval", r.Solved)
			}
		})
	}
}

func TestFailuresDoNotUseUpAPersonsWord(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(approvedStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true}
	r := w.reply(w.answer(w.ask(w.beginRound(uri, ""), "elicitation/create"), `{"action":"accept","content":{"confirmation":"approved"}}`))
	for range 3 {
		r = w.next(uri, `{"type":"mcp","nonce":"`+r.Challenge.Nonce+`","proof_hash":"bad"}`)
	}
	r = w.next(uri, solve(r, `{"ok":false,"n":1}`))
	r = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), `{"action":"decline"}`))
	w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
}

func TestTheNewestRunOfAConnectionIsTheLastBegun(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	first, second := w.begin(uris[0]), w.begin(uris[0])
	w.next(uris[0], solve(first, `{"ok":true}`))
	if got := w.next(uris[0], ""); got.RunID != second.RunID {
		t.Errorf("without a nonce = run %s, want the last begun, %s", got.RunID, second.RunID)
	}
}

func TestApprovalWithoutAPerson(t *testing.T) {
	t.Run("nobody can be asked", func(t *testing.T) {
		w := newWorld(t, nil)
		uri := w.mint(approvedStep)[0]
		r := w.begin(uri)
		w.code(r, "APPROVAL_UNAVAILABLE")
		w.code(w.next(uri, solve(r, `{"ok":true}`)), "APPROVAL_UNAVAILABLE")
	})
	t.Run("the agent is trusted", func(t *testing.T) {
		w := newWorld(t, func(o *choices) { o.Settings.Approval.TrustAgent = true })
		uri := w.mint(approvedStep)[0]
		r := w.begin(uri)
		if r.Challenge.Type != "user_input" {
			t.Fatalf("challenge = %+v, want the approval first", r.Challenge)
		}
		early := fmt.Sprintf(`{"type":"mcp","nonce":%q,"proof_hash":%q,"mcp":{"ok":true}}`, r.Challenge.Nonce, r.Challenge.ProofHash)
		w.code(w.next(uri, early), "TYPE_MISMATCH")
		r = w.next(uri, solve(r, `{"confirmation":"approved"}`))
		w.code(r, "")
		if r.Challenge.Type != "mcp" {
			t.Fatalf("challenge = %+v, want the work after the approval", r.Challenge)
		}
		w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
	})
	t.Run("the client reviews the request", func(t *testing.T) {
		w := newWorld(t, nil)
		uri := w.mint(approvedStep)[0]
		w.caller.Client = driver.Client{Sampling: true}
		work := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
		w.code(w.reply(w.answer(work, `{"action":"accept","content":{"ok":true}}`)), "")
	})
	t.Run("the reviewed request fails", func(t *testing.T) {
		w := newWorld(t, nil)
		uri := w.mint(approvedStep)[0]
		w.caller.Client = driver.Client{Sampling: true}
		round := w.beginRound(uri, "")
		for range 2 {
			round = w.answer(w.ask(round, "sampling/createMessage"), `"prose"`)
		}
		r := w.reply(round)
		w.code(r, "APPROVAL_UNAVAILABLE")
		w.code(w.next(uri, solve(r, `{"ok":true}`)), "APPROVAL_UNAVAILABLE")
	})
}

const sampledStep = "# Sampled\n\n## Find\n\nfind\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{\"tool_name\":\"find\"},\"sampling\":{\"user\":\"find it\"},\"output_schema\":{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}}}}}\n```\n"

func TestAnInvalidReplyIsRepairedOnceThenTheAgentIsAsked(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	first := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	repair := w.ask(w.answer(first, `"I found it!"`), "sampling/createMessage")
	if !strings.Contains(string(repair.Params), `"problems":1`) || repair.Seq <= first.Seq {
		t.Errorf("repair = %+v, want a new number and the diagnostics", repair)
	}
	again := w.ask(w.answer(first, `"I found it!"`), "sampling/createMessage")
	if again.Seq != repair.Seq {
		t.Errorf("a repeat of the first reply asks question %d, want %d again", again.Seq, repair.Seq)
	}
	r := w.reply(w.answer(repair, `"Really!"`))
	w.at(r, uri)
	w.code(r, "SAMPLING_FAILED")
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
}

func TestExtraKeysOfTheServersOwnEvidenceNeverAdvance(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	ask := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	r := w.reply(w.answer(ask, `{"action":"accept","content":{"ok":true,"extra":1}}`))
	w.code(r, "OUTPUT_INVALID")
	if len(r.Solved) != 0 {
		t.Errorf("solved = %+v, want nothing", r.Solved)
	}
}

func TestAReplyIsTakenOnce(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	ask := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	const good = `{"action":"accept","content":{"ok":true}}`
	first := w.reply(w.answer(ask, good))
	if diff := cmp.Diff(first, w.reply(w.answer(ask, good))); diff != "" {
		t.Errorf("a repeat of the reply differs (-first +again):\n%s", diff)
	}
	_, err := w.Continue(t.Context(), w.caller, director.Continuation{Run: ask.Run, Seq: ask.Seq, Result: json.RawMessage(`{"action":"cancel"}`)})
	if fault.CodeOf(err) != fault.Replayed {
		t.Errorf("another reply to the same question: %v, want REPLAYED", err)
	}
}

func TestAQuestionAskedTwiceInVainIsAbandoned(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	ask := w.ask(w.nextRound(uri, ""), "sampling/createMessage")
	old := w.reply(w.nextRound(uri, ""))
	w.at(old, uri)
	w.code(old, "SAMPLING_FAILED")
	late := w.reply(w.answer(ask, `{"action":"accept","content":{"ok":true}}`))
	w.at(late, uri)
	if len(late.Solved) != 0 {
		t.Error("the answer to an abandoned question was taken")
	}
}

func TestAPersonMayTakeTime(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(askStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true}
	shown := w.begin(uri) // nobody is asked before the work is done
	ask := w.ask(w.nextRound(uri, placeholder(shown)), "elicitation/create")
	waiting, err := w.Waiting(t.Context(), w.caller, ask.Run, ask.Seq)
	if err != nil || waiting.ErrorCode != "WAITING_FOR_USER" || *waiting.RetryCount != 0 {
		t.Fatalf("Waiting = %+v, %v, want WAITING_FOR_USER and no retry counted", waiting, err)
	}
	held := w.caller
	held.Holding = func(id run.ID, seq int64) bool { return id == ask.Run && seq == ask.Seq }
	joined, err := w.Next(t.Context(), held, api.NextRequest{URI: uri, Solution: json.RawMessage(placeholder(shown))})
	if err != nil || joined.Ask == nil || joined.Ask.Seq != ask.Seq {
		t.Fatalf("a call while the question is open = %+v, %v, want the same question", joined, err)
	}
	late := w.caller
	late.Detached = true
	done, err := w.Continue(t.Context(), late, director.Continuation{
		Run: ask.Run, Seq: ask.Seq, Result: json.RawMessage(`{"action":"accept","content":{"confirmation":"approved"}}`),
	})
	if err != nil || done.Reply == nil {
		t.Fatalf("late answer = %+v, %v", done, err)
	}
	told := w.next(uri, placeholder(shown))
	if len(told.Solved) != 1 || told.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("the next call tells %+v, want the step that was solved meanwhile", told)
	}
}

func TestBrokenDriversCostNoRetry(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	w.drivers.set("shell", true)
	waiting := w.next(uris[0], solve(r, `{"ok":true}`))
	w.code(waiting, "DRIVER_UNAVAILABLE")
	if *waiting.RetryCount != 0 {
		t.Errorf("retry_count = %d, want 0", *waiting.RetryCount)
	}
	w.drivers.set("shell", false)
	w.at(w.next(uris[0], solve(r, `{"ok":true}`)), uris[1])
}

func TestADriverCannotDecideWithoutEvidence(t *testing.T) {
	for _, knob := range []string{"hasty shell", "rash shell"} {
		w := newWorld(t, nil)
		uris := w.mint(threeSteps)
		w.drivers.set(knob, true)
		r := w.begin(uris[0])
		w.at(r, uris[0])
		w.code(r, "DRIVER_UNAVAILABLE")
		w.drivers.set(knob, false)
		w.at(w.next(uris[0], solve(r, `{"ok":true}`)), uris[1])
	}
}

func TestABrokenCapabilityGivesWayToTheNextRoute(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	w.drivers.set("sampling", true)
	r := w.begin(uri)
	w.at(r, uri)
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
}

func TestResultsFeedLaterSteps(t *testing.T) {
	const doc = "# Feed\n\nNeeds a name.\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"}},\"required\":[\"who\"]}}\n```\n\n" +
		"## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"one\",\"shell\":{\"cmd\":\"greet {{ input.who }} {{.Name}}\"}}}\n```\n" +
		"\n## Two\n\ntwo\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"use {{ steps.one.found }}\"}}}\n```\n"
	w := newWorld(t, nil)
	uris := w.mint(doc)
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0]})
	if fault.CodeOf(err) != fault.MissingInput || !strings.Contains(err.Error(), "who") {
		t.Errorf("Begin without input: %v, want MISSING_INPUT that names who", err)
	}
	if runs, err := w.AllRuns(t.Context(), w.caller, archive.RunsInput{}); err != nil || len(runs.Runs) != 0 {
		t.Errorf("a begin that lacks input left runs %v, %v", runs, err)
	}
	_, err = w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], Input: json.RawMessage(`{"who":7}`)})
	if fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("Begin with a wrong input: %v, want INVALID_ARGUMENT", err)
	}
	r := w.reply(w.beginRound(uris[0], `{"who":"Betty"}`))
	if got, want := string(r.Challenge.Display), `{"cmd":"greet Betty {{.Name}}"}`; got != want {
		t.Errorf("challenge = %s, want %s", got, want)
	}
	r = w.next(uris[0], solve(r, `{"ok":true,"found":[1,2]}`))
	if got, want := string(r.Challenge.Display), `{"cmd":"use [1,2]"}`; got != want {
		t.Errorf("challenge = %s, want %s", got, want)
	}
}

// The driver is never sent what it cannot take, and the agent is told what to do.
func TestAChallengeThatItsValuesMakeTooLargeIsAClearFault(t *testing.T) {
	doc := "# Feed\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"string\"}},\"required\":[\"v\"]}}\n```\n\n" +
		"## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"" + strings.Repeat("{{ input.v }} ", 100) + "\"}}}\n```\n"
	w := newWorld(t, nil)
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: w.mint(doc)[0], Input: json.RawMessage(`{"v":"` + strings.Repeat("x", 300<<10) + `"}`)})
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.InvalidArgument || !strings.Contains(f.Message, "challenge of step 1") ||
		!strings.Contains(f.Message, "more than 4194304 bytes longer") || !strings.Contains(f.Next(), "kairos_begin") {
		t.Errorf("Begin = %v, want INVALID_ARGUMENT with the step, the limit and what to do", err)
	}
}

func TestResultsFeedTheTextOfLaterSteps(t *testing.T) {
	const doc = "# Text\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"}},\"required\":[\"who\"]}}\n```\n\n" +
		"## One\n\nGreet {{ input.who }}, not {{ input.name }}.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"one\",\"shell\":{\"cmd\":\"a\"}}}\n```\n" +
		"\n## Two\n\nUse {{ steps.one.found }} and {{.Names}}.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"b\"}}}\n```\n"
	w := newWorld(t, nil)
	minted, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "test", Force: true})
	if err != nil || len(minted.Warnings) != 1 || !strings.Contains(minted.Warnings[0].Message, `no input "name"`) {
		t.Fatalf("Mint = %+v, %v, want one warning", minted, err)
	}
	uri := minted.Items[0].URI
	r := w.reply(w.beginRound(uri, `{"who":"Betty"}`))
	if got, want := r.CurrentStep.Content, "## One\n\nGreet <data from=\"input.who\">\"Betty\"</data>, not {{ input.name }}."; got != want {
		t.Errorf("content = %q, want %q", got, want)
	}
	r = w.next(uri, solve(r, `{"ok":true,"found":"red herring"}`))
	if got, want := r.CurrentStep.Content, "## Two\n\nUse <data from=\"steps.one.found\">\"red herring\"</data> and {{.Names}}."; got != want {
		t.Errorf("content = %q, want %q", got, want)
	}
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
	reply, err := w.redact(runOf(r), 1)
	if err != nil || fmt.Sprint(reply.Quoting) != "[2]" {
		t.Fatalf("Redact(step 1) = %+v, %v, want it to find the text of step 2", reply, err)
	}
	w.lacks(runOf(r), "red herring")
}

func TestMissingInputIsAskedOfThePerson(t *testing.T) {
	const doc = "# Greet\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"},\"how\":{\"type\":\"string\"}},\"required\":[\"who\",\"how\"]}}\n```\n\n" +
		"## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"{{ input.how }} {{ input.who }}\"}}}\n```\n"
	w := newWorld(t, nil)
	uri := w.mint(doc)[0]
	w.caller.Client = driver.Client{ElicitationForm: true}
	ask := w.ask(w.beginRound(uri, `{"how":"wave"}`), "elicitation/create")
	if strings.Contains(string(ask.Params), "how") || !strings.Contains(string(ask.Params), "who") {
		t.Errorf("the form asks %s, want only what is missing", ask.Params)
	}
	r := w.reply(w.answer(ask, `{"action":"accept","content":{"who":"Betty"}}`))
	if got, want := string(r.Challenge.Display), `{"cmd":"wave Betty"}`; got != want {
		t.Errorf("challenge = %s (%s %s), want %s", got, r.ErrorCode, r.Message, want)
	}
	w.code(r, "") // the first step is shown: nobody has failed to do it
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")

	ask = w.ask(w.beginRound(uri, ""), "elicitation/create")
	declined := w.reply(w.answer(ask, `{"action":"decline"}`))
	w.code(declined, "USER_DECLINED")
}

func TestRequiredFilesAreNeverTakenOnTheAgentsWord(t *testing.T) {
	const doc = "# Files\n\n## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"},\"files\":[{\"path\":\"x\"}],\"files_required\":%s}}\n```\n"
	for required, want := range map[string]string{"true": "FILES_UNVERIFIED", "false": ""} {
		w := newWorld(t, nil)
		uri := w.mint(fmt.Sprintf(doc, required))[0]
		r := w.next(uri, solve(w.begin(uri), `{"ok":true}`))
		w.code(r, want)
		if len(r.Solved) != 0 {
			t.Errorf("files_required %s: solved without a word about the files", required)
		}
		if want == "" {
			w.code(w.next(uri, report(r, `{"files":[{"path":"x","exists":true,"size":1,"sha256":"`+someDigest+`"}]}`)), "")
		}
	}
}

func TestAStepWithoutChallengeTakesAnyWellFormedSolution(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Free\n\n## One\n\nonly prose\n\n## Two\n\nmore prose\n")
	r := w.begin(uris[0])
	r = w.next(uris[0], `{"type":"comment","nonce":"`+r.Challenge.Nonce+`","comment":{"text":"did it"}}`)
	w.at(r, uris[1])
	r = w.next(uris[1], `{"type":"comment","nonce":"`+r.Challenge.Nonce+`"}`)
	if !strings.Contains(r.NextAction, "kairos_attest") {
		t.Errorf("next_action = %q, want attest", r.NextAction)
	}
}

func TestARunIsPinnedToItsProtocol(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	changed := w.mint(strings.ReplaceAll(threeSteps, "body two", "other body"))
	if diff := cmp.Diff(uris, changed); diff != "" {
		t.Errorf("re-mint changed the URIs of steps that kept their names:\n%s", diff)
	}
	r = w.next(uris[0], solve(r, `{"ok":true}`))
	if !strings.Contains(r.CurrentStep.Content, "body two") {
		t.Errorf("content = %q, want the step as it was when the run began", r.CurrentStep.Content)
	}
}

func TestInvalidTextIsRefusedOrRepaired(t *testing.T) {
	w := newWorld(t, nil)
	_, err := w.Mint(t.Context(), w.caller, api.MintRequest{ModelID: "m", Document: "# Half\n\n## One\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a \\ud800\"}}}\n```\n"})
	if fault.CodeOf(err) != fault.StoreFailed || !strings.Contains(err.Error(), "6:14:") {
		t.Errorf("Mint of half a surrogate pair = %v, want STORE_FAILED with its line", err)
	}
	uris := w.mint(threeSteps)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"out":"x \ud800 y"}`))
	w.code(r, "")
	if !strings.Contains(string(r.Solved[0].Output), "\ufffd") {
		t.Errorf("output = %s, want the half pair replaced", r.Solved[0].Output)
	}
}

func TestAValueThatNoCommandCanHoldStopsTheStepThatNeedsIt(t *testing.T) {
	const doc = "# Nul\n\n## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"one\",\"shell\":{\"cmd\":\"a\"}}}\n```\n" +
		"\n## Two\n\ntwo\n\n```json\n{\"challenge\":{\"type\":\"quoted\",\"quoted\":{\"cmd\":\"use {{ steps.one.out }}\"}}}\n```\n"
	w := newWorld(t, nil)
	uris := w.mint(doc)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"out":"a\u0000b"}`))
	w.at(r, uris[1])
	w.code(r, "INVALID_ARGUMENT")
	if len(r.Solved) != 1 {
		t.Errorf("solved = %+v, want the step whose output it is", r.Solved)
	}
}

func TestResumingGivesAFreshNonce(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	first := w.begin(uris[0])
	again, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: first.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	if again.Reply.RunID != first.RunID || again.Reply.Challenge.Nonce == first.Challenge.Nonce {
		t.Errorf("resumed run %s nonce %s, want run %s and a fresh nonce", again.Reply.RunID, again.Reply.Challenge.Nonce, first.RunID)
	}
	old := w.next(uris[0], solve(first, `{"ok":true}`))
	w.code(old, "NONCE_MISMATCH")
	if strings.Contains(old.Message, "solved") {
		t.Errorf("message = %q, but nothing is solved", old.Message)
	}
	w.code(w.next(uris[0], solve(again.Reply, `{"ok":true}`)), "")
}

func TestRunsEndAfterTheirTime(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	w.machine.Pass(8 * 24 * time.Hour)
	_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(solve(r, `{"ok":true}`))})
	if fault.CodeOf(err) != fault.NoOpenRun {
		t.Errorf("Next after 8 days: %v, want NO_OPEN_RUN", err)
	}
}

func TestAttestNeedsNoRunAndSaysSo(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	a, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[2], Outcome: "failure", Message: "m", QualityBonus: 1})
	if err != nil || a.Verified || a.TotalRated != 1 || a.Results[0].QualityBonus != 0.8 {
		t.Errorf("Attest without a run = %+v, %v, want one unverified result of 0.8", a, err)
	}
	w.begin(uris[0])
	a, err = w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[0], Outcome: "success", Message: "m"})
	if err != nil || a.Verified || len(a.MissingSteps) != 3 {
		t.Errorf("Attest of an unsolved run = %+v, %v, want unverified with 3 missing steps", a, err)
	}
}

func TestUnknownURIsPointToSearch(t *testing.T) {
	w := newWorld(t, nil)
	for uri, want := range map[string]fault.Code{
		"kairos://mem/11111111-1111-1111-1111-111111111111": fault.NotFound,
		"kairos://mem/nonsense":                             fault.InvalidArgument,
		"":                                                  fault.InvalidArgument,
	} {
		_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri})
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != want || !strings.Contains(f.NextAction, "kairos_search") {
			t.Errorf("Begin(%q) = %v, want %s with a next action to search", uri, err, want)
		}
	}
}

func TestBuiltInsAreThereAndStay(t *testing.T) {
	w := newWorld(t, nil)
	refine := "kairos://mem/00000000-0000-0000-0000-000000002002"
	r := w.begin(refine)
	w.at(r, refine)
	if r.Challenge.Type != "comment" {
		t.Errorf("refine begins with a %s challenge, want comment", r.Challenge.Type)
	}
	d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{refine}})
	if err != nil || d.TotalFailed != 1 {
		t.Errorf("Delete of a built-in = %+v, %v, want it refused", d, err)
	}
	s, err := w.Spaces(t.Context(), w.caller, api.SpacesRequest{Titles: true})
	if err != nil || len(s.Spaces) != 2 || s.Spaces[1].Name != "Kairos app" || s.Spaces[1].ChainCount < 2 {
		t.Errorf("Spaces = %+v, %v, want Personal and Kairos app with two chains", s, err)
	}
}

func TestACancelledCallWritesNothing(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(ctx, w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(solve(r, `{"ok":true}`))}); err == nil {
		t.Error("a cancelled call was acknowledged")
	}
	w.at(w.next(uris[0], solve(r, `{"ok":true}`)), uris[1])
}

func FuzzSolutionsNeverBreakTheServer(f *testing.F) {
	f.Add(`{"type":"shell","shell":{"ok":true}}`)
	f.Add(`{"type":7}`)
	f.Add(`[]`)
	f.Add(`{"type":"shell","nonce":"x","proof_hash":null,"shell":[[[[]]]],"evidence":{"a":{}}}`)
	f.Add(`{"type":"","":{}}`)
	f.Fuzz(func(t *testing.T, solution string) {
		w := newWorld(t, nil)
		uris := w.mint(threeSteps)
		r := w.begin(uris[0])
		_, _ = w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(solution)})
		w.code(w.next(uris[0], solve(r, `{"ok":true}`)), "")
	})
}
