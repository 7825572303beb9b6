package director

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// A person who closes a dialog has decided nothing. They are asked again by the
// next call; after maxDismissals in a row they are left alone for
// dismissalPause, so that an agent that keeps calling does not keep asking.
const (
	maxDismissals  = 3
	dismissalPause = time.Minute
)

// dismissed records that the person closed the question without an answer. The
// question stays open, nothing is counted, and no other route is taken: nobody
// else may answer for them.
func (qs *questions) dismissed(ctx context.Context, k task, q run.Question, reason string) (Round, error) {
	closed := q.Seq
	q.Earlier = append(slices.Clone(q.Earlier), closed)
	q.Dismissed++
	q.Closed = qs.t.e.opt.Clock.Now()
	if err := qs.put(&q, run.Event{Kind: run.Dismissed, Seq: closed, Reason: plain.Clip(reason, 500)}); err != nil {
		return Round{}, err
	}
	return qs.waiting(ctx, k, q)
}

// leftAlone reports whether the person closed the question so often that nobody
// shows it to them for now.
func (qs *questions) leftAlone(q run.Question) bool {
	return q.Dismissed >= maxDismissals && qs.t.e.opt.Clock.Now().Before(q.Closed.Add(dismissalPause)) && !qs.t.e.runs.SetBack(q.Closed)
}

// dismissal is what a reply says of a closed question, and the action that
// follows from it.
func (qs *questions) dismissal(q run.Question, action string) (said, next string) {
	said = "The person dismissed the question without an answer. Nothing is decided"
	if !qs.leftAlone(q) {
		return said, action + "; the person is then asked again, so do it when they want to answer"
	}
	until := q.Closed.Add(dismissalPause).UTC().Format(time.RFC3339)
	said = fmt.Sprintf("The person dismissed the question %d times in a row without an answer. Nothing is decided, and they are not asked again before %s", q.Dismissed, until)
	return said, action + "; do it only once the person says that they want to answer, and after " + until
}
