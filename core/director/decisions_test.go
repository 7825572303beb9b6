package director_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const threeRoutes = "# Three routes\n\n## Model\n\nwork\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"make secret-target\"},\"sampling\":{\"user\":\"do it\"}}}\n```\n\n" +
	"## Person\n\nask\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"continue?\"}}}\n```\n\n" +
	"## Agent\n\nreport\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{\"min_length\":1}}}\n```\n"

// playThreeRoutes plays a run that a model, a person and the agent answer.
func playThreeRoutes(w *world) run.ID {
	w.t.Helper()
	uris := w.mint(threeRoutes)
	w.caller.Client = driver.Client{Name: "host", ElicitationForm: true, Sampling: true}
	work := w.ask(w.beginRound(uris[0], ""), "sampling/createMessage")
	r := w.reply(w.answer(work, `{"action":"accept","content":{"ok":true}}`))
	question := w.ask(w.nextRound(uris[1], placeholder(r)), "elicitation/create")
	r = w.reply(w.answer(question, `{"action":"accept","content":{"confirmation":"approved"}}`))
	r = w.next(uris[2], solve(r, `{"ok":true,"text":"a-secret-word"}`))
	w.code(r, "")
	return runOf(r)
}

func TestDecisionsTellWhatCameOfEach(t *testing.T) {
	w := newWorld(t, nil)
	id := playThreeRoutes(w)
	list, err := w.Decisions(t.Context(), w.caller, id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range list {
		if d.Took <= 0 {
			t.Errorf("decision of step %d took %v, want some time", d.Step, d.Took)
		}
		got = append(got, fmt.Sprintf("%d %s %s via %s answered %v %s", d.Step, d.Label, d.Decision.Rule, d.Decision.Route.Via, d.Answered, d.Outcome))
	}
	want := []string{
		"1 Model challenges[2] (command) via sampling answered true ",
		"2 Person challenges[0] (person) via elicitation answered true ",
		"3 Agent challenges[3] (any) via agent answered true ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	// The recorded facts decide the same again, and keep no submitted values.
	tree, err := compiledTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d.Record == nil {
			t.Fatalf("step %d has no facts", d.Step)
		}
		again := tree.Decide(d.Record.Kind, d.Record.Facts)
		if diff := cmp.Diff(d.Decision, again); diff != "" {
			t.Errorf("step %d decided again on its facts (-then +now):\n%s", d.Step, diff)
		}
	}
	events, err := w.store.Events(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, ev := range events {
		if len(ev.Facts) > 0 {
			kept++
		}
		if s := string(ev.Facts) + string(ev.Walk); strings.Contains(s, "a-secret-word") || strings.Contains(s, "secret-target") {
			t.Errorf("the facts of %s hold what the step is about: %s", ev.Kind, s)
		}
	}
	if kept != 3 {
		t.Errorf("%d events have facts, want one for each of 3 decisions", kept)
	}
}
