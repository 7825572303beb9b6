package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

const invalidParams = -32602

func TestModernClientIsAskedByInputRequired(t *testing.T) {
	d := newDirector(elicit("sure?"), sample("how much?"))
	w := dial(t, config(), d)

	r := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	if r.ResultType != "input_required" || len(r.InputRequests) != 1 || r.RequestState == "" {
		t.Fatalf("result = %+v, want one input request and a state", r)
	}
	r = w.result(w.modern(everything, "kairos_begin", beginArgs, answers(r, accepted)))
	for _, q := range r.InputRequests {
		if got, want := string(q.Params), string(d.asks[1].Params); got != want {
			t.Errorf("sampling params = %s, want them verbatim: %s", got, want)
		}
	}
	got := w.step(w.modern(everything, "kairos_begin", beginArgs, answers(r, `{"model":"m"}`)))
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

func TestRequestStateOpensOnlyForItsOwnCall(t *testing.T) {
	flip := func(s string) string {
		box, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		box[len(box)/2] ^= 1
		return base64.RawURLEncoding.EncodeToString(box)
	}
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	solving := func(id int64) obj {
		return obj{"uri": stepURI, "run_id": "run-1", "solution": obj{"type": "shell", "nonce": "n", "id": id}}
	}
	nextArgs := solving(1<<53 + 1)
	w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	open := w.result(w.modern(everything, "kairos_next", nextArgs, nil))

	other := config()
	other.StateKeys = func() ([][32]byte, error) { return [][32]byte{{2}}, nil }
	stranger := config()
	stranger.Principal = "somebody"
	brief := config()
	brief.StateTTL = time.Nanosecond
	foreign := func(name string, w *wire) toolResult {
		w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
		r := w.result(w.modern(everything, "kairos_next", nextArgs, nil))
		if r.RequestState == "" {
			t.Fatalf("%s: no state", name)
		}
		return r
	}
	with := func(state string) obj {
		a := answers(open, accepted)
		a["requestState"] = state
		return a
	}
	for name, tc := range map[string]struct {
		tool  string
		args  obj
		extra obj
	}{
		"one bit changed": {"kairos_next", nextArgs, with(flip(open.RequestState))},
		"cut short":       {"kairos_next", nextArgs, with(open.RequestState[:40])},
		"a byte":          {"kairos_next", nextArgs, with("AA")},
		"not base64":      {"kairos_next", nextArgs, with("%%%")},
		"long rubbish":    {"kairos_next", nextArgs, with(strings.Repeat("A", 32<<10))},
		"other arguments": {"kairos_next", obj{"uri": stepURI, "run_id": "run-2"}, with(open.RequestState)},
		"a number beside": {"kairos_next", solving(1 << 53), with(open.RequestState)},
		"other tool":      {"kairos_begin", nextArgs, with(open.RequestState)},
		"other key":       {"kairos_next", nextArgs, answers(foreign("key", dial(t, other, newDirector(elicit("x")))), accepted)},
		"other principal": {"kairos_next", nextArgs, answers(foreign("principal", dial(t, stranger, newDirector(elicit("x")))), accepted)},
		"expired":         {"kairos_next", nextArgs, answers(foreign("ttl", dial(t, brief, newDirector(elicit("x")))), accepted)},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.reply(w.modern(everything, tc.tool, tc.args, tc.extra))
			if m.Error == nil || m.Error.Code != invalidParams {
				t.Errorf("reply = %v, want JSON-RPC error %d", m, invalidParams)
			}
		})
	}
	if len(d.continued) != 0 {
		t.Fatalf("%d answers reached the engine", len(d.continued))
	}
	// The run is unharmed: the right call still continues, however its arguments are written.
	same := json.RawMessage(`{"solution":{"nonce":"\u006e","id":9007199254740993,"type":"shell"},"run_id":"run-1","uri":"` + stepURI + `"}`)
	if got := w.step(w.modern(everything, "kairos_next", same, answers(open, accepted))); len(got.Solved) != 1 {
		t.Errorf("reply = %+v, want the answer taken", got)
	}
}

func TestRepeatGetsTheSameReplyAndAnotherAnswerIsAReplay(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	open := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	first := w.step(w.modern(everything, "kairos_begin", beginArgs, answers(open, accepted)))
	again := w.step(w.modern(everything, "kairos_begin", beginArgs, answers(open, accepted)))
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("reply to the repeat (-first +again):\n%s", diff)
	}
	m := w.reply(w.modern(everything, "kairos_begin", beginArgs, answers(open, `{"action":"decline"}`)))
	if m.Error == nil || m.Error.Code != invalidParams {
		t.Errorf("reply to another answer = %v, want JSON-RPC error %d", m, invalidParams)
	}
	if len(d.continued) != 1 {
		t.Errorf("%d answers taken, want 1", len(d.continued))
	}
}

func TestMissingAnswerIsAskedForAgain(t *testing.T) {
	d := newDirector(elicit("sure?"))
	d.patient = true
	w := dial(t, config(), d)
	open := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	for name, responses := range map[string]obj{
		"none":      {},
		"other key": {"nope": obj{"action": "accept"}},
		"null":      answers(open, `null`)["inputResponses"].(obj),
	} {
		again := w.result(w.modern(everything, "kairos_begin", beginArgs,
			obj{"requestState": open.RequestState, "inputResponses": responses}))
		if diff := cmp.Diff(open.InputRequests, again.InputRequests); diff != "" {
			t.Errorf("%s: question asked again (-first +again):\n%s", name, diff)
		}
		open.RequestState = again.RequestState
	}
	if got := w.step(w.modern(everything, "kairos_begin", beginArgs, answers(open, accepted))); len(got.Solved) != 1 {
		t.Errorf("reply = %+v, want the answer taken", got)
	}
}

// Else a client that shows its user nothing, or whose user does not answer, goes
// round for ever: it never says so.
func TestAQuestionThatIsNeverAnsweredEndsTheCall(t *testing.T) {
	d := newDirector(sample("how much?"), elicit("sure?"))
	w := dial(t, config(), d)
	ask := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	var asked []string
	var last toolResult
	for range 40 {
		if ask.ResultType != "input_required" {
			break
		}
		for _, q := range ask.InputRequests {
			asked = append(asked, q.Method)
		}
		last = ask
		ask = w.result(w.modern(everything, "kairos_begin", beginArgs, obj{"requestState": ask.RequestState, "inputResponses": obj{}}))
	}
	want := []string{"sampling/createMessage", "sampling/createMessage", "elicitation/create", "elicitation/create"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if s := decode[step](t, ask.Structured); s.ErrorCode != "WAITING_FOR_USER" || ask.ResultType != "complete" {
		t.Errorf("the call ends with %s %q, want a complete WAITING_FOR_USER", ask.ResultType, s.ErrorCode)
	}
	if got := w.step(w.modern(everything, "kairos_begin", beginArgs, answers(last, accepted))); len(got.Solved) != 2 || string(got.Solved[1].Output) != accepted {
		t.Errorf("reply to a late answer = %+v, want the answer taken", got)
	}
}

func TestAnswersWithoutTheirStateCountForNothing(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	open := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	for name, responses := range map[string]obj{
		"of a question that was asked": answers(open, accepted)["inputResponses"].(obj),
		"of none":                      {"nope": json.RawMessage(accepted)},
	} {
		again := w.result(w.modern(everything, "kairos_begin", beginArgs, obj{"inputResponses": responses}))
		if again.ResultType != "input_required" || len(again.InputRequests) != 1 {
			t.Errorf("%s: result = %+v, want the question", name, again)
		}
	}
	if len(d.continued) != 0 {
		t.Errorf("%d answers reached the engine", len(d.continued))
	}
}

func TestQuestionAskedAgainDoesNotLiveLonger(t *testing.T) {
	cfg := config()
	cfg.StateTTL = 50 * time.Millisecond
	d := newDirector(elicit("sure?"))
	d.patient = true
	w := dial(t, cfg, d)
	open := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	for deadline := time.Now().Add(patience); ; {
		m := w.reply(w.modern(everything, "kairos_begin", beginArgs, obj{"requestState": open.RequestState}))
		if m.Error != nil {
			break
		}
		open = decode[toolResult](t, m.Result)
		if time.Now().After(deadline) {
			t.Fatal("a state lives for ever if it is sent back in time")
		}
	}
}

// asksAt asks a question by a server whose machine has this time, and says
// whether another server that has the time later takes it back.
func asksAt(t *testing.T, machine *clocktest.Source, change func() *clock.Clock) bool {
	t.Helper()
	cfg := config()
	cfg.StateTTL, cfg.Clock = time.Hour, clock.New(machine)
	asked := dial(t, cfg, newDirector(elicit("sure?")))
	open := asked.result(asked.modern(everything, "kairos_begin", beginArgs, nil))
	if cfg.Clock = change(); cfg.Clock == nil {
		cfg.Clock = clock.New(machine) // that of another process
	}
	d := newDirector(elicit("sure?"))
	d.patient = true
	w := dial(t, cfg, d)
	w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	return w.reply(w.modern(everything, "kairos_begin", beginArgs, obj{"requestState": open.RequestState})).Error == nil
}

func TestQuestionDoesNotLiveLongerAfterARestartWithAnEarlierClock(t *testing.T) {
	machine := clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	for name, tc := range map[string]struct {
		jump time.Duration
		want bool
	}{
		"an earlier clock":        {-48 * time.Hour, false},
		"a little earlier":        {-clock.Tolerance / 2, true},
		"a clock that was ahead":  {59 * time.Minute, true},
		"after more than an hour": {61 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := asksAt(t, machine, func() *clock.Clock { machine.Jump(tc.jump); return nil }); got != tc.want {
				t.Errorf("the question is taken back: %t, want %t", got, tc.want)
			}
		})
	}
}

// Replicas get a new key one by one: first all of them open it, then all seal with it.
func TestKeysAreRotatedWhileQuestionsAreOpen(t *testing.T) {
	keyed := func(numbers ...byte) mcpserver.Config {
		cfg := config()
		cfg.StateKeys = func() (keys [][32]byte, err error) {
			for _, n := range numbers {
				keys = append(keys, [32]byte{n})
			}
			return keys, nil
		}
		return cfg
	}
	for name, tc := range map[string]struct {
		asks, continues []byte
		opens           bool
	}{
		"before":            {[]byte{1}, []byte{1}, true},
		"second key is new": {[]byte{1, 2}, []byte{1}, true},
		"first is new":      {[]byte{2, 1}, []byte{1, 2}, true},
		"asked before":      {[]byte{1}, []byte{2, 1}, true},
		"old one removed":   {[]byte{2, 1}, []byte{2}, true},
		"in one go":         {[]byte{2}, []byte{1}, false},
		"too early":         {[]byte{1, 2}, []byte{2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			asking, continuing := dial(t, keyed(tc.asks...), newDirector(elicit("sure?"))), dial(t, keyed(tc.continues...), newDirector())
			asked := asking.result(asking.modern(everything, "kairos_begin", beginArgs, nil))
			m := continuing.reply(continuing.modern(everything, "kairos_begin", beginArgs, answers(asked, accepted)))
			if opens := m.Error == nil; opens != tc.opens {
				t.Errorf("a state sealed by %v is opened with %v: %t, want %t (%+v)", tc.asks, tc.continues, opens, tc.opens, m.Error)
			}
		})
	}
}

func TestStateKeyIsFetchedWhenAQuestionNeedsIt(t *testing.T) {
	fetched := 0
	cfg := config()
	cfg.StateKeys = func() ([][32]byte, error) {
		if fetched++; fetched < 4 {
			return nil, errors.New("no key in /secret")
		}
		return [][32]byte{{1}}, nil
	}
	d := newDirector()
	w := dial(t, cfg, d)
	w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	if fetched != 0 {
		t.Error("the key was fetched although nothing was sealed")
	}
	d.asks = append(d.asks, elicit("sure?"))
	for range 2 {
		r := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
		if !r.IsError || strings.Contains(string(r.Structured), "secret") {
			t.Errorf("result without a key = %+v, want an internal error", r)
		}
	}
	r := w.result(w.modern(everything, "kairos_begin", beginArgs, obj{"requestState": "AAAA"}))
	if !r.IsError || fetched != 3 {
		t.Errorf("result = %+v, key fetched %d times; want an internal error and 3", r, fetched)
	}
	// The failure is not kept, and the key is.
	for range 2 {
		d.asks = append(d.asks, elicit("sure?"))
		if r := w.result(w.modern(everything, "kairos_begin", beginArgs, nil)); r.IsError || r.RequestState == "" || fetched != 4 {
			t.Errorf("result = %+v, key fetched %d times; want a question and 4", r, fetched)
		}
	}
}
