package director_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
)

func longProtocol(steps int) string {
	var doc strings.Builder
	doc.WriteString("# Long\n")
	for i := range steps {
		fmt.Fprintf(&doc, "\n## Step %d\n\ndo it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"make %d\"}}}\n```\n", i+1, i+1)
	}
	return doc.String()
}

func TestAServerThatKnowsAnEarlierRevisionOfARunRepliesByTheLatest(t *testing.T) {
	for name, check := range map[string]func(w *world, elsewhere Engine, solved string, now *api.StepReply){
		"a repeat gets the recorded reply": func(w *world, _ Engine, solved string, now *api.StepReply) {
			if diff := cmp.Diff(now, w.next(now.CurrentStep.URI, solved)); diff != "" {
				w.t.Errorf("reply (-want +got):\n%s", diff)
			}
		},
		"a used nonce is refused with the open one": func(w *world, _ Engine, solved string, now *api.StepReply) {
			r := w.next(now.CurrentStep.URI, strings.Replace(solved, `"ok":true`, `"ok":true,"what":"else"`, 1))
			w.code(r, "NONCE_MISMATCH")
			if r.Challenge.Nonce != now.Challenge.Nonce {
				w.t.Errorf("the refusal shows nonce %s, want the open one, %s", r.Challenge.Nonce, now.Challenge.Nonce)
			}
		},
		"the next step is solved, once": func(w *world, elsewhere Engine, _ string, now *api.StepReply) {
			in := api.NextRequest{URI: now.CurrentStep.URI, Solution: json.RawMessage(solve(now, `{"ok":true}`))}
			r := w.next(in.URI, string(in.Solution))
			w.code(r, "")
			round, err := elsewhere.Next(w.t.Context(), w.caller, in)
			if err != nil {
				w.t.Fatal(err)
			}
			if diff := cmp.Diff(r, w.reply(round)); diff != "" || r.StepIndex != 6 {
				w.t.Errorf("step %d is open, and the repeat elsewhere got another reply (-want +got):\n%s", r.StepIndex, diff)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			elsewhere := w.another()
			open := w.begin(w.mint(longProtocol(6))[0])
			for range 3 { // so that this server knows the run
				open = w.next(open.CurrentStep.URI, solve(open, `{"ok":true}`))
			}
			solved := solve(open, `{"ok":true}`)
			round, err := elsewhere.Next(t.Context(), w.caller, api.NextRequest{URI: open.CurrentStep.URI, Solution: json.RawMessage(solved)})
			if err != nil {
				t.Fatal(err)
			}
			check(w, elsewhere, solved, w.reply(round))
		})
	}
}

func TestAnAnswerCountsOnAServerThatDoesNotKnowTheQuestion(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.ElicitationForm = true
	elsewhere := w.another()
	const say = "\n## Say\n\nsay it\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"say\"}}}\n```\n"
	open := w.begin(w.mint(longProtocol(3) + say)[0])
	for range 3 { // so that this server knows the run
		open = w.next(open.CurrentStep.URI, solve(open, `{"ok":true}`))
	}
	round, err := elsewhere.Next(t.Context(), w.caller, api.NextRequest{URI: open.CurrentStep.URI, RunID: open.RunID})
	if err != nil {
		t.Fatal(err)
	}
	r := w.reply(w.answer(w.ask(round, "elicitation/create"), sampled))
	w.code(r, "")
	if r.NextCall == nil || r.NextCall.Tool != api.ToolAttest {
		t.Errorf("reply %q, want one that all steps are complete", r.Message)
	}
}
