package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestAReplyNamesFiveOfManyOpenRuns(t *testing.T) {
	for _, tc := range []struct {
		open int
		want string
	}{{3, "3 runs of"}, {12, "12 runs of"}, {20, "16 or more runs of"}} {
		t.Run(fmt.Sprint(tc.open), func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Connection = ""
			uris := w.mint(threeSteps)
			var newest []string
			for range tc.open {
				newest = append([]string{w.begin(uris[0]).RunID}, newest...)
			}
			newest = newest[:min(5, tc.open)]
			_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0]})
			refused(t, err, fault.AmbiguousRun)
			var f *fault.Error
			errors.As(err, &f)
			if got := f.Details["candidates"].([]string); !slices.Equal(got, newest) || !strings.HasPrefix(f.Message, tc.want) || len(f.Message) > 600 {
				t.Errorf("Next names %q: %s; want %q and %q", got, f.Message, newest, tc.want)
			}
			a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "success"})
			reply, err := json.Marshal(a)
			if err != nil || a.ErrorCode != "AMBIGUOUS_RUN" || !slices.Equal(a.Candidates, newest) || !strings.Contains(a.Message, tc.want) || len(reply) > 4096 {
				t.Errorf("Attest = %s, want AMBIGUOUS_RUN with %q and %q", reply, newest, tc.want)
			}
		})
	}
}

func TestTheRunThatIsMeantIsFoundAmongManyOpenRuns(t *testing.T) {
	for _, connection := range []string{"c1", ""} {
		t.Run("connection "+connection, func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Connection = connection
			uris := w.mint(threeSteps)
			begin := func(n int) {
				for range n {
					w.begin(uris[0])
				}
			}
			begin(20)
			done := w.finish(w.begin(uris[0]))
			begin(3) // none of these was continued, so the last kairos_next still is the one that completed the run
			if a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "success"}); a.RunID != done.RunID || !a.Verified {
				t.Errorf("Attest = %+v, want run %s closed", a, done.RunID)
			}
			// What was continued last may be a run that is not looked at: nothing is closed.
			w.finish(w.begin(uris[0]))
			begin(20)
			if a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "failure"}); a.RunID != "" || a.ErrorCode != "AMBIGUOUS_RUN" {
				t.Errorf("Attest = %+v, want AMBIGUOUS_RUN", a)
			}
		})
	}
}

func TestAConnectionContinuesItsNewestRunBesideTheMany(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0]})
	refused(t, err, fault.NoOpenRun)
	first, mine := w.begin(uris[0]), w.begin(uris[0])
	w.next(uris[0], solve(first, works)) // the newest is the one that was begun last
	w.caller.Connection = "c2"
	for range 20 {
		w.begin(uris[0])
	}
	w.caller.Connection = "c1"
	r, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(`{"type":"shell","shell":{"exit_code":0}}`)})
	if err != nil || r.Reply == nil || r.Reply.RunID != mine.RunID {
		t.Errorf("Next = %+v, %v, want run %s continued", r.Reply, err, mine.RunID)
	}
}

// filled is the call that a reply advises, with this evidence.
func (w *world) filled(r *api.StepReply, evidence string) (uri, solution string) {
	w.t.Helper()
	in := w.advised(r)
	in.Solution[r.Challenge.Type] = json.RawMessage(evidence)
	return in.URI, in.solution(w.t)
}

func TestEvidenceNeedsTheNonceOfTheOpenChallenge(t *testing.T) {
	for name, nonce := range map[string]string{"left out": "", "empty": `"nonce":"",`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint(threeSteps)
			open := w.begin(uris[0])
			for step := range uris {
				canned := fmt.Sprintf(`{"type":%q,%s"proof_hash":%q,%q:{"ok":true}}`, open.Challenge.Type, nonce, open.Challenge.ProofHash, open.Challenge.Type)
				r := w.next(uris[step], canned)
				w.code(r, "MISSING_FIELD")
				w.at(r, uris[step])
				if r.Challenge.Nonce != open.Challenge.Nonce || *r.RetryCount != 0 || !r.MustObey {
					t.Errorf("step %d: %+v, want the same open challenge and nothing counted", step, r)
				}
				if contains(t, textOf(r), "solution.nonce", "kairos_next with "+uris[step]); r.Tried == "" {
					t.Errorf("step %d: the reply does not say what was tried", step)
				}
				open = w.next(w.filled(r, `{"ok":true}`))
				w.code(open, "")
			}
			if !strings.Contains(open.NextAction, "kairos_attest") {
				t.Errorf("next_action = %q, want attest", open.NextAction)
			}
		})
	}
}

func TestWithoutANonce(t *testing.T) {
	says := func(solution string) func(*api.StepReply) string {
		return func(*api.StepReply) string { return solution }
	}
	withHash := func(r *api.StepReply) string {
		return fmt.Sprintf(`{"type":"mcp","proof_hash":%q,"mcp":{"ok":true}}`, r.Challenge.ProofHash)
	}
	const prose = "# Free\n\n## One\n\nonly prose\n"
	scenes(t, map[string]scene{
		"a step without a challenge takes no evidence": {doc: prose, moves: []move{
			submits(says(`{"type":"comment","comment":{"text":"did it"}}`), "MISSING_FIELD"), submits(says(`{"type":"comment"}`), "", "kairos_attest"), // a placeholder stays allowed
		}},
		"a placeholder is taken": {doc: askStep, client: formClient, moves: []move{submits(says(`{"type":"user_input"}`), toPerson), answers(yes, "")}},
		"evidence is not used behind an approval": {doc: approvedStep, client: formClient, moves: []move{
			begun(toPerson), answers(yes, ""), submits(withHash, "MISSING_FIELD"), sends(works, ""),
		}},
	})
}

func TestARunIDThatContradictsTheNonceIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	a, b := w.begin(uris[0]), w.begin(uris[0])
	_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], RunID: b.RunID, Solution: json.RawMessage(solve(a, `{"ok":true}`))})
	refused(t, err, fault.NonceMismatch, a.RunID, b.RunID)
	var f *fault.Error
	if errors.As(err, &f); f.NextCall == nil || f.NextCall.Arguments["session_id"] != a.RunID {
		t.Errorf("next_call = %+v, want the run of the nonce", f.NextCall)
	}
	for _, r := range []*api.StepReply{a, b} { // neither run moved
		in := api.NextRequest{URI: uris[0], RunID: r.RunID, Solution: json.RawMessage(solve(r, `{"ok":true}`))}
		round, err := w.Next(t.Context(), w.caller, in)
		if err != nil {
			t.Fatal(err)
		}
		w.at(w.reply(round), uris[1])
	}
}

func TestResumingNamesTheProtocolOfTheRun(t *testing.T) {
	w := newWorld(t, nil)
	uris, other := w.mint(threeSteps), w.mint("# Other\n\n## A\n\na\n")
	r := w.begin(uris[0])
	for what, uri := range map[string]string{"another protocol": other[0], "nothing": "kairos://mem/99999999-9999-4999-8999-999999999999"} {
		_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, SessionID: r.RunID})
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.InvalidArgument || !strings.Contains(f.Message, "Three Steps") || f.NextCall.Arguments["uri"] != uris[0] {
			t.Errorf("resume with the uri of %s: %v, want INVALID_ARGUMENT and the call that works", what, err)
		}
	}
	w.code(w.next(uris[0], solve(r, `{"ok":true}`)), "") // its nonce still holds

	now := w.mint("# Three Steps\n\n## Quite\n\nanother\n")
	for what, uri := range map[string]string{"a later step": uris[2], "the protocol as it is now": now[0]} {
		if _, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, SessionID: r.RunID}); err != nil {
			t.Errorf("resume with the uri of %s: %v", what, err)
		}
	}
}

// state is what the store holds of the run.
func (w *world) state(id run.ID) run.Run {
	w.t.Helper()
	r, err := w.stored(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// stored reads a run with its past.
func (w *world) stored(id run.ID) (run.Run, error) {
	r, err := w.store.Run(context.Background(), id)
	if err != nil {
		return r, err
	}
	events, err := w.store.Events(context.Background(), id)
	return r.Recall(run.Run{}, events), err
}

func TestAnAbandonedRunIsOver(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.ElicitationForm = true
	uris := w.mint(gatedStep)
	begun := w.begin(uris[0])
	other := w.begin(uris[0])
	ask := w.ask(w.nextRound(uris[0], placeholder(begun)), "elicitation/create")
	id := runOf(begun)

	stranger := w.caller
	stranger.Principal = "you"
	_, err := w.Abandon(t.Context(), stranger, id, "")
	refused(t, err, fault.NotFound)
	s, err := w.Abandon(t.Context(), w.caller, id, "the plan changed")
	if err != nil || s.State != run.Ended || s.ID != id {
		t.Fatalf("Abandon = %+v, %v, want the run, ended", s, err)
	}
	if q := w.state(id).Step.Question; q != nil {
		t.Errorf("the question is still open: %+v", q)
	}
	// Every later call learns that it is over, and why.
	calls := map[string]func() error{
		"the person's answer": func() error {
			_, err := w.Continue(t.Context(), w.caller, director.Continuation{Run: ask.Run, Seq: ask.Seq, Result: json.RawMessage(`{"action":"accept","content":{"confirmation":"approved"}}`)})
			return err
		},
		"next": func() error {
			_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], RunID: begun.RunID})
			return err
		},
		"begin with the session id": func() error {
			_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: begun.RunID})
			return err
		},
		"abandoning it again": func() error {
			_, err := w.Abandon(t.Context(), w.caller, id, "twice")
			return err
		},
	}
	for name, call := range calls {
		t.Log(name)
		refused(t, call(), fault.NoOpenRun, "the plan changed")
	}
	if last := w.moment(begun, "abandoned"); last.Verdict != "the plan changed" {
		t.Errorf("the timeline ends with %+v", last)
	}
	w.ask(w.nextRound(uris[0], placeholder(other)), "elicitation/create") // the other run continues
}

func TestAResumedRunBelongsToTheConnectionThatResumedIt(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	first, second := w.begin(uris[0]), w.begin(uris[0])
	w.caller.Connection = "c2"
	if _, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: first.RunID}); err != nil {
		t.Fatal(err)
	}
	reply := w.next(uris[0], "") // without a nonce or a run_id
	if reply.RunID != first.RunID {
		t.Errorf("next on the connection that resumed went to run %s, want %s", reply.RunID, first.RunID)
	}
	w.caller.Connection = "c1"
	if reply = w.next(uris[0], ""); reply.RunID != second.RunID {
		t.Errorf("next on the old connection went to run %s, want the one left there, %s", reply.RunID, second.RunID)
	}
}

// A person is asked, then another client takes over that cannot ask them; the
// question waits for one that can.
func TestARunThatWaitsForAPersonContinuesThroughAnyClientThatCanAskThem(t *testing.T) {
	resumed := func(c driver.Client, want string) move {
		return func(p *play) {
			through(c)(p)
			round, err := p.Begin(p.t.Context(), p.caller, api.BeginRequest{URI: p.uri, SessionID: p.shown.RunID})
			if err != nil {
				p.t.Fatal(err)
			}
			p.took(round)
			p.wants(want, nil)
		}
	}
	scene{doc: gatedStep, client: driver.Client{Name: "old", Era: "2025-11-25", Transport: "stdio", ElicitationForm: true}, moves: []move{
		calls(toPerson),
		resumed(driver.Client{Name: "bare", Era: "2026-07-28", Transport: "http"}, "APPROVAL_UNAVAILABLE"),
		resumed(driver.Client{Name: "forms", Era: "2026-07-28", Transport: "http", ElicitationForm: true}, ""),
		calls(toPerson), answers(yes, ""), sends(works, ""),
	}}.play(t)
}

func TestOldURIsPointToTheirProtocol(t *testing.T) {
	w := newWorld(t, nil)
	old := w.mint("# Tidy up\n\n## A\n\na\n\n## B\n\nb\n\n## C\n\nc\n")
	now := w.mint("# Tidy up\n\n## A\n\na\n\n## C\n\nc\n")
	check := func(message, action string) {
		t.Helper()
		for call, ways := range reaches {
			reach, ok := ways["former step"]
			if !ok || call == "History" || call == "Version" || call == "Restore" {
				continue
			}
			reply, err := reach(w, w.caller, probe{Gone: old[1]})
			said, code := learned(t, reply, err), fault.NotFound
			if call == "Next" { // without a solution, which clients of the earlier server take for what is wrong
				code = fault.MissingField
			}
			if err == nil && call != "Update" || err != nil && fault.CodeOf(err) != code ||
				!strings.Contains(said, message) || !strings.Contains(said, action) {
				t.Errorf("%s of a former step says\n%s\nwant %s, %q and %q", call, said, code, message, action)
			}
		}
		if d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: old[1:2]}); err != nil || d.TotalFailed != 1 || !strings.Contains(d.Results[0].Message, action) {
			t.Errorf("Delete of a former step = %+v, %v, want an error that names %q", d, err, action)
		}
	}
	check("Tidy up", now[0])
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: now[:1]}); err != nil {
		t.Fatal(err)
	}
	check("is deleted", "kairos protocols restore "+protocol.ChainID("Tidy up"))
}

func TestARunContinuesUnderTheURIsItBeganWith(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	r = w.next(uris[0], solve(r, `{"ok":true}`))
	w.mint("# Three Steps\n\n## Other\n\nx\n")
	w.at(w.next(uris[1], `{"type":"shell"}`), uris[1]) // without a nonce the run is found by its protocol
	last := w.next(uris[1], solve(r, works))
	w.at(last, uris[2])
	contains(t, last.CurrentStep.Content, "body three") // the step as it was when the run began
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: uris[:1]}); err != nil {
		t.Fatal(err)
	}
	a, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[2], Outcome: "failure", Message: "m"})
	if err != nil || a.RunID != r.RunID {
		t.Errorf("Attest = %+v, %v, want the run %s closed", a, err, r.RunID)
	}
}
