package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/run"
)

// Decided is a decision of the tree in a run, and its result.
type Decided struct {
	Run   run.ID    `json:"run"`
	Step  int       `json:"step"` // its index
	Label string    `json:"label,omitempty"`
	Input string    `json:"input"` // id of the input
	At    time.Time `json:"at"`
	decision.Past
}

// Decisions lists the decisions of the tree in a run that the caller
// oversees, oldest first.
func (a *Archive) Decisions(ctx context.Context, c access.Caller, id run.ID) ([]Decided, error) {
	t, err := a.runs.Oversee(ctx, c, id)
	if err != nil {
		return nil, err
	}
	events, err := a.store.History.Events(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the events of run %s: %w", id, err)
	}
	list := decisionsOf(events)
	for i := range list {
		if at := list[i].Step - 1; at >= 0 && at < len(t.Chain.Steps) {
			list[i].Label = t.Chain.Steps[at].Heading()
		}
	}
	return list, nil
}

// decisionsOf finds the decisions of a run, and their results in later events.
func decisionsOf(events []run.Event) []Decided {
	var list []Decided
	asked := map[int64]int{}          // question number to its decision
	waiting := map[waitingInput]int{} // input that a driver was called for, to its decision
	for _, ev := range events {
		seq, input := ev.Seq, ev.Input
		if ev.Attempt != nil {
			input = ev.Attempt.Input
		}
		at := -1
		if walk, facts := walkOf(ev); walk != nil {
			at = len(list)
			list = append(list, Decided{
				Run: ev.Run, Step: ev.Step, Input: input, At: ev.At, Past: decision.Past{Decision: *walk, Record: facts},
			})
		} else if i, ok := asked[seq]; ok {
			at = i
		} else if i, ok := waiting[waitingInput{ev.Step, input}]; ok {
			at = i
		}
		if at < 0 {
			continue
		}
		if ev.Question != nil {
			asked[ev.Question.Seq] = at
		}
		if ev.Call != nil {
			waiting[waitingInput{ev.Step, input}] = at
		} else if ev.Kind != run.Unsettled {
			delete(waiting, waitingInput{ev.Step, input})
		}
		list[at].end(ev)
	}
	return list
}

// waitingInput is an input of a step that a driver obtains in more than one call.
type waitingInput struct {
	step  int
	input string
}

// end records how the route ended, if the event says so.
func (d *Decided) end(ev run.Event) {
	switch ev.Kind {
	case run.Supplied, run.Answered, run.Decided:
		d.Answered = ev.Decision == nil || ev.Decision.Happened
	case run.RouteClosed:
		d.Outcome = decision.Outcome(ev.Attempt.Outcome)
	case run.Declined:
		d.Outcome = decision.Declined
	case run.Refused:
		d.Outcome = decision.Invalid
	default:
		return
	}
	d.Took = ev.Took
}

// walkOf returns the walk that an event carries and the facts behind it, or nil.
func walkOf(ev run.Event) (*decision.Decision, *decision.Record) {
	var d decision.Decision
	if len(ev.Walk) == 0 || json.Unmarshal(ev.Walk, &d) != nil {
		return nil, nil
	}
	if len(ev.Facts) == 0 {
		return &d, nil
	}
	r, err := decision.ReadRecord(ev.Facts)
	if err != nil {
		return &d, nil
	}
	return &d, &r
}
