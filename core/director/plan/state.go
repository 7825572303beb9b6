// Package plan says what happens next in a run. It is pure: its rules look at a State
// and know no store, no process and no clock. A rule returns an action, and
// core/director carries it out.
package plan

import (
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/solution"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Catalog describes drivers by name.
type Catalog interface {
	Describe(name string) (d driver.Descriptor, sha256 string, ok bool)
	Isolation(name string) string
	Limits(name string) (strongest driver.Provenance, forPersons bool)
}

// Options are what the operator set.
type Options struct {
	ApprovalTTL    time.Duration
	SolutionFields []string
	// ApprovalURL is the address of an approval page; nil: there is none.
	ApprovalURL func(id run.ID, secret string) string
	// HasPage reports whether ApprovalURL may be called for an address; nil: it is called to know.
	HasPage func() bool
	// Names: records say what people call the principals who answer on the page.
	Names bool
}

// Subject is an input of a step; input ids of two steps may be the same.
type Subject struct {
	Step  int
	Input string
}

// Failure is a counted failure of the open step.
type Failure struct {
	Code fault.Code
	Why  string
}

// State is what the rules look at: a run, and what one call on it knows. Nothing of it
// outlives the call.
type State struct {
	Run   *run.Run
	Chain *protocol.Chain // that the run is pinned to

	Drivers  Catalog
	Tree     *decision.Tree
	Rules    *rules.Set
	Settings decision.ConfigFacts
	How      []string // the ways of approving that the server takes
	Realm    string   // of groups that are written without one; empty: nobody can log in
	Options  Options

	Caller access.Caller
	// Asker is who calls in the eyes of conditions, if it is not Caller: a person on a page must not
	// change what is demanded of them.
	Asker   *run.Asker
	Started time.Time // when the call began
	Now     time.Time // what the clock shows

	Solution *solution.Solution // what the agent submitted, until it is used
	// Target is the step the call is about: it may ask there. At any other
	// step it asks only if the challenge has its own prompt for a model.
	Target int
	// Reported: the submission is the agent's report of a person's decision, in the form
	// in which a route of the tree asks for it, and not work.
	Reported bool
	// Asked is what the one question this call put to the client is about.
	Asked Subject

	// Task is what the step it was worked out for demands. Opened is the index of that step.
	Task   *input.Task
	Opened int
	// Digest and Acceptances are of the run's protocol, once a step or a rule needed them.
	Digest      string
	Acceptances []acceptances.Acceptance
	// Decline is of the action that was looked up last; nil if there is none. DeclinePart
	// says that it is of a part of what was looked up, which permits more.
	Decline     *declines.Decline
	DeclinePart bool
	// Measured is how long the answer took that this call takes, and Reflex what the client answered itself.
	Measured Measured
	Reflex   *Reflex
	// Itself is how fast the connection answered the same question itself, of whichever run; nil: it did not.
	Itself func(in driver.Input, via string) *run.Delay
	// Approved is the action that a person approved in this call.
	Approved declines.Action

	// CanAccept: an acceptance can be stored. OfferReady: the run's input came during this
	// call, or the call resumes a run that stands still because nobody accepted.
	// OfferOver: this call has nothing to offer any more. Offer is the question what drivers
	// may do, once it was looked up.
	CanAccept, OfferReady, OfferOver bool
	Offer                            *driver.Input

	// NotDone counts the driver's calls of this call that did nothing.
	NotDone int

	// Trying is the driver of the route that was decided on last, and Due the kind of the
	// input that it was decided on for.
	Trying, Due string

	// Failure is what the reply reports beside the open step, and Omission what the
	// submission lacks, where nothing of it was used or counted.
	Failure  *Failure
	Omission string
	Solved   []api.Solved
	// Tried is what the call tried, for replies that it did not work. Note is what the
	// reply should say besides.
	Tried, Note string
}

// Learn keeps what an event that is recorded means for the rest of the call.
func Learn(s *State, ev run.Event) (err error) {
	kind, answered := input.ByID(ev.Input), ev.Kind == run.Supplied || ev.Kind == run.Answered
	switch {
	case ev.Question != nil:
		s.Asked = Subject{ev.Step, ev.Input}
	case !answered:
	case kind.OfRun && !kind.Optional:
		s.OfferReady = true // the steps can be shown with what is known now
	case ev.Approval == nil:
	case ev.Approval.Basis == run.BasisReview:
		// The review and the request that is reviewed are one question. If it waited for the next call, that
		// would ask all over again what failed in this one, and no later route would be reached.
		s.Asked = Subject{}
	case ev.Approval.Provenance == driver.ClientAttested && !ev.Approval.Delay.Under():
		// The holder of a link is not known to be a person.
		s.Approved, err = ActionToApprove(s)
	}
	return err
}

// setBack reports whether the clock shows an earlier time than it showed before.
func setBack(s *State, before time.Time) bool { return s.Now.Add(clock.Tolerance).Before(before) }

// At is when the next event of the run happens.
func At(s *State) time.Time {
	at, _ := s.Run.Stamp(s.Now)
	return at
}

// typeOf is the challenge type under which a step is shown.
func typeOf(s *State, step protocol.Step) string { return drivers.Setup{Tree: s.Tree}.TypeOf(step) }

// RouteOf is the question's route in the tree of today; the tree may have
// changed since, then the question's own words count.
func RouteOf(s *State, q run.Question) decision.Route {
	if r, ok := s.Tree.RouteAt(q.Path, q.Via); ok {
		return r
	}
	r := decision.Route{Index: q.Route, Path: q.Path, Via: q.Via, Human: q.Human}
	r.Retries = s.Tree.On(r, decision.Invalid).Retries
	return r
}

// Unavailable is the error of a step whose drivers cannot serve it.
func Unavailable(format string, args ...any) *fault.Error {
	return fault.New(fault.DriverUnavailable, format, args...)
}
