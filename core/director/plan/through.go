package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// way is a route that the tree chose for an input, and the driver at its end.
type way struct {
	task  *input.Task
	in    driver.Input
	kind  input.Kind
	route decision.Route
	desc  driver.Descriptor
	known bool // the driver is configured
	// byReport: somebody else may report a person's answer to the input.
	byReport bool
}

// against is what speaks against a way, or has to be done before it is taken, in order.
var against = []struct {
	name string
	due  func(*State, way) Action
}{
	{"what comes through it does not count", cannotCount},
	{"its driver acts, and nobody accepted that or its plan is not known", actsUnaccepted},
	{"a person declined the same before", barredByDecline},
	{"the work came before its approval", tooEarly},
	{"the client answered for its person", clientAnswers},
	{"a person declined the input", declinedInput},
	{"only the person's own answer counts", notThePerson},
	{"a review approved what does not come through it", notReviewed},
	{"it cannot take the place of the person's answer", noSubstitute},
}

// Through obtains the input through the route that the tree chose, unless something
// speaks against it.
func Through(s *State, k *input.Task, in driver.Input, r decision.Route) Action {
	w := way{task: k, in: in, kind: input.Of(in.Kind), route: r, byReport: !TakesNoReport(s, k, in)}
	w.desc, _, w.known = s.Drivers.Describe(r.Via)
	for _, rule := range against {
		if a := rule.due(s, w); a != nil {
			return a
		}
	}
	if w.desc.Has(driver.FeatureAgent) {
		read := Read{Task: k, Input: in, Route: r}
		if s.Solution.Supplied() {
			return read
		}
		return besides(s, k, in, read, nil)
	}
	if w.kind.Approves && w.byReport {
		in = ApprovalQuestion(s, k, GatedInput(s))
	}
	return throughClient(s, k, in, r)
}

func (w way) passOver(s *State, why string) Action { return PassOver(s, w.in.ID, w.route, why) }

func cannotCount(s *State, w way) Action {
	if why := cmp.Or(Barred(s, w.in, w.route.Via), uncountable(s, w.task, w.in, w.route.Via), cannotDecide(s, w.task, w.in, w.route.Via)); why != "" {
		return w.passOver(s, why)
	}
	return nil
}

// actsUnaccepted makes sure that the driver of the route may act, and says what it would
// do before it does it.
func actsUnaccepted(s *State, w way) Action {
	if !w.desc.Has(driver.FeaturePreview) || !w.kind.Evidence {
		return nil
	}
	if _, ok := AcceptanceFor(s, w.route.Via, driver.EffectReads); !ok {
		return w.passOver(s, notAccepted(s))
	}
	switch {
	case !MayAsk(s, w.task, w.in, w.desc):
		return nil
	case Stated(s, w.route.Via) == nil:
		return Preview{w.task, w.in, w.route}
	case s.Solution.Supplied():
		return NotNeeded(s, w.task)
	}
	return nil
}

func barredByDecline(s *State, w way) Action {
	if !w.kind.Approves || !w.byReport {
		return nil
	}
	if why := barredByPerson(s, w.in, w.desc); why != "" {
		return w.passOver(s, why)
	}
	return nil
}

// tooEarly records that work was submitted for a step that nobody has approved.
// The same submission again is not recorded again.
func tooEarly(s *State, w way) Action {
	if !w.kind.Approves || !w.byReport || w.desc.Has(driver.FeatureAgent) || !s.Solution.Supplied() || s.Reported {
		return nil
	}
	if early := s.Run.Step.Early; early != nil && early.Digest == s.Solution.Payload {
		return nil
	}
	ev := run.Event{Kind: run.Premature, Input: input.EvidenceKind.Name, Digest: s.Solution.Payload}
	if work := s.Solution.Work(); len(work) <= maxEarly {
		ev.Answer = &driver.Answer{InputID: input.EvidenceKind.Name, Value: work, Provenance: driver.AgentReported}
	}
	return Apply{Events: []run.Event{ev}}
}

// declinedInput keeps the route from getting around a person who declined the input.
func declinedInput(s *State, w way) Action {
	supplied := s.Solution.Supplied()
	// Work that comes after the decline is not what asks the person again.
	despite := w.kind.Approves && supplied && !w.desc.Has(driver.FeatureAgent)
	by, no := s.Run.Step.Declines[w.in.ID]
	if !no || by == w.route.Via && !despite {
		return nil
	}
	if w.kind.Approves && !supplied {
		// Perhaps a later route is the one that leads to the person.
		return w.passOver(s, "a person declined through "+by)
	}
	why := fmt.Sprintf("A person declined this step through %s, and only the person can take that back, in the same way.", by)
	if supplied {
		return Refuse(fault.UserDeclined, why)
	}
	return Halt{Fault: fault.New(fault.UserDeclined, "%s", why).WithNext("%s", askAgain(s, w.task))}
}

func notThePerson(s *State, w way) Action {
	switch {
	case w.byReport:
		return nil
	case s.Solution.Supplied():
		return Refuse(fault.EvidenceNotAccepted, notByReport)
	case !w.desc.Has(driver.FeatureHuman):
		return w.passOver(s, "only a person's own answer counts")
	}
	return nil
}

// notReviewed: the evidence will not pass the review that was to approve it, which is
// decided on anew.
func notReviewed(s *State, w way) Action {
	a := s.Run.Step.Approval
	if a == nil || !a.ClientReview || !w.kind.Evidence || a.Via == w.route.Via {
		return nil
	}
	return PassOver(s, input.ApprovalKind.Name, decision.Route{Index: a.Route, Via: a.Via}, "the evidence comes through "+w.route.Via)
}

func noSubstitute(s *State, w way) Action {
	review := w.kind.Approves && w.desc.Has(driver.FeatureClientReview)
	switch {
	case w.kind.Approves && (review || slices.Equal(HowIn(s, w.task, w.in, w.route.Via), []string{driver.ByPage}) && !w.task.Approval.Part.Login) && answeredUnusably(s, w.in.ID):
		return w.passOver(s, "the person was asked by form, and neither a link nor a review takes the place of their answer")
	case !w.known:
		return Close(s, w.in.ID, w.route, decision.Unavailable, "driver is not configured", 0)
	case review && !evidenceComesThrough(s, w.task, w.route.Via):
		return w.passOver(s, "the evidence does not come through it, so there is nothing to review")
	case review && w.task.Approval.Phrase != "":
		return w.passOver(s, "a phrase has to be typed, which no review does")
	}
	return nil
}

// ForRun asks the person for what the run needs, where the tree and the client allow it.
func ForRun(s *State, in driver.Input, route *decision.Route) Action {
	kind, k := input.Of(in.Kind), input.RunTask(*s.Chain)
	switch q := s.Run.Step.Question; {
	case kind.Optional && route == nil:
		return LeaveOffer(s, *q, "nobody can be asked any more")
	case route == nil, !kind.Optional && s.Caller.Detached:
		_, missing := input.OfRun(*s.Run, *s.Chain)
		return Halt{Fault: input.MissingOfRun(*s.Run, *s.Chain, missing)}
	}
	if why := Barred(s, in, route.Via); why != "" {
		return PassOver(s, in.ID, *route, why)
	}
	if desc, _, ok := s.Drivers.Describe(route.Via); !ok || !desc.Has(driver.FeatureHuman) {
		return PassOver(s, in.ID, *route, "only a person can be asked for what the run needs")
	}
	if d := AnswersItself(s, in, route.Via); d != nil {
		return PassOver(s, in.ID, *route, itself(*d))
	}
	return throughClient(s, k, in, *route)
}

// maxDeclines is how often a person who declined is asked again before the decline is final.
const maxDeclines = 3

// throughClient asks the client, if this call may, or takes what the driver knows itself.
func throughClient(s *State, k *input.Task, in driver.Input, r decision.Route) Action {
	desc, _, _ := s.Drivers.Describe(r.Via)
	kind, open := input.Of(in.Kind), s.Run.Step.Question
	if answeredElsewhere(s, k, in, r) {
		return Wait{Task: k, Question: open, Meanwhile: true}
	}
	if !MayAsk(s, k, in, desc) && (s.Caller.Detached || !kind.Judges) {
		return Reply{DrivenReply(s, k, in)}
	}
	if by, no := s.Run.Step.Declines[in.ID]; no && s.Run.Step.DeclineCount >= maxDeclines {
		return Halt{Fault: fault.New(fault.UserDeclined, "A person declined through %s, and was asked often enough.", by)}
	}
	q := run.Question{
		Phrase: PhraseIn(k, in), Input: in, Via: r.Via, Route: r.Index, Path: r.Path, Human: desc.Has(driver.FeatureHuman),
		Asked: 1, Earlier: s.Run.Step.Superseded, Short: strings.Contains(in.Description, input.ReadMark),
	}
	if open != nil && open.Input.ID == in.ID && open.Route == r.Index && outdated(s, k, *open) == "" {
		if a := askedBefore(s, k, in, r); a != nil {
			return a
		}
		q.Asked, q.Dismissed, q.Earlier = open.Asked+1, open.Dismissed, append(slices.Clone(open.Earlier), open.Seq)
	}
	// The input of a run has no type, and what an agent reports of an approval has its own.
	reported := kind.Approves && s.Reported
	if given := s.Solution; given != nil && given.Type != "" && given.Type != k.Common.Type && !kind.OfRun && !reported {
		return Refuse(fault.TypeMismatch, fmt.Sprintf("the open challenge is of type %q, the solution of type %q", k.Common.Type, given.Type))
	}
	return Render{Task: k, Question: &q, Route: r}
}

// askedBefore is what becomes of a question that is out already; nil if it is asked anew.
func askedBefore(s *State, k *input.Task, in driver.Input, r decision.Route) Action {
	q := s.Run.Step.Question
	// A question that does not say that work was submitted meanwhile is asked anew.
	sameWords := !input.Of(in.Kind).Approves || q.Input.Description == in.Description
	switch {
	case sameWords && s.Caller.Holding != nil && s.Caller.Holding(s.Run.ID, q.Seq):
		return Ask{*q, r}
	case GivenUp(s, *q):
		return Abandon(s, *q, r)
	case leftAlone(s, *q):
		return Wait{Task: k, Question: q}
	}
	return nil
}

// Abandon is done with a question that got no answer.
func Abandon(s *State, q run.Question, r decision.Route) Apply {
	return Close(s, q.Input.ID, r, decision.Abandoned, "asked twice, never answered", q.Seq)
}

// Claimed is what becomes of a submission that is evidence which cannot count; nil if it
// is not. It is recorded as a claim, which nobody judges and which is not counted.
func Claimed(s *State, k *input.Task) Action {
	if a := claimOf(s); len(a.Events) > 0 {
		return a
	}
	return Halt{Acceptable: true, Fault: fault.New(fault.EvidenceNotAccepted, "%s. What was submitted is recorded as a claim, and is neither judged nor counted.", onlyCounts(s)).
		WithNext(`call kairos_next with %s without evidence: solution {"type":%q,"nonce":%q}`, protocol.URI(k.Step.UUID), k.Common.Type, s.Run.Step.Nonce)}
}

// NotNeeded records a submission as a claim: the server does the step itself.
func NotNeeded(s *State, k *input.Task) Action {
	if !takesReport(k) {
		return Claimed(s, k)
	}
	a := claimOf(s)
	a.Used, a.Note = true, "What was submitted is recorded as a claim and was not used: KAIROS does this step itself."
	return a
}

// NoRoute is what follows where the tree has nothing left for the input.
func NoRoute(s *State, k *input.Task, in driver.Input) Action {
	if q := onPage(s, in.ID); q != nil && q.Elsewhere != "" {
		return Wait{Task: k, Question: q, Meanwhile: true}
	}
	return besides(s, k, in, unobtained(s, k, in), Wait{Task: k})
}

// unobtained is the end of a call that could not obtain the input.
func unobtained(s *State, k *input.Task, in driver.Input) Action {
	kind := input.Of(in.Kind)
	if kind.Judges {
		return unjudged(s, k)
	}
	by, no := s.Run.Step.Declines[in.ID]
	switch {
	case no && s.Solution.Supplied():
		return Refuse(fault.UserDeclined, declinedFor(s, by).Message)
	case no:
		return Halt{Fault: declinedFor(s, by)}
	case kind.Approves && s.Decline != nil && HasPage(s):
		return Halt{Fault: fault.New(fault.ApprovalUnavailable, "%s", plain.Sentences(DeclineInWords(s),
			"Only a person can approve what a person declined"+troubles(s, in.ID), noLinkGiven, HowToTakeBack(s)))}
	case TakesNoReport(s, k, in):
		return Halt{Fault: fault.New(fault.ApprovalUnavailable, "%s", plain.Sentences(notByReport,
			fmt.Sprintf("Nobody can be asked through this client%s", troubles(s, in.ID)), noLink(s, k), elsewhere))}
	case k.Demand.Evidence != nil && kind.Evidence:
		return Halt{Fault: nobodyCounts(s, in), Acceptable: true}
	case kind.Approves:
		return Halt{Fault: input.NobodyApproves(s.Run.Step.Index, k.Approval.How, troubles(s, in.ID))}
	case kind.NoRoute != nil:
		return Halt{Fault: kind.NoRoute(s.Run.Step.Index, troubles(s, in.ID))}
	case budgetExhausted(s, in.ID):
		return Halt{Fault: fault.New(fault.SamplingBudgetExceeded, "No route is left to obtain %q of step %d%s", in.ID, s.Run.Step.Index, troubles(s, in.ID))}
	}
	return Halt{Fault: Unavailable("no route is left to obtain %q of step %d%s", in.ID, s.Run.Step.Index, troubles(s, in.ID))}
}
