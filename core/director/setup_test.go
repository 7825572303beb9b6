package director_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
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
	r = w.next(uri, solve(r, works))
	w.setups.replace(w.setup("1.0.0", staged{writes: 1, called: func(driver.AdvanceRequest) { w.setups.replace(later) }}, 1))
	before := w.setups.count()
	r = w.next(uri, solve(r, works))
	w.code(r, "")
	if got := w.setups.count() - before; got != 1 {
		t.Errorf("one call held %d setups, want 1", got)
	}
	if got := w.moment(r, "accepted"); got.Driver != "user_input 1.0.0" {
		t.Errorf("the step was judged by %q, want the driver that the call began with", got.Driver)
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
		"lint":       func() error { _, err := w.Lint(ctx, library.LintInput{Document: threeSteps}); return err },
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

func TestAStepInFlightWhenItsDriversChange(t *testing.T) {
	version1 := func(t *testing.T) *world {
		w := newWorld(t, nil)
		w.setups.replace(w.setup("1.0.0", staged{writes: 1}, 1))
		return w
	}
	replaced := func(version string, s staged, reads ...int) move {
		return func(p *play) { p.setups.replace(p.setup(version, s, reads...)) }
	}
	reads, doesNotRead := replaced("2.0.0", staged{writes: 2}, 1, 2), replaced("2.0.0", staged{writes: 2}, 2)
	repaired := replaced("1.0.1", staged{writes: 1}, 1)
	gone := func(name string) move { return func(p *play) { p.setups.replace(p.without(name)) } }
	stricter := replaced("2.0.0", staged{writes: 1, judge: func() driver.AdvanceResult {
		return driver.CannotAdvance("the prompt is too short for this version")
	}}, 1)
	const overAgain = "starts over: driver user_input 2.0.0"
	second := sends(works, "", "second")                                    // of the two stages
	asked := []move{calls(toPerson), answers(sampled, ""), calls(toPerson)} // whose second stage is put to a person
	script := func(first []move, more ...move) []move { return append(slices.Clone(first), more...) }
	for name, s := range map[string]scene{
		"continues with a driver that reads its state": {moves: []move{second, reads, sends(works, ""), solved(driver.AgentReported)}},
		"starts over with a driver that does not": {moves: []move{
			second, doesNotRead, func(p *play) {
				solution := solve(p.shown, works) // which answers what 1.0.0 asked for
				p.took(p.nextRound(p.uri, solution))
				p.wants("", []string{overAgain, "first"})
				if diff := cmp.Diff(p.shown, p.next(p.uri, solution)); diff != "" {
					p.t.Errorf("a network retry got another reply (-first +again):\n%s", diff)
				}
			}, counted(0), sends(works, ""), sends(works, ""), solved(driver.AgentReported),
		}},
		"a person's answer reaches a driver that reads the state": {client: formClient, moves: script(asked, reads, answers(sampled, ""), solved(driver.ClientAttested))},
		"a person is asked afresh by a driver that does not": {client: formClient, moves: script(asked, doesNotRead, answers(sampled, "", overAgain), solved(),
			calls(toPerson), answers(sampled, ""), calls(toPerson), answers(sampled, ""))},
		"the notice survives the question that follows it": {client: formClient, moves: script(asked, doesNotRead, submits(nothing, toPerson), answers(sampled, "", "starts over"))},
		"a decline of a question that a restart replaced stands": {client: formClient, moves: script(asked, func(p *play) {
			old := p.question
			doesNotRead(p)
			submits(nothing, toPerson)(p)
			p.question = old
		}, answers(no, "USER_DECLINED"))},
		"an answer is kept though its judge is gone": {client: formClient, moves: script(asked, gone("user_input"), answers(sampled, "DRIVER_UNAVAILABLE"), counted(0),
			repaired, submits(nothing, ""), solved(driver.ClientAttested))},
		"a decline is kept though its judge is gone": {client: formClient, moves: script(asked, gone("user_input"), answers(no, "USER_DECLINED"),
			repaired, through(driver.Client{}), submits(nothing, "USER_DECLINED"), sends(works, "USER_DECLINED"))},
		"a person's word that nobody reads any more is not overruled": {client: formClient, moves: script(asked, gone("elicitation"), answers(sampled, "DRIVER_UNAVAILABLE"), sends(works, "USER_DECLINED"))},
		"a removed driver costs no retry": {moves: []move{
			second, gone("user_input"), sends(works, "DRIVER_UNAVAILABLE"), counted(0),
			submits(as("shell", works), "DRIVER_UNAVAILABLE"), counted(0), // another type than the challenge's cannot help
			func(p *play) { // and one that there never was is refused
				_, err := p.Next(p.t.Context(), p.caller, api.NextRequest{URI: p.uri, Solution: json.RawMessage(solveAs(p.shown, "magic", works))})
				refused(p.t, err, fault.InvalidArgument, "solution.type: value must be one of 'comment'")
			}, repaired, sends(works, ""),
		}},
		"a stricter driver costs no retry": {moves: []move{second, stricter, sends(works, "DRIVER_UNAVAILABLE", "too short for this version"), counted(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			s.doc, s.world = stagedStep, version1
			s.play(t)
		})
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
		if r = w.next(uri, solve(r, works)); len(vouchers(r)) > 0 {
			break
		}
	}
	a := w.attest(api.AttestRequest{URI: uri, Outcome: "success", RunID: r.RunID})
	if looks != 3 || len(a.Tries) != 1 || a.Tries[0].Discarded != 2 || a.Tries[0].Failures != 2 || a.Tries[0].Observations[0].Driver != "user_input" {
		t.Errorf("after %d looks attest says of the tries %+v, want two looks that did not count", looks, a.Tries)
	}
}
