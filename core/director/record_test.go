package director_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/api"
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

// An agent that submits what fails for ever: the record of its run, and the
// timeline of it, stay small, and both say how often it failed.
func TestFailuresAreCountedAndNotAllKept(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(plainStep)[0]
	r := w.begin(uri)
	const times = 250
	long := strings.Repeat("x", 4000)
	for range times {
		r = w.next(uri, solve(r, `{"ok":false,"note":"`+long+`"}`))
	}
	w.code(r, "MAX_RETRIES_EXCEEDED")
	if *r.RetryCount != times {
		t.Errorf("retry_count = %d, want %d", *r.RetryCount, times)
	}
	line, err := w.Timeline(t.Context(), w.caller, runOf(r))
	if err != nil {
		t.Fatal(err)
	}
	told, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	if len(told) > 800<<10 || len(line.Moments) > 200 {
		t.Errorf("the timeline has %d moments and %d bytes", len(line.Moments), len(told))
	}
	if len(line.Tries) != 1 || line.Tries[0].Failures != times || line.Tries[0].Solved || line.Tries[0].LeftOut == 0 {
		t.Errorf("the timeline says of the tries %+v, want %d failures of an open step", line.Tries, times)
	}
	w.Engine = w.another() // which reads the record
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
	a := w.attest(api.AttestRequest{URI: uri, Outcome: "success", RunID: r.RunID})
	want := api.AttestedTries{StepIndex: 1, URI: uri, Solved: true, Attempts: times + 1, Failures: times}
	if diff := cmp.Diff([]api.AttestedTries{want}, a.Tries, cmpopts.IgnoreFields(api.AttestedTries{}, "Observations")); diff != "" || !a.Verified {
		t.Errorf("attest says of the tries (-want +got):\n%s", diff)
	}
}

// Observations that did not count are reported with the one that did.
func TestDiscardedObservationsAreTold(t *testing.T) {
	w, d := withDoer(t, driver.EffectReads)
	uri := w.mint(strings.Replace(plainStep, `"type":`, `"evidence":"server","type":`, 1))[0]
	r := w.begin(uri)
	w.allow(runOf(r), nil)
	d.fails = 2
	for range 2 {
		r = w.next(uri, placeholder(r))
		if r.ErrorCode == "" {
			t.Fatal("an observation of a failure counts")
		}
	}
	w.code(w.next(uri, placeholder(r)), "")
	a := w.attest(api.AttestRequest{URI: uri, Outcome: "success", RunID: r.RunID})
	if len(a.Tries) != 1 || a.Tries[0].Discarded != 2 || a.Tries[0].Attempts != 3 || len(a.Tries[0].Observations) != 2 || a.Tries[0].Observations[0].Driver != "doer" {
		t.Errorf("attest says of the tries %+v, want two observations of doer", a.Tries)
	}
	if !strings.Contains(a.Message, "2 observations of KAIROS itself did not count before") {
		t.Errorf("message = %q, want that it says so", a.Message)
	}
	if ev := w.state(runOf(r)).Evidence[0]; ev.Tries == nil || ev.Tries.Discarded != 2 {
		t.Errorf("the evidence has the tries %+v, want that its proof covers them", ev.Tries)
	}
}

// A run that follows another version of the protocol than the stored one says so.
func TestAttestNamesTheRevisionThatWasFollowed(t *testing.T) {
	w := newWorld(t, nil)
	strong := plainStep
	weak := strings.Replace(plainStep, "\nact\n", "\nact, or do not\n", 1)
	first := w.begin(w.mint(strong)[0])
	uri := w.mint(weak)[0]
	second := w.begin(uri)
	uri = w.mint(strong)[0]
	third := w.begin(uri)
	for name, tc := range map[string]struct {
		run  *api.StepReply
		want api.ProtocolRevision
	}{
		"says the same":   {first, api.ProtocolRevision{Revision: 1, Current: true, Stored: 3}},
		"was weaker":      {second, api.ProtocolRevision{Revision: 2, Stored: 3}},
		"the present one": {third, api.ProtocolRevision{Revision: 3, Current: true, Stored: 3}},
	} {
		a := w.attest(api.AttestRequest{URI: uri, Outcome: "failure", RunID: tc.run.RunID})
		if a.Protocol == nil || *a.Protocol != tc.want {
			t.Errorf("%s: attest says %+v, want %+v", name, a.Protocol, tc.want)
		}
		if says := strings.Contains(a.Message, "differs from the stored protocol"); says == tc.want.Current {
			t.Errorf("%s: message = %q", name, a.Message)
		}
		line, err := w.Timeline(t.Context(), w.caller, runOf(tc.run))
		if err != nil || line.Protocol == nil || *line.Protocol != tc.want {
			t.Errorf("%s: the timeline says %+v, %v", name, line.Protocol, err)
		}
	}
}
