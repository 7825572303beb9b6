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

// filled is the solution of the call that a reply advises, with this evidence.
func (w *world) filled(r *api.StepReply, evidence string) (uri, solution string) {
	w.t.Helper()
	if r.NextCall == nil || r.NextCall.Tool != "kairos_next" {
		w.t.Fatalf("next_call = %+v, want a call of kairos_next", r.NextCall)
	}
	var args struct {
		URI      string                     `json:"uri"`
		Solution map[string]json.RawMessage `json:"solution"`
	}
	if err := json.Unmarshal(r.NextCall.Arguments, &args); err != nil {
		w.t.Fatal(err)
	}
	args.Solution[r.Challenge.Type] = json.RawMessage(evidence)
	b, err := json.Marshal(args.Solution)
	if err != nil {
		w.t.Fatal(err)
	}
	return args.URI, string(b)
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
				if !strings.Contains(r.Message, "solution.nonce") || !strings.Contains(r.NextAction, "kairos_next with "+uris[step]) || r.Tried == "" {
					t.Errorf("step %d: message %q, next_action %q, tried %q do not say what is missing and which call works", step, r.Message, r.NextAction, r.Tried)
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

func TestMissingNoncesAreNeverCounted(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	for range 5 {
		r = w.next(uris[0], `{"type":"shell","shell":{"ok":true}}`)
		w.code(r, "MISSING_FIELD")
	}
	w.code(w.next(uris[0], solve(r, `{"ok":true}`)), "")
}

func TestAStepWithoutAChallengeTakesNoEvidenceWithoutANonce(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Free\n\n## One\n\nonly prose\n\n## Two\n\nmore prose\n")
	w.begin(uris[0])
	r := w.next(uris[0], `{"type":"comment","comment":{"text":"did it"}}`)
	w.code(r, "MISSING_FIELD")
	w.at(r, uris[0])
	w.at(w.next(uris[0], `{"type":"comment"}`), uris[1]) // a placeholder stays allowed
}

func TestAPlaceholderNeedsNoNonce(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.ElicitationForm = true
	uri := w.mint("# Ask\n\n## Ask\n\nask\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"Sure?\"}}}\n```\n")[0]
	w.begin(uri)
	a := w.ask(w.nextRound(uri, `{"type":"user_input"}`), "elicitation/create")
	w.code(w.reply(w.answer(a, `{"action":"accept","content":{"confirmation":"approved"}}`)), "")
}

func TestEvidenceWithoutANonceIsNotUsedBehindAnApproval(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.ElicitationForm = true
	uri := w.mint(approvedStep)[0]
	approved := w.answer(w.ask(w.beginRound(uri, ""), "elicitation/create"), `{"action":"accept","content":{"confirmation":"approved"}}`)
	r := w.reply(approved)
	r = w.next(uri, fmt.Sprintf(`{"type":"mcp","proof_hash":%q,"mcp":{"ok":true}}`, r.Challenge.ProofHash))
	w.code(r, "MISSING_FIELD")
	w.code(w.next(w.filled(r, `{"ok":true}`)), "")
}

func TestARunIDThatContradictsTheNonceIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	a, b := w.begin(uris[0]), w.begin(uris[0])
	_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], RunID: b.RunID, Solution: json.RawMessage(solve(a, `{"ok":true}`))})
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.NonceMismatch || !strings.Contains(f.Message, a.RunID) || !strings.Contains(f.Message, b.RunID) {
		t.Fatalf("error = %v, want NONCE_MISMATCH that names both runs", err)
	}
	if f.NextCall == nil || f.NextCall.Arguments["session_id"] != a.RunID {
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
	uris, other := w.mint(threeSteps), w.mint(doc("Other", "A: a"))
	r := w.begin(uris[0])
	for what, uri := range map[string]string{"another protocol": other[0], "nothing": "kairos://mem/99999999-9999-4999-8999-999999999999"} {
		_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, SessionID: r.RunID})
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.InvalidArgument || !strings.Contains(f.Message, "Three Steps") || f.NextCall.Arguments["uri"] != uris[0] {
			t.Errorf("resume with the uri of %s: %v, want INVALID_ARGUMENT and the call that works", what, err)
		}
	}
	w.code(w.next(uris[0], solve(r, `{"ok":true}`)), "") // its nonce still holds

	now := w.mint(doc("Three Steps", "Quite: another"))
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
