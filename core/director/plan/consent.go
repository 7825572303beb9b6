package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// ApprovalGiven reports whether a person approved the open step on its page, and it still holds.
func ApprovalGiven(s *State) bool {
	a := s.Run.Step.Approval
	return a != nil && (a.Basis == run.BasisLink || a.Basis == run.BasisPage) && approvalStands(s)
}

// PhraseIn is what has to be typed to answer the input; empty for what is not an approval.
func PhraseIn(k *input.Task, in driver.Input) string {
	if !input.Of(in.Kind).Approves {
		return ""
	}
	return k.Approval.Phrase
}

// HowIn are the ways in which the driver may answer the input; empty for what is not an approval.
func HowIn(s *State, k *input.Task, in driver.Input, via string) []string {
	desc, _, _ := s.Drivers.Describe(via)
	if !input.Of(in.Kind).Approves {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(desc.AnswersBy), func(way string) bool { return !slices.Contains(k.Approval.How, way) })
}

// outdated says why the question does not approve as it is demanded now, if it is an approval: what
// counts may have been narrowed since it was asked. Empty: it does.
func outdated(s *State, k *input.Task, q run.Question) string {
	switch {
	case !input.Of(q.Input.Kind).Approves:
	case !slices.Contains(HowIn(s, k, q.Input, q.Via), q.How):
		return fmt.Sprintf("it was answered by %s, which does not count any more", q.How)
	case q.Phrase != k.Approval.Phrase:
		return "what has to be typed was changed meanwhile"
	}
	return ""
}

// approvalStands reports whether the open step is approved and the approval is not too old.
func approvalStands(s *State) bool {
	a := s.Run.Step.Approval
	return a != nil && s.Run.Step.Approved(a.Via, run.Event{At: s.Now})
}

// evidenceComesThrough looks ahead: a review can only approve what it will see.
func evidenceComesThrough(s *State, k *input.Task, via string) bool {
	d := s.Tree.Decide(input.EvidenceKind.Name, Facts(s, k, input.EvidenceKind.Name))
	return d.Route != nil && d.Route.Via == via
}

// NewApproval is the approval of what the open step needs, given now through the route.
func NewApproval(s *State, r decision.Route, p driver.Provenance, basis run.Basis) *run.Approval {
	now := s.Now
	return &run.Approval{
		Digest: s.Run.Step.Digest, Via: r.Via, Route: r.Index, Provenance: p, ClientReview: basis == run.BasisReview, Basis: basis,
		GrantedAt: now, ExpiresAt: now.Add(s.Options.ApprovalTTL), Premature: earlyTimes(s),
	}
}

// GatedInput is the input that the approval stands in front of.
func GatedInput(s *State) driver.Input {
	for _, in := range s.Run.Step.Inputs {
		if !input.Of(in.Kind).Ungated {
			return in
		}
	}
	return driver.Input{}
}

// earlyTimes is how often work came before its approval.
func earlyTimes(s *State) int {
	if s.Run.Step.Early == nil {
		return 0
	}
	return s.Run.Step.Early.Times
}

// ApprovalQuestion is the approval of an input as it is asked for now.
func ApprovalQuestion(s *State, k *input.Task, evidence driver.Input) driver.Input {
	return input.Approval(k, askedFor(s, k, evidence))
}

// askedFor is what an approval of the input is about.
func askedFor(s *State, k *input.Task, evidence driver.Input) input.ApprovalQuestion {
	return input.ApprovalQuestion{
		Evidence: evidence, Digest: s.Run.Step.Digest, Phrase: k.Approval.Phrase, Early: s.Run.Step.Early, Done: s.Run.Step.Done, Plan: s.Run.Step.Plan, Own: ownAnswer(s, k, evidence),
		Declined: DeclineInWords(s),
	}
}

// TakesNoReport reports whether nobody may report a person's answer to the input: to the
// step's evidence, or to the approval in front of it, which then is the answer.
func TakesNoReport(s *State, k *input.Task, in driver.Input) bool {
	switch kind := input.Of(in.Kind); {
	case kind.Evidence:
		return ownAnswer(s, k, in)
	case kind.Approves:
		for _, behind := range s.Run.Step.Inputs {
			if ownAnswer(s, k, behind) {
				return true
			}
		}
	}
	return false
}

// Gated reports whether an approval stands in front of the input. One in front of
// a person's own answer would be noise, unless it can be that answer itself, or the
// form of the answer lacks what an approval of the step has to have.
func Gated(s *State, k *input.Task, in driver.Input) bool {
	switch {
	case k.Approval.Mode != driver.ApprovalUser:
		return false
	case !personal(s, k, in), ownAnswer(s, k, in) && input.YesOrNo(in):
		return true
	}
	return k.Approval.Phrase != "" || k.Approval.Narrowed
}

// approvedAnswer is what a person has answered to the input by approving, or nil if they
// have not, or if it asks for more.
func approvedAnswer(s *State, k *input.Task, in driver.Input) *driver.Answer {
	if !s.Run.Step.Gated || !approvalStands(s) || !ownAnswer(s, k, in) || !input.YesOrNo(in) {
		return nil
	}
	a := s.Run.Step.Approval
	return &driver.Answer{
		InputID: in.ID, Value: json.RawMessage(`{"confirmation":"` + input.SaidApproved + `"}`), Provenance: a.Provenance, Via: a.Via,
	}
}

// ActionToApprove is what an approval of the open step would permit.
func ActionToApprove(s *State) (declines.Action, error) {
	return ActionOf(s, GatedInput(s))
}

// ActionOf is what an approval in front of the input would permit.
func ActionOf(s *State, in driver.Input) (declines.Action, error) {
	asked := declines.Asked{Type: in.Type, Shown: in.Display}
	if len(asked.Shown) == 0 { // then the words are all that there is
		words, err := json.Marshal([]string{in.Description, in.User})
		if err != nil {
			return nil, err
		}
		asked.Shown = words
	}
	if len(in.Action) > 0 {
		asked.Stated = append(asked.Stated, in.Action)
	}
	switch p := s.Run.Step.Plan; {
	case p == nil:
	case len(p.Action) > 0:
		asked.Stated = append(asked.Stated, p.Action)
	default:
		asked.Proposed = p.Proposed
	}
	return asked.Action()
}

// barredByPerson says why a route may not approve what a person declined; empty: it may.
func barredByPerson(s *State, in driver.Input, desc driver.Descriptor) string {
	if s.Decline == nil || !input.Of(in.Kind).Approves || desc.Has(driver.FeatureHuman) {
		return ""
	}
	return plain.Sentences("only a person can approve what a person declined.", DeclineInWords(s))
}

// LinkMayApprove reports whether the holder of a link may approve: not what a person declined,
// because the holder is not identified.
func LinkMayApprove(s *State) bool {
	_, no := s.Run.Step.Declines[input.ApprovalKind.Name]
	return s.Decline == nil && !no
}

// HowToTakeBack is how a person's decline is taken back if they are not asked again.
func HowToTakeBack(s *State) string {
	return fmt.Sprintf("The operator of this server can take the decline back with `kairos runs undecline %s`", s.Run.ID)
}

// askedAgain reports whether the client can have the person asked again who declined the input: not
// by a link, for which LinkMayApprove is the rule.
func askedAgain(s *State, inputID string) bool {
	desc, _, _ := s.Drivers.Describe(s.Run.Step.Declines[inputID])
	forms := s.Caller.Client.ElicitationForm || !slices.Contains(desc.Needs, driver.NeedElicitation)
	return forms && !slices.Contains(desc.Needs, driver.NeedApprovalPage)
}

// DeclineInWords describes the decline; empty if there is none, or if it was made in this run, whose
// replies describe it.
func DeclineInWords(s *State) string {
	d := s.Decline
	if last := s.Run.Step.LastDecline; d == nil && last != nil && !last.TakenBack.IsZero() {
		said := fmt.Sprintf("This was declined at %s (%s), and the decline was taken back at %s by %s",
			last.At.UTC().Format(time.DateTime+" UTC"), last.Reason, last.TakenBack.UTC().Format(time.DateTime+" UTC"), last.By)
		if last.Why != "" {
			said += ": " + last.Why
		}
		return plain.Sentences(said)
	}
	if d == nil || d.Run == s.Run.ID {
		return ""
	}
	what := "this"
	if s.DeclinePart {
		what = "something that this permits"
	}
	said := fmt.Sprintf("A person declined %s %s ago", what, ago(s.Now.Sub(d.At)))
	if !s.Caller.Reads(d.Space) {
		return said + ", in another space."
	}
	return fmt.Sprintf("%s, in run %s (%q of %q).", said, d.Run, d.Label, d.Title)
}

// OpenAction is what the approval of the open step would permit, or nil if none is due.
func OpenAction(s *State) (declines.Action, error) {
	if in := GatedInput(s); s.Run.State.Live() && in.ID != "" && !input.Of(in.Kind).Ungated {
		return ActionOf(s, in)
	}
	return nil, nil
}

// StandingDecline is the decline at the open step that was not taken back, or nil.
func StandingDecline(s *State) *run.Decline {
	step := s.Run.Step
	if !s.Run.State.Live() || len(step.Declines) == 0 {
		return nil
	}
	return step.LastDecline
}

// offerAllowed reports whether the answer is a person's yes: nobody else's word counts.
func offerAllowed(s *State, q run.Question, a driver.Answer) bool {
	word := limitedTo(s, q.Via, a.Provenance)
	return input.Accepts(a.Value) != input.AcceptsNone && slices.Contains(protocol.FromPerson.Provenances(), word)
}

// notByReport says why nobody but the person may answer.
const notByReport = "This step takes only a person's own answer, given to the server itself. Do not answer for them and do not pass their answer on"

// maxEarly bounds what is kept of work that came too early, in bytes.
const maxEarly = 64 << 10

// ago is a duration in words, rounded down.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	}
	return fmt.Sprintf("%d hours", int(d.Hours()))
}
