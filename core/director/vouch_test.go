package director_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const yesToTheForm = `{"action":"accept","content":{"confirmation":"approved"}}`

func TestAnObservationIsRecordedAsTheLimitOfItsDriver(t *testing.T) {
	for name, tc := range map[string]struct{ limit, want driver.Provenance }{
		"no limit":           {"", driver.ServerObserved},
		"a weaker limit":     {driver.ClientAttested, driver.ClientAttested},
		"the weakest limit":  {driver.AgentReported, driver.AgentReported},
		"a limit that is it": {driver.ServerObserved, driver.ServerObserved},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.drivers.limits.Store("user_input", limit{strongest: tc.limit})
			desc := descriptors["user_input"]
			desc.Effect, desc.StateVersions = driver.EffectReads, []int{1}
			w.setups.replace(w.setupOf(map[string]driver.Challenge{"user_input": staged{writes: 1, judge: func() driver.AdvanceResult {
				return driver.Observe(json.RawMessage(`{}`), json.RawMessage(`{"up":true}`))
			}}}, desc))
			uri := w.mint(stagedStep)[0]
			r := w.next(uri, solve(w.begin(uri), `{"ok":true}`))
			r = w.next(uri, solve(r, `{"ok":true}`))
			w.code(r, "")
			if r.Solved[0].Provenance != tc.want {
				t.Errorf("the reply says %s, want %s", r.Solved[0].Provenance, tc.want)
			}
			stored := w.state(runOf(r))
			if err := stored.Verify(); err != nil || stored.Proofs[0].Provenance != tc.want {
				t.Errorf("the proof says %s (%v), want %s", stored.Proofs[0].Provenance, err, tc.want)
			}
		})
	}
}

// A limited driver is still read as one that looked: its word is recorded as
// weaker, but it is not taken for the agent's report.
func TestWhatALimitedDriverSawOfFilesCounts(t *testing.T) {
	w := newWorld(t, nil)
	w.drivers.limits.Store("roots", limit{strongest: driver.AgentReported})
	w.drivers.set("roots are open", true)
	w.drivers.set("files are missing", true)
	uris := w.mint(filed(`"files":[{"path":"x"}]`))
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	w.code(r, "FILES_MISMATCH")
	w.drivers.set("files are missing", false)
	r = w.next(uris[0], solve(r, `{"ok":true}`))
	w.at(r, uris[1])
	if f := r.Solved[0].Files; f == nil || f.Via != "roots" || f.Provenance != driver.AgentReported {
		t.Errorf("files = %+v, want those of roots, agent-reported", f)
	}
}

func TestAnApprovalIsRecordedAsTheLimitOfItsDriver(t *testing.T) {
	w := withPage(t, nil)
	w.drivers.limits.Store("elicitation", limit{strongest: driver.ModelGenerated})
	w.caller.Client = driver.Client{ElicitationForm: true}
	uri := w.mint(strings.Replace(askStep, `"type":`, `"approval_mode":"user","type":`, 1))[0]
	r := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(w.begin(uri))), "elicitation/create"), yesToTheForm))
	w.code(r, "")
	if p := w.state(runOf(r)).Proofs[0].Provenance; p != driver.ModelGenerated {
		t.Errorf("the proof says %s, want the limit", p)
	}

	w.drivers.limits.Store("page", limit{strongest: driver.AgentReported})
	w.caller.Client = driver.Client{}
	uri, waits := w.gate(gatedDoc)
	w.decide(waits, "approved", "")
	done := w.next(uri, placeholder(waits))
	w.code(w.next(uri, solve(done, `{"ok":true}`)), "")
	a := w.state(runOf(done)).Evidence[1].Approval
	if a == nil || a.Provenance != driver.AgentReported || a.Basis != run.BasisLink {
		t.Errorf("approval = %+v, want one by link that is recorded as the limit", a)
	}
}

// A driver that may not answer for a person is not asked for an approval, a
// person's own answer or a run's input, although its descriptor says human.
func TestADriverThatMayNotAnswerForAPersonIsNotARoute(t *testing.T) {
	const needsInput = "# Feed\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"}},\"required\":[\"who\"]}}\n```\n\n" +
		"## One\n\none\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"greet {{ input.who }}\"}}}\n```\n"
	_, ship, _ := strings.Cut(gatedDoc, "## Ship it")
	gated := "# Release\n\n## Ship it" + strings.Replace(ship, "{{ steps.pick.what }}", "it", 1)

	w := withPage(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	uri := w.mint(gated)[0]
	w.ask(w.nextRound(uri, placeholder(w.begin(uri))), "elicitation/create")
	w.ask(w.beginRound(w.mint(needsInput)[0], ""), "elicitation/create")

	w.drivers.limits.Store("elicitation", limit{noPerson: true})
	r := w.next(uri, placeholder(w.begin(uri)))
	w.code(r, "WAITING_FOR_USER") // at the page, which is another driver
	if r.ApprovalURL == "" {
		t.Errorf("reply = %+v, want the next route, the page", r)
	}
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: w.mint(strings.Replace(needsInput, "# Feed", "# Feed others", 1))[0]})
	if fault.CodeOf(err) != fault.MissingInput {
		t.Errorf("Begin = %v, want MISSING_INPUT", err)
	}
	own := w.mint(statedStep)[0]
	w.code(w.next(own, placeholder(w.begin(own))), "APPROVAL_UNAVAILABLE")

	w.drivers.limits.Store("page", limit{noPerson: true})
	if v := w.view(r); v.State != approval.Replaced {
		t.Errorf("the page that was open is %s, want it closed", v.State)
	}
	late, err := w.AnswerApproval(t.Context(), w.caller, runOf(r), secretOf(r), approval.Answer{Decision: "approved", Digest: w.view(r).Digest})
	if err != nil || !late.Late || w.state(runOf(r)).Step.Approval != nil {
		t.Errorf("the page of a driver that may not answer for a person says %+v, %v, want that the answer comes too late", late, err)
	}
	r = w.next(uri, placeholder(w.begin(uri)))
	w.code(r, "APPROVAL_UNAVAILABLE")
	if !strings.Contains(r.Message, "the operator does not let it answer for a person") {
		t.Errorf("message = %q, want the reason", r.Message)
	}
}

// An answer that was asked for before the operator forbade it does not count.
func TestAnAnswerComesTooLateForADriverThatMayNoLongerGiveIt(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	uri := w.mint(statedStep)[0]
	q := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), "elicitation/create")
	w.drivers.limits.Store("elicitation", limit{noPerson: true})
	r := w.reply(w.answer(q, yesToTheForm))
	if len(r.Solved) != 0 {
		t.Errorf("solved = %+v, want the answer refused", r.Solved)
	}
}
