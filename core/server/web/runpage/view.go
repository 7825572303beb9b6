package runpage

import (
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The marks say how a thing went; they are classes of style.css as well.
const (
	markGood = "good" // gave what was wanted
	markBad  = "bad"  // a decline, or a refusal
	markWarn = "warn" // tried, and gave nothing
	markTake = "take" // taken, and nothing more is known
	markPass = "pass" // looked at and passed over
	markNone = "none" // never looked at
)

type badge struct{ Mark, Text string }

type view struct {
	Timeline archive.Timeline
	Badges   []badge
	Steps    []step
	Left     int // steps that were not reached
	Whole    []trail
	WholeBy  string // digest of the tree that is drawn whole
	Legend   []badge
}

// step is one step of the run.
type step struct {
	Index      int
	Label      string
	Mark       string
	Erased     string // when and what, where it was
	Tries      string // what was tried without success; empty: nothing
	Provenance badge
	Driver     string
	Proof      string
	Chips      []badge
	Trails     []trail
	Moments    []moment
}

// moment is one thing that happened, as the page tells it.
type moment struct {
	archive.Moment
	Mark  string
	Texts []text
	Badge badge
}

// text is something that was asked or answered.
type text struct{ Name, Text string }

// Long: it is folded away, so that the page stays one to look over.
func (t text) Long() bool { return len(t.Text) > 1200 || t.Lines() > 12 }

func (t text) Lines() int { return strings.Count(t.Text, "\n") + 1 }

func (r Run) view() view {
	v := view{Timeline: r.Timeline, Badges: r.badges(), Legend: legend, Whole: r.drawTree(), WholeBy: r.Tree.Digest}
	for _, m := range r.Timeline.Moments {
		if m.Step > r.Timeline.Run.StepCount {
			continue // what happens to a run as a whole is in its head
		}
		if len(v.Steps) == 0 || v.Steps[len(v.Steps)-1].Index != m.Step {
			v.Steps = append(v.Steps, step{Index: m.Step, Label: m.Label, Mark: markTake})
		}
		v.Steps[len(v.Steps)-1].addMoment(m)
	}
	for i := range v.Steps {
		s := &v.Steps[i]
		if at, erased := r.Timeline.Erased(s.Index); erased {
			s.Erased = fmt.Sprintf("Redacted %s UTC: %s", at.At.UTC().Format("2006-01-02 15:04:05"), at.Verdict)
		}
		if tries, tried := r.Timeline.TriesOf(s.Index); tried {
			s.Tries = "Tried before: " + tries.Counts()
			if !tries.Solved {
				s.Tries = "Tried so far: " + tries.Counts()
			}
		}
		for _, group := range r.groups(s.Index) {
			s.Trails = append(s.Trails, r.draw(group))
			for _, d := range group {
				s.Chips = append(s.Chips, chip(d))
			}
		}
	}
	v.Left = max(0, r.Timeline.Run.StepCount-len(v.Steps))
	return v
}

// badges leave out whether the run is verified: the line below says that with what it is worth.
func (r Run) badges() []badge {
	out := []badge{{markTake, string(r.Timeline.Run.State)}}
	if r.Timeline.Outcome != "" {
		out = append(out, badge{markTake, "attested: " + r.Timeline.Outcome})
	}
	return out
}

// legend says what the words of provenance are worth; see docs/explanation/threat-model.md.
var legend = []badge{
	{run.Vouched(driver.ServerObserved), "a driver of this server looked itself"},
	{run.Vouched(driver.LinkHolder), "of the approval page; nobody was identified, and the agent had the link, too"},
	{run.Vouched(driver.ClientAttested), "through the client, which vouches for it"},
	{run.Vouched(driver.ModelGenerated), "the client's model said so"},
	{run.Vouched(driver.AgentReported), "the agent's word"},
}

// provenance is a badge that does not make anything look better than it is:
// only what the server saw itself is good.
func provenance(p driver.Provenance) badge {
	switch p {
	case "":
		return badge{}
	case driver.ServerObserved:
		return badge{markGood, run.Vouched(p)}
	case driver.ClientAttested:
		return badge{markTake, run.Vouched(p)}
	}
	return badge{markPass, run.Vouched(p)}
}

// addMoment adds what happened to the step.
func (s *step) addMoment(m archive.Moment) {
	out := moment{Moment: m, Mark: markOf(m.What), Badge: provenance(m.Provenance)}
	for _, t := range []text{{"question", m.Question}, {"answer", pretty(m.Answer)}} {
		if t.Text != "" {
			out.Texts = append(out.Texts, t)
		}
	}
	switch m.What {
	case "accepted":
		out.Verdict = "" // it says the same
		s.Mark, s.Driver, s.Proof, s.Provenance = markGood, m.Driver, m.ProofHash, out.Badge
	case "failed":
		s.Mark, s.Driver, s.Proof, s.Provenance = markWarn, m.Driver, m.ProofHash, out.Badge
		s.Chips = append(s.Chips, badge{markWarn, "failed, not required"})
	case "declined", "rejected":
		s.Mark = markBad
	case "refused": // the reply to the no before it, or to what nobody judged
	default:
		if s.Mark == markBad {
			s.Mark = markTake // the run continued
		}
	}
	s.Moments = append(s.Moments, out)
}

func markOf(what string) string {
	switch what {
	case "accepted", "approved":
		return markGood
	case "answered", "supplied", "asked", "repaired", "sent", "judged", "partly_approved":
		return markTake
	case "declined", "rejected", "refused":
		return markBad
	case "route_closed", "approval_lapsed", "failed", "dismissed", "automated", "submitted_before_approval":
		return markWarn
	}
	return markPass
}

// chip is a decision in two words.
func chip(d archive.Decided) badge {
	via := "no route"
	if d.Decision.Route != nil {
		via = d.Decision.Route.Via
	}
	if kind := kindOf(d); kind != driver.KindEvidence {
		via = words(kind) + ": " + via
	}
	mark, how := outcome(d.Past)
	return badge{mark, via + " " + how}
}

// outcome is how a decision ended.
func outcome(p decision.Past) (mark, how string) {
	within := ""
	if t := took(p.Took); t != "" {
		within = " in " + t
	}
	switch {
	case p.Answered:
		return markGood, "answered" + within
	case p.Outcome == decision.Declined:
		return markBad, "declined" + within
	case p.Outcome != "":
		return markWarn, string(p.Outcome) + within
	case p.Decision.Route == nil:
		return markBad, "left"
	}
	return markTake, "taken"
}

// kindOf is the kind of input that was decided on.
func kindOf(d archive.Decided) string {
	const inputs = "inputs."
	switch {
	case d.Record != nil:
		return d.Record.Kind
	case len(d.Decision.Rule) > len(inputs) && d.Decision.Rule[:len(inputs)] == inputs:
		return d.Decision.Rule[len(inputs):]
	}
	return driver.KindEvidence
}

// groups puts together the decisions on one input of a step that follow each
// other: the routes that were tried until one gave an answer or a person declined.
func (r Run) groups(index int) [][]archive.Decided {
	var out [][]archive.Decided
	open := false
	for _, d := range r.Decisions {
		if d.Step != index {
			continue
		}
		if n := len(out) - 1; open && out[n][0].Input == d.Input {
			out[n] = append(out[n], d)
		} else {
			out = append(out, []archive.Decided{d})
		}
		open = !d.Ended()
	}
	return out
}

// spent is how long the run has gone on.
func (v view) Spent() time.Duration {
	m := v.Timeline.Moments
	if len(m) < 2 {
		return 0
	}
	return m[len(m)-1].At.Sub(m[0].At)
}

func (v view) Progress() string {
	return fmt.Sprintf("%d of %d steps", min(v.Timeline.Run.StepIndex-1, v.Timeline.Run.StepCount), v.Timeline.Run.StepCount)
}
