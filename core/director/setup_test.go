package director_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// staged is a challenge driver that wants two inputs, one after the other, and
// keeps state between them.
type staged struct {
	writes int // version of the state it keeps
	// judge replaces the verdict; nil: accepted.
	judge func() driver.AdvanceResult
	// called is told of every Advance.
	called func(driver.AdvanceRequest)
}

func (staged) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (s staged) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if s.called != nil {
		s.called(req)
	}
	for _, id := range []string{"first", "second"} {
		if _, ok := req.Answer(id); ok {
			continue
		}
		res := driver.Need(driver.Input{
			ID: id, Kind: driver.KindEvidence, Type: "user_input", Person: true, Description: "say the " + id,
			Schema: json.RawMessage(`{"type":"object"}`),
		})
		res.State = driver.State{Version: s.writes, Data: json.RawMessage(`{"at":"` + id + `"}`)}
		return res, nil
	}
	if s.judge != nil {
		return s.judge(), nil
	}
	return driver.Accept(json.RawMessage(`{"stages":2}`), nil), nil
}

// setup is one in which the driver user_input is the given one.
func (w *world) setup(version string, d driver.Challenge, reads ...int) drivers.Setup {
	desc := descriptors["user_input"]
	desc.Version, desc.StateVersions = version, reads
	return w.setupOf(map[string]driver.Challenge{"user_input": d}, desc)
}

// without is a setup of version 1.0.0 that lacks drivers.
func (w *world) without(names ...string) drivers.Setup {
	w.setup("1.0.0", staged{writes: 1}, 1)
	for _, name := range names {
		delete(w.catalog.descriptors, name)
	}
	return w.small()
}

const stagedStep = "# Staged\n\n## Say\n\nsay it\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"say\"}}}\n```\n"

func TestACallEndsUnderTheSetupItBeganUnder(t *testing.T) {
	w := newWorld(t, nil)
	later := w.setup("2.0.0", staged{writes: 1}, 1)
	w.setups.replace(w.setup("1.0.0", staged{writes: 1, called: func(driver.AdvanceRequest) { w.setups.replace(later) }}, 1))
	uri := w.mint(stagedStep)[0]
	r := w.begin(uri) // its Advance puts the later setup in place
	r = w.next(uri, solve(r, `{"ok":true}`))
	w.setups.replace(w.setup("1.0.0", staged{writes: 1, called: func(driver.AdvanceRequest) { w.setups.replace(later) }}, 1))
	before := w.setups.count()
	r = w.next(uri, solve(r, `{"ok":true}`))
	w.code(r, "")
	if got := w.setups.count() - before; got != 1 {
		t.Errorf("one call held %d setups, want 1", got)
	}
	line, err := w.Timeline(t.Context(), w.caller, runOf(r))
	if err != nil {
		t.Fatal(err)
	}
	if got := line.Moments[len(line.Moments)-1]; got.Verdict != "accepted" || got.Driver != "user_input 1.0.0" {
		t.Errorf("the step was judged %s by %q, want accepted by the driver that the call began with", got.Verdict, got.Driver)
	}
}

func TestEveryUseCaseReleasesWhatItHolds(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"begin": func() error { _, err := w.Begin(ctx, w.caller, api.BeginRequest{SessionID: r.RunID}); return err },
		"next":  func() error { _, err := w.Next(ctx, w.caller, api.NextRequest{URI: uris[0]}); return err },
		"continue": func() error {
			_, err := w.Continue(ctx, w.caller, director.Continuation{Run: runOf(r), Seq: 7})
			return err
		},
		"unanswered": func() error { _, err := w.Unanswered(ctx, w.caller, runOf(r), 7); return err },
		"waiting":    func() error { _, err := w.Waiting(ctx, w.caller, runOf(r), 7); return err },
		"lint":       func() error { _, err := w.Lint(ctx, threeSteps); return err },
		"dump":       func() error { _, err := w.Dump(ctx, w.caller, api.DumpRequest{URI: uris[0]}); return err },
		"update": func() error {
			_, err := w.Update(ctx, w.caller, api.UpdateRequest{URIs: uris[:1], Updates: json.RawMessage(`{"text":"t"}`)})
			return err
		},
		"unserved": func() error { _, err := w.Unserved(ctx, w.caller); return err },
	} {
		before := w.setups.count()
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.setups.count() - before; got != 1 {
			t.Errorf("%s held %d setups, want 1", name, got)
		}
	}
}

func TestAStepInFlightContinuesWithADriverThatReadsItsState(t *testing.T) {
	w := newWorld(t, nil)
	w.setups.replace(w.setup("1.0.0", staged{writes: 1}, 1))
	uri := w.mint(stagedStep)[0]
	first := w.begin(uri)
	r := w.next(uri, solve(first, `{"ok":true}`))
	w.code(r, "")
	if !strings.Contains(r.Challenge.Description, "second") || r.Challenge.Nonce == first.Challenge.Nonce {
		t.Fatalf("challenge = %+v, want the second stage under a nonce of its own", r.Challenge)
	}
	w.setups.replace(w.setup("2.0.0", staged{writes: 2}, 1, 2))
	r = w.next(uri, solve(r, `{"ok":true}`))
	w.code(r, "")
	if len(r.Solved) != 1 {
		t.Errorf("reply = %+v, want the step solved with what the earlier version was told", r)
	}
}

func TestAStepInFlightStartsOverWithADriverThatDoesNot(t *testing.T) {
	w := newWorld(t, nil)
	w.setups.replace(w.setup("1.0.0", staged{writes: 1}, 1))
	uri := w.mint(stagedStep)[0]
	second := w.next(uri, solve(w.begin(uri), `{"ok":true}`))
	w.setups.replace(w.setup("2.0.0", staged{writes: 2}, 2))
	r := w.next(uri, solve(second, `{"ok":true}`)) // which answers what 1.0.0 asked for
	if !strings.Contains(r.Message, "starts over: driver user_input 2.0.0") || !strings.Contains(r.Challenge.Description, "first") {
		t.Fatalf("reply = %q, challenge %q; want a notice and the first stage", r.Message, r.Challenge.Description)
	}
	w.code(r, "")
	if diff := cmp.Diff(r, w.next(uri, solve(second, `{"ok":true}`))); diff != "" {
		t.Errorf("a network retry got another reply (-first +again):\n%s", diff)
	}
	if r.RetryCount != nil && *r.RetryCount != 0 {
		t.Errorf("retry_count = %d, want none counted", *r.RetryCount)
	}
	r = w.next(uri, solve(r, `{"ok":true}`))
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
}

// asked begins a run whose second stage is put to a person.
func (w *world) asked() (uri string, a *director.Ask) {
	w.t.Helper()
	w.caller.Client = driver.Client{ElicitationForm: true}
	w.setups.replace(w.setup("1.0.0", staged{writes: 1}, 1))
	uri = w.mint(stagedStep)[0]
	r := w.begin(uri)
	r = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), sampled))
	return uri, w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
}

func TestAPersonsAnswerReachesADriverThatReadsTheState(t *testing.T) {
	w := newWorld(t, nil)
	_, a := w.asked()
	w.setups.replace(w.setup("2.0.0", staged{writes: 2}, 1, 2))
	r := w.reply(w.answer(a, sampled))
	w.code(r, "")
	if len(r.Solved) != 1 || r.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("solved = %+v, want the step, on the person's word", r.Solved)
	}
}

func TestAPersonIsAskedAfreshByADriverThatDoesNot(t *testing.T) {
	w := newWorld(t, nil)
	uri, a := w.asked()
	w.setups.replace(w.setup("2.0.0", staged{writes: 2}, 2))
	r := w.reply(w.answer(a, sampled))
	if !strings.Contains(r.Message, "starts over: driver user_input 2.0.0") || len(r.Solved) != 0 {
		t.Fatalf("reply = %q, solved %v; want a notice and nothing solved", r.Message, r.Solved)
	}
	r = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), sampled))
	w.code(w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), sampled)), "")
}

func TestTheNoticeSurvivesTheQuestionThatFollowsIt(t *testing.T) {
	w := newWorld(t, nil)
	uri, _ := w.asked()
	w.setups.replace(w.setup("2.0.0", staged{writes: 2}, 2))
	again := w.ask(w.nextRound(uri, ""), "elicitation/create")
	r := w.reply(w.answer(again, sampled))
	if !strings.Contains(r.Message, "starts over") {
		t.Errorf("message = %q, want the notice that the challenge started over", r.Message)
	}
}

func TestANoToAQuestionThatARestartReplacedStands(t *testing.T) {
	w := newWorld(t, nil)
	uri, old := w.asked()
	w.setups.replace(w.setup("2.0.0", staged{writes: 2}, 2))
	w.ask(w.nextRound(uri, ""), "elicitation/create")
	w.code(w.reply(w.answer(old, `{"action":"decline"}`)), "USER_DECLINED")
}

func TestAnAnswerIsKeptThoughItsJudgeIsGone(t *testing.T) {
	w := newWorld(t, nil)
	uri, a := w.asked()
	w.setups.replace(w.without("user_input"))
	r := w.reply(w.answer(a, sampled))
	w.code(r, string(fault.DriverUnavailable))
	if *r.RetryCount != 0 {
		t.Errorf("retry_count = %d, want none counted", *r.RetryCount)
	}
	w.setups.replace(w.setup("1.0.1", staged{writes: 1}, 1))
	r = w.next(uri, "")
	w.code(r, "")
	if len(r.Solved) != 1 || r.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("solved = %+v, want the step on the answer that was given meanwhile", r.Solved)
	}
}

func TestANoIsKeptThoughItsJudgeIsGone(t *testing.T) {
	w := newWorld(t, nil)
	uri, a := w.asked()
	w.setups.replace(w.without("user_input"))
	w.reply(w.answer(a, `{"action":"decline"}`))
	w.setups.replace(w.setup("1.0.1", staged{writes: 1}, 1))
	w.caller.Client = driver.Client{}
	r := w.next(uri, "")
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "USER_DECLINED")
}

func TestAPersonsWordThatNobodyReadsAnyMoreIsNotOverruled(t *testing.T) {
	w := newWorld(t, nil)
	uri, a := w.asked()
	w.setups.replace(w.without("elicitation"))
	r := w.reply(w.answer(a, sampled))
	w.code(r, string(fault.DriverUnavailable))
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "USER_DECLINED")
}

func TestARemovedDriverCostsNoRetry(t *testing.T) {
	w := newWorld(t, nil)
	w.setups.replace(w.setup("1.0.0", staged{writes: 1}, 1))
	uri := w.mint(stagedStep)[0]
	r := w.next(uri, solve(w.begin(uri), `{"ok":true}`))
	w.setups.replace(w.without("user_input"))
	waits := w.next(uri, solve(r, `{"ok":true}`))
	w.code(waits, string(fault.DriverUnavailable))
	if *waits.RetryCount != 0 || waits.Challenge.Nonce != r.Challenge.Nonce {
		t.Errorf("retry_count = %d, nonce changed: %v; want nothing counted and the same challenge",
			*waits.RetryCount, waits.Challenge.Nonce != r.Challenge.Nonce)
	}
	// Another type than the challenge's cannot help, and one that there never was is refused.
	lie := strings.Replace(solve(r, `{"ok":true}`), `"user_input"`, `"shell"`, 1)
	if lied := w.next(uri, lie); lied.ErrorCode != string(fault.DriverUnavailable) || *lied.RetryCount != 0 {
		t.Errorf("%s with %d retries for a solution of another type, want DRIVER_UNAVAILABLE and none", lied.ErrorCode, *lied.RetryCount)
	}
	magic := strings.Replace(solve(r, `{"ok":true}`), `"user_input"`, `"magic"`, 1)
	_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uri, Solution: json.RawMessage(magic)})
	if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "solution.type: value must be one of 'comment'") {
		t.Errorf("error = %v, want INVALID_ARGUMENT that names the types", err)
	}
	w.setups.replace(w.setup("1.0.1", staged{writes: 1}, 1))
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
}

func TestAStricterDriverCostsNoRetry(t *testing.T) {
	w := newWorld(t, nil)
	w.setups.replace(w.setup("1.0.0", staged{writes: 1}, 1))
	uri := w.mint(stagedStep)[0]
	r := w.next(uri, solve(w.begin(uri), `{"ok":true}`))
	w.setups.replace(w.setup("2.0.0", staged{writes: 1, judge: func() driver.AdvanceResult {
		return driver.CannotAdvance("the prompt is too short for this version")
	}}, 1))
	r = w.next(uri, solve(r, `{"ok":true}`))
	w.code(r, string(fault.DriverUnavailable))
	if *r.RetryCount != 0 || !strings.Contains(r.Message, "too short for this version") {
		t.Errorf("retry_count = %d, message %q; want none counted and the reason", *r.RetryCount, r.Message)
	}
}

// The attestation counts the looks that a challenge driver made itself and did not accept.
func TestALookOfAChallengeDriverThatFailedIsTold(t *testing.T) {
	looks := 0
	w := judgedBy(driver.EffectReads, func() driver.AdvanceResult {
		if looks++; looks < 3 {
			return driver.Reject("COMMAND_FAILED", "it is down")
		}
		return observed
	})(t)
	uri := w.mint(stagedStep)[0]
	r := w.begin(uri)
	for range 6 {
		if r = w.next(uri, solve(r, works)); len(r.Solved) > 0 {
			break
		}
	}
	a := w.attest(api.AttestRequest{URI: uri, Outcome: "success", RunID: r.RunID})
	if looks != 3 || len(a.Tries) != 1 || a.Tries[0].Discarded != 2 || a.Tries[0].Failures != 2 || a.Tries[0].Observations[0].Driver != "user_input" {
		t.Errorf("after %d looks attest says of the tries %+v, want two looks that did not count", looks, a.Tries)
	}
}
