package plan

import (
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// leftAlone reports whether the person closed the question so often that nobody
// shows it to them for now.
func leftAlone(s *State, q run.Question) bool {
	return q.Dismissed >= maxDismissals && s.Now.Before(q.Closed.Add(dismissalPause)) && !setBack(s, q.Closed)
}

// dismissal is what a reply says of a closed question, and the action that
// follows from it.
func dismissal(s *State, q run.Question, action string) (said, next string) {
	said = "The person dismissed the question without an answer. Nothing is decided"
	if !leftAlone(s, q) {
		return said, action + "; the person is then asked again, so do it when they want to answer"
	}
	until := q.Closed.Add(dismissalPause).UTC().Format(time.RFC3339)
	said = fmt.Sprintf("The person dismissed the question %d times in a row without an answer. Nothing is decided, and they are not asked again before %s", q.Dismissed, until)
	return said, action + "; do it only once the person says that they want to answer, and after " + until
}

// GivenUp reports whether nobody is asked the question again, because it went
// out often enough. A person's question is never given up, and none is where
// the tree says so.
func GivenUp(s *State, q run.Question) bool {
	return !q.Human && q.Asked+q.Unanswered >= MaxUnanswered && s.Tree.On(RouteOf(s, q), decision.Abandoned).Kind != decision.Again
}

// answeredElsewhere reports whether the open question is this one and waits for
// a person at its link, so that nobody is asked anew.
func answeredElsewhere(s *State, in driver.Input, r decision.Route) bool {
	q := s.Run.Step.Question
	return linkHolds(s, q) && q.Elsewhere != "" && q.Input.ID == in.ID && q.Via == r.Via && HasPage(s)
}

// MayAsk reports whether a person or a model may be asked now. Nobody is asked when
// nobody waits, about a second input in one call, or before the work is done, unless the
// step brings its own prompt for a model. Permission for drivers is asked for right behind the
// run's input. A judge comes when the work is done; if a driver judges without the client,
// render finds out. Files are looked at right behind the evidence: that disturbs nobody.
func MayAsk(s *State, k *input.Task, in driver.Input, desc driver.Descriptor) bool {
	if input.Of(in.Kind).Quiet && !desc.Has(driver.FeatureHuman) {
		return !s.Caller.Detached
	}
	second := s.Asked != Subject{} && s.Asked != Subject{s.Run.Step.Index, in.ID}
	if s.Caller.Detached || second && !input.Of(in.Kind).Optional {
		return false
	}
	return k.Where.Index == s.Target || k.Common.Sampling != nil || input.Of(in.Kind).OfRun || input.Of(in.Kind).Judges
}

// A person who closes a dialog has decided nothing. They are asked again by the
// next call; after maxDismissals in a row they are left alone for
// dismissalPause, so that an agent that keeps calling does not keep asking.
const (
	maxDismissals  = 3
	dismissalPause = time.Minute
)

// MaxUnanswered is how often a question goes out that gets no answer.
const MaxUnanswered = 2
