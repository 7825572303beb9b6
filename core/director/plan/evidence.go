package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// demanded is what the open step and the rules demand, once that is worked out.
func demanded(s *State) rules.Demand {
	if s.Opened != s.Run.Step.Index {
		return rules.Demand{}
	}
	return s.Task.Demand
}

// observes reports whether only what the server observed counts.
func observes(s *State) bool {
	return slices.Equal(demanded(s).Evidence, protocol.FromServer.Provenances())
}

// judgeLooks reports whether the challenge driver may look at the world itself: then
// its verdict may be an observation, whoever supplied what it looks at.
func judgeLooks(s *State, k *input.Task) bool {
	desc, _, _ := s.Drivers.Describe(k.Use)
	return drivers.MayClaim(desc, driver.ServerObserved) && couldCount(s, k, k.Use, driver.ServerObserved)
}

// couldCount reports whether an answer of the driver with the provenance would count,
// with the limits that the operator set.
func couldCount(s *State, k *input.Task, via string, p driver.Provenance) bool {
	return limitedTo(s, via, p) == p && k.Demand.Counts(p)
}

// uncountable says why evidence that comes through a driver does not count; empty: it
// may count.
func uncountable(s *State, k *input.Task, in driver.Input, via string) string {
	if !input.Of(in.Kind).Evidence || judgeLooks(s, k) {
		return ""
	}
	desc, _, known := s.Drivers.Describe(via)
	if !known || k.Demand.Evidence == nil {
		return ""
	}
	for _, p := range k.Demand.Evidence {
		if drivers.Supplies(desc, p) && couldCount(s, k, via, p) {
			return ""
		}
	}
	return notCounted
}

// countsAsAnswer reports whether a decision with the provenance would count where the approval of the
// input is the answer to it; true where it is not.
func countsAsAnswer(s *State, k *input.Task, in driver.Input, p driver.Provenance) bool {
	return !ownAnswer(s, k, in) || !input.YesOrNo(in) || k.Demand.Counts(p)
}

// noLink says why no link to answer with is given out, and what would be accepted instead;
// empty if a link may be given out, or if the server has no approval page.
func noLink(s *State, k *input.Task) string {
	if !HasPage(s) || Answerable(s, k) {
		return ""
	}
	return onlyCounts(s) + ". " + noLinkGiven
}

// cannotDecide says why a person's decision that comes through a driver does not count
// as their answer; empty: it may count.
func cannotDecide(s *State, k *input.Task, in driver.Input, via string) string {
	desc, _, known := s.Drivers.Describe(via)
	if !known || !input.Of(in.Kind).Approves || !desc.Has(driver.FeatureHuman) {
		return ""
	}
	onlyByLink := slices.Equal(HowIn(s, k, in, via), []string{driver.ByPage})
	if onlyByLink && k.Approval.Part.Login && !slices.Contains(desc.Needs, driver.NeedApprovalPage) {
		return "people answer on the approval page after login, and not through this client"
	}
	for _, p := range []driver.Provenance{driver.ClientAttested, driver.LinkHolder} {
		if onlyByLink && p != wordOfPage(k) {
			continue
		}
		if countsAsAnswer(s, k, GatedInput(s), limitedTo(s, via, p)) {
			return ""
		}
	}
	return notCounted
}

// notCountedBecause checks the provenance of evidence that a driver accepted: whatever the
// way it came, the step takes no weaker one.
func notCountedBecause(s *State, k *input.Task, evidence driver.Answer) string {
	if k.Demand.Counts(evidence.Provenance) {
		return ""
	}
	return fmt.Sprintf("%s. This evidence is %s (driver %s)", onlyCounts(s), evidence.Provenance, evidence.Via)
}

// possible refuses a step for which nothing can meet what is demanded, because rules
// contradict it or each other since the protocol was minted.
func possible(k *input.Task, realm string) *fault.Error {
	if why := drivers.Contradiction(k.Step, k.Demand.And(rules.OfChallenge(k.Common, realm))); why != "" {
		return fault.New(fault.RulesConflict, "Step %d cannot be solved: %s.", k.Where.Index, why)
	}
	return nil
}

// onlyCounts says whose word counts.
func onlyCounts(s *State) string {
	var ways []string
	for _, c := range clauses {
		if slices.Contains(demanded(s).Evidence, c.provenance) {
			ways = append(ways, c.words)
		}
	}
	return fmt.Sprintf("Step %q counts only if %s", OpenStep(s).Name, strings.Join(ways, ", or "))
}

// IsClaim reports whether the submission is evidence that cannot count. Where it is
// accepted that a driver does the step, it may be a proposal.
func IsClaim(s *State, k *input.Task, in driver.Input) bool {
	return !takesReport(k) && input.Of(in.Kind).Evidence && s.Solution.Supplied() && !judgeLooks(s, k) && len(AcceptedHere(s)) == 0
}

// takesReport reports whether the agent's word counts.
func takesReport(k *input.Task) bool {
	return k.Demand.Counts(driver.AgentReported)
}

// Decidable refuses a person's report of what a driver did, which is a report, where
// the step takes none.
func Decidable(s *State, k *input.Task) error {
	if takesReport(k) {
		return nil
	}
	return fault.New(fault.InvalidArgument, "%s, so what you know of it cannot be its evidence.", onlyCounts(s)).
		WithHint("if it did not happen, say so, and it is tried again; if it did, end the run with `kairos runs end` and begin another one")
}

// endsCall reports whether an attempt to observe the evidence failed where only that
// counts, or where it is accepted. Then no other route is tried, and the next call looks again.
func endsCall(s *State, a run.Attempt) bool {
	desc, _, _ := s.Drivers.Describe(a.Via)
	return (observes(s) || desc.Has(driver.FeaturePreview)) &&
		!a.Untried && !input.ByID(a.Input).Reserved && decision.Outcome(a.Outcome) != decision.Declined
}

// lookFailed is the error of a call that ends so.
func lookFailed(s *State, a run.Attempt) *fault.Error {
	why := "KAIROS does this step itself"
	if observes(s) {
		why = onlyCounts(s)
	}
	return fault.New(fault.ObservationUnavailable, "%s, and %s could not: %s (%s). No other route is tried.", why, a.Via, plain.Clip(a.Reason, 500), a.Outcome)
}

// Limit lowers what the event records to what the operator lets its drivers
// vouch for.
func Limit(s *State, ev *run.Event) {
	if ev.Answer != nil {
		a := *ev.Answer
		a.Provenance = limitedTo(s, a.Via, a.Provenance)
		ev.Answer = &a
	}
	if ev.Approval != nil {
		a := *ev.Approval
		a.Provenance = limitedTo(s, a.Via, a.Provenance)
		ev.Approval = &a
	}
}

// limitedTo is the weaker of a provenance and the driver's limit.
func limitedTo(s *State, via string, p driver.Provenance) driver.Provenance {
	strongest, _ := s.Drivers.Limits(via)
	if strongest == "" {
		return p
	}
	return run.Weakest([]driver.Provenance{p, strongest})
}

// isReport says whether an answer is the agent's report, whatever limit it was
// recorded with.
func isReport(s *State, a driver.Answer) bool {
	if a.Provenance != driver.AgentReported {
		return false
	}
	desc, _, known := s.Drivers.Describe(a.Via)
	strongest, _ := s.Drivers.Limits(a.Via)
	return !known || desc.Has(driver.FeatureAgent) || strongest != driver.AgentReported
}

// Barred says why a driver may not obtain an input; empty: it may. Input that only a
// person can give does not come from a driver that may not answer for one.
func Barred(s *State, in driver.Input, via string) string {
	if _, forPersons := s.Drivers.Limits(via); forPersons {
		return ""
	}
	if input.Of(in.Kind).Personal || in.Person {
		return "the operator does not let it answer for a person"
	}
	return ""
}

// ReadsState reports whether the driver reads the state that is kept for the step.
func ReadsState(s *State, name string) bool {
	v := s.Run.Step.State.Version
	desc, _, _ := s.Drivers.Describe(name)
	return v == 0 || slices.Contains(desc.StateVersions, v)
}

// keeps refuses state of a version that the driver does not list.
func keeps(s *State, k *input.Task, kept driver.State) *fault.Error {
	desc, _, _ := s.Drivers.Describe(k.Use)
	if kept.Version != 0 && !slices.Contains(desc.StateVersions, kept.Version) {
		return Unavailable("driver %s keeps state of version %d, which its descriptor does not list", k.Use, kept.Version)
	}
	return nil
}

// doubtOf says what is wrong with an answer that a driver vouches for; drivers
// are not trusted to claim more than their descriptor allows.
func doubtOf(s *State, in driver.Input, a driver.Answer, via string) string {
	desc, _, _ := s.Drivers.Describe(via)
	switch {
	case !json.Valid(a.Value):
		return "the answer is not JSON"
	case len(a.Value) > maxValue:
		return "the answer is too large"
	case drivers.MayClaim(desc, a.Provenance):
	case a.Provenance == driver.ServerObserved:
		return "claims an observation of the server for what somebody else said, or for what it did not look at"
	case a.Provenance == driver.ClientAttested, a.Provenance == driver.LinkHolder:
		return "claims a person's word without the feature " + driver.FeatureHuman
	}
	if doubt := input.Of(in.Kind).Doubt; doubt != nil {
		if why := doubt(a.Value); why != "" {
			return why
		}
	}
	return Barred(s, in, via)
}

// personal reports whether the input asks for a person's own answer. Only the
// driver of a type that is about a person may say so.
func personal(s *State, k *input.Task, in driver.Input) bool {
	desc, _, _ := s.Drivers.Describe(k.Use)
	return in.Person && desc.Approval == driver.ApprovalUser
}

// ownAnswer reports whether nobody but a person may answer the input: it asks for
// their own answer, and the step or the tree states approval mode user.
func ownAnswer(s *State, k *input.Task, in driver.Input) bool {
	return k.Approval.Stated && k.Approval.Mode == driver.ApprovalUser && personal(s, k, in)
}

// Ref names a driver for the record, with its version and checksum.
func Ref(s *State, name string) run.DriverRef {
	d, sum, ok := s.Drivers.Describe(name)
	if !ok {
		return run.DriverRef{Name: name}
	}
	return run.DriverRef{Name: d.Name, Version: d.Version, SHA256: sum, Isolation: s.Drivers.Isolation(name)}
}

// noLinkGiven is the reason for which links are held back, and the way without one.
const noLinkGiven = "The holder of an approval link is not identified, so KAIROS gives out no link: continue the run with a client that shows forms"

// notCounted is why a route is passed over whose evidence cannot count.
const notCounted = "what it supplies does not count for this step"

// clauses say in words whose evidence counts.
var clauses = []struct {
	provenance driver.Provenance
	words      string
}{
	{driver.AgentReported, "the agent reports it"},
	{driver.ModelGenerated, "a model writes it"},
	{driver.LinkHolder, "somebody with the link answers it"},
	{driver.ClientAttested, "a person answers it"},
	{driver.ServerObserved, "KAIROS observes it itself"},
}

// maxValue bounds an answer.
const maxValue = 8 << 20

// elsewhere says how a run continues that needs a person whom this client cannot ask.
const elsewhere = "A client that shows forms can continue the run."

// nobodyCounts is the error where no route is left that could supply what counts.
func nobodyCounts(s *State, in driver.Input) *fault.Error {
	code, whom, next := fault.ApprovalUnavailable, "that is not possible here", " "+elsewhere
	switch counting := demanded(s).Evidence; {
	case observes(s):
		code, whom, next = fault.ObservationUnavailable, "it cannot do so here", ""
	case len(counting) == 2:
		whom = "neither is possible here"
	case !slices.Contains(counting, driver.ClientAttested) && !slices.Contains(counting, driver.LinkHolder):
		code, next = fault.DriverUnavailable, ""
	}
	return fault.New(code, "%s, and %s%s.%s", onlyCounts(s), whom, troubles(s, in.ID), next)
}
