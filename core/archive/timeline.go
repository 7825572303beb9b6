package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
)

// Timeline is a run and its events, oldest first.
type Timeline struct {
	Run      run.Summary `json:"run"`
	Outcome  string      `json:"outcome,omitempty"`
	Verified bool        `json:"verified"`
	Problem  string      `json:"problem,omitempty"` // why it is not verified
	// Worth says who vouches for the steps (run.Worth).
	Worth string `json:"worth"`
	// Protocol is the version that the run follows.
	Protocol *api.ProtocolRevision `json:"protocol"`
	// Tries are the steps, solved or open, whose first attempt did not succeed.
	Tries   []run.StepTries `json:"tries,omitempty"`
	Moments []Moment        `json:"moments"`
	// Unscrubbed reports that values were erased from the run, but copies may still
	// be in the files of the database.
	Unscrubbed bool `json:"unscrubbed,omitempty"`
}

// Erased returns the moment in which the questions, answers and decisions of the
// step were erased; false: they were not.
func (l Timeline) Erased(step int) (Moment, bool) {
	for _, m := range l.Moments {
		if r := m.Redaction; r != nil && (r.Whole || slices.Contains(r.Steps, step) || slices.Contains(r.Quoting, step)) {
			return m, true
		}
	}
	return Moment{}, false
}

// TriesOf says what was tried at the step without success; false: nothing.
func (l Timeline) TriesOf(step int) (run.StepTries, bool) {
	i := slices.IndexFunc(l.Tries, func(t run.StepTries) bool { return t.Step == step })
	if i < 0 {
		return run.StepTries{}, false
	}
	return l.Tries[i], true
}

// Timeline returns a run that the caller oversees with its events.
func (a *Archive) Timeline(ctx context.Context, c access.Caller, id run.ID) (Timeline, error) {
	t, err := a.runs.Oversee(ctx, c, id)
	if err != nil {
		return Timeline{}, err
	}
	events, err := a.store.History.Events(ctx, id)
	if err != nil {
		return Timeline{}, fmt.Errorf("read the events of run %s: %w", id, err)
	}
	var reply api.AttestReply
	t.Verdict(&reply)
	line := Timeline{Run: t.Run.Summary(), Outcome: t.Run.Outcome, Verified: reply.Verified, Worth: t.Run.Worth()}
	if !reply.Verified {
		line.Problem = reply.Message
	}
	if line.Protocol, err = library.RevisionOf(ctx, a.store.Protocols, t.Chain); err != nil {
		return Timeline{}, err
	}
	line.Tries = t.Run.Unsuccessful()
	if a.store.Eraser != nil {
		left, err := a.store.Eraser.Unscrubbed(ctx)
		if err != nil {
			return Timeline{}, fmt.Errorf("list the runs with erased values in the files: %w", err)
		}
		line.Unscrubbed = slices.Contains(left, id)
	}
	asked := make(map[string]string) // input id to what it asks for
	for _, ev := range events {
		for _, in := range ev.Inputs {
			asked[in.ID] = in.Description
		}
		m, tell := momentOf(ev, t.Chain)
		if !tell {
			continue
		}
		if ev.Kind == run.Supplied {
			m.Question = cmp.Or(ev.Reason, asked[ev.Input])
		}
		line.Moments = append(line.Moments, m)
	}
	for i, m := range line.Moments {
		if _, erased := line.Erased(m.Step); erased && string(m.Answer) == "null" {
			line.Moments[i].Answer = nil // the answer was erased
		}
	}
	return line, nil
}
