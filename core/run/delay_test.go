package run_test

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func asksPerson(seq int64) run.Event {
	return run.Event{Kind: run.Asked, Question: &run.Question{Seq: seq, Via: "elicitation", Human: true, Input: driver.Input{ID: driver.KindApproval, Kind: driver.KindApproval}}}
}

func itself(seq int64) run.Event {
	return run.Event{Kind: run.Automated, Seq: seq, Connection: "c", Delay: &run.Delay{After: 8 * time.Millisecond}}
}

func TestAnAutomaticAnswerDecidesNothing(t *testing.T) {
	open := must(t, newRun("r1", 1), needs(true))
	asked := must(t, open, asksPerson(1))
	refuses(t, asked, run.Event{Kind: run.Automated, Seq: 1}, run.ErrImpossible)
	refuses(t, asked, itself(2), run.ErrStale)
	r := must(t, asked, itself(1))
	if r.Step.Question != nil || r.Step.Declines != nil || r.Step.Failures != 0 || r.State != run.Open {
		t.Errorf("after an automatic answer: %+v", r.Step)
	}
	if !r.Step.Automatically(driver.KindApproval) || r.Step.AnsweredBy(driver.KindApproval, "elicitation", "c", "any") == nil || r.Step.AnsweredBy(driver.KindApproval, "elicitation", "d", "any") != nil {
		t.Errorf("automatic = %+v, want the one of connection c", r.Step.Automatic)
	}
}

func TestOnlyAPersonApprovesAfterAnAutomaticAnswer(t *testing.T) {
	r := must(t, must(t, must(t, newRun("r1", 1), needs(true)), asksPerson(1)), itself(1))
	for basis, want := range map[run.Basis]error{run.BasisAgent: run.ErrUnapproved, run.BasisReview: run.ErrUnapproved, run.BasisForm: nil, run.BasisPage: nil, run.BasisLink: nil} {
		e := approves("any", "d1", epoch.Add(time.Hour))
		e.Approval.Basis = basis
		if want != nil {
			refuses(t, r, e, want)
		} else {
			must(t, r, e)
		}
	}
	model := approves("any", "d1", epoch.Add(time.Hour))
	model.Approval.Provenance = driver.ModelGenerated
	refuses(t, r, model, run.ErrUnapproved)
	again := must(t, must(t, must(t, r, approves("page", "d1", epoch.Add(time.Hour))), supplies("agent")), run.Event{Kind: run.Rejected, Code: "X"})
	if !again.Step.Automatically(driver.KindApproval) {
		t.Error("another attempt at the step forgets that a client answered for its person")
	}
}

func TestAnAutomaticAnswerTakesNoDeclineBack(t *testing.T) {
	r := must(t, must(t, newRun("r1", 1), needs(true)), asksPerson(1))
	r = must(t, r, run.Event{Kind: run.Declined, Input: driver.KindApproval, Via: "elicitation", Seq: 1})
	r = must(t, r, asksPerson(2))
	if after := must(t, r, itself(2)); after.Step.Declines[driver.KindApproval] != "elicitation" {
		t.Errorf("declines = %v, want the person's to stand", after.Step.Declines)
	}
	yes := run.Event{Kind: run.Answered, Seq: 2, Delay: &run.Delay{}, Approval: &run.Approval{Digest: "d1", Basis: run.BasisForm}}
	refuses(t, r, yes, run.ErrDeclined)
	yes.Delay = &run.Delay{After: time.Second}
	must(t, r, yes)
}
