package director_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// interrupted is drivers of which a person's answer is read, the first time, while
// something happens.
type interrupted struct {
	drivers.Finder
	read      atomic.Bool
	meanwhile func()
}

func (i *interrupted) Capability(name string, within time.Duration) (driver.Capability, bool) {
	drv, ok := i.Finder.Capability(name, within)
	return interruptedCapability{drv, i}, ok
}

type interruptedCapability struct {
	driver.Capability
	of *interrupted
}

func (c interruptedCapability) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if !c.of.read.Swap(true) {
		c.of.meanwhile()
	}
	return c.Capability.Interpret(ctx, req)
}

// answeredTwice answers a question here, while another server takes another answer to it.
func (w *world) answeredTwice(a *director.Ask, here, elsewhere string) error {
	w.t.Helper()
	other := w.another()
	continued := func(e Engine, answer string) error {
		_, err := e.Continue(w.t.Context(), w.caller, director.Continuation{Run: a.Run, Seq: a.Seq, Result: json.RawMessage(answer)})
		return err
	}
	setup, release := w.setups.Hold()
	release()
	setup.Drivers = &interrupted{Finder: setup.Drivers, meanwhile: func() {
		if err := continued(other, elsewhere); err != nil {
			w.t.Errorf("the answer elsewhere: %v", err)
		}
	}}
	w.setups.replace(setup)
	return continued(w.Engine, here)
}

func TestOnlyTheAnswerThatCountsAllowsDriversToAct(t *testing.T) {
	for name, tc := range map[string]struct {
		here, elsewhere string
		code            fault.Code
		want            int
	}{
		"the same answer on two servers": {allows("once"), allows("once"), "", 1},
		"after a no":                     {allows("once"), allows("no"), fault.Replayed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := offeringDoer(t, driver.EffectReads, offered)
			a := w.ask(w.beginRound(w.mint(plainStep)[0], ""), "elicitation/create")
			if err := w.answeredTwice(a, tc.here, tc.elsewhere); fault.CodeOf(err) != tc.code {
				t.Errorf("the answer that came second gets %v, want %q", err, tc.code)
			}
			if all, err := w.Granted(t.Context(), w.caller); err != nil || len(all) != tc.want {
				t.Errorf("grants = %+v, %v, want %d", all, err, tc.want)
			}
		})
	}
}

func TestAnApprovalThatCameSecondDoesNotUndoADecline(t *testing.T) {
	w := newWorld(t, func(o *choices) { o.Settings.Approval.TrustAgent, o.DeclineTTL = true, time.Hour })
	uri := w.mint(gatedCall("Gated", "go"))[0]
	w.caller.Client = formClient
	a := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), "elicitation/create")
	if err := w.answeredTwice(a, yes, `{"action":"decline"}`); fault.CodeOf(err) != fault.Replayed {
		t.Errorf("the approval gets %v, want that the decline stands", err)
	}
	w.caller.Client, w.Engine = driver.Client{}, w.another()
	contains(t, textOf(w.agentApproves(uri)), barred)
}
