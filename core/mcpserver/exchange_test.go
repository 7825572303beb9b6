package mcpserver_test

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

const (
	everything = `{"elicitation":{},"sampling":{},"roots":{}}`
	accepted   = `{"action":"accept","content":{"ok":true}}`
)

func TestLegacyClientIsAskedWithinTheCall(t *testing.T) {
	d := newDirector(elicit("sure?"), sample("how much?"))
	w := dial(t, config(), d)
	w.initialize(everything)

	id := w.call("kairos_begin", obj{"uri": stepURI})
	w.answer(w.question("elicitation/create").ID, accepted)
	asked := w.question("sampling/createMessage")
	if got, want := string(asked.Params), string(d.asks[1].Params); got != want {
		t.Errorf("sampling params = %s, want them verbatim: %s", got, want)
	}
	w.answer(asked.ID, `{"role":"assistant","content":{"type":"text","text":"42"},"model":"m"}`)

	got := w.step(id)
	if len(got.Solved) != 2 || string(got.Solved[0].Output) != accepted {
		t.Errorf("solved = %+v, want both answers as the client sent them", got.Solved)
	}
	want := driver.Client{
		Name: "old", Version: "1", Era: "2025-11-25", Transport: "stdio",
		ElicitationForm: true, Sampling: true, Roots: true,
	}
	if c := d.lastClient(); c != want {
		t.Errorf("client = %+v, want %+v", c, want)
	}
	if d.lastCaller().Connection == "" {
		t.Error("a legacy caller has no connection")
	}
}

func TestModernClientIsAskedByInputRequired(t *testing.T) {
	d := newDirector(elicit("sure?"), sample("how much?"))
	w := dial(t, config(), d)
	args := obj{"uri": stepURI}

	r := w.result(w.modern(everything, "kairos_begin", args, nil))
	if r.ResultType != "input_required" || len(r.InputRequests) != 1 || r.RequestState == "" {
		t.Fatalf("result = %+v, want one input request and a state", r)
	}
	r = w.result(w.modern(everything, "kairos_begin", args, answers(r, accepted)))
	for _, q := range r.InputRequests {
		if got, want := string(q.Params), string(d.asks[1].Params); got != want {
			t.Errorf("sampling params = %s, want them verbatim: %s", got, want)
		}
	}
	got := w.step(w.modern(everything, "kairos_begin", args, answers(r, `{"model":"m"}`)))
	if len(got.Solved) != 2 || string(got.Solved[0].Output) != accepted || string(got.Solved[1].Output) != `{"model":"m"}` {
		t.Errorf("solved = %+v, want both answers as the client sent them", got.Solved)
	}
	if len(d.begins) != 1 {
		t.Errorf("%d runs begun by one call and its repeats, want 1", len(d.begins))
	}
	if c := d.lastCaller(); c.Client.Era != "2026-07-28" || c.Client.Name != "new" || c.Connection != "" {
		t.Errorf("caller = %+v, want a 2026-07-28 client without a connection", c)
	}
}

// answers answers every question of a result.
func answers(r toolResult, answer string) obj {
	all := obj{}
	for key := range r.InputRequests {
		all[key] = json.RawMessage(answer)
	}
	return obj{"requestState": r.RequestState, "inputResponses": all}
}
