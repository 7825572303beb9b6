package director_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

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

func TestATakenOverRunRefusesTheOldClient(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	old := w.caller
	w.caller.Connection = "c2"
	taken, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: r.RunID})
	if err != nil {
		t.Fatal(err)
	}
	w.caller = old
	for solution, code := range map[string]string{
		solve(r, `{"ok":true}`): "NONCE_MISMATCH",
		fmt.Sprintf(`{"type":"shell","proof_hash":%q,"shell":{"ok":true}}`, r.Challenge.ProofHash): "MISSING_FIELD",
	} {
		round, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[1], RunID: r.RunID, Solution: json.RawMessage(solution)})
		if err != nil {
			t.Fatal(err)
		}
		w.code(w.reply(round), code)
		w.at(round.Reply, uris[1])
	}
	w.caller.Connection = "c2"
	w.at(w.next(uris[1], solve(taken.Reply, `{"ok":true}`)), uris[2])
}
