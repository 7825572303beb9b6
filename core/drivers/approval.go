package drivers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// DefaultHow are the ways of approving that count unless the operator says otherwise.
func DefaultHow() []string { return []string{driver.ByForm, driver.ByReview, driver.ByPage} }

// Approval is how a step is approved, by all that demand something of it.
type Approval struct {
	// Mode is driver.ApprovalUser where a person approves before the work. Stated says
	// that a rule or the step demands the mode, and not its type alone.
	Mode   driver.ApprovalMode
	Stated bool
	// How are the ways that count. Narrowed says that a rule or the step takes fewer than
	// the server does.
	How      []string
	Narrowed bool
	// Phrase has to be typed to approve; empty: nothing.
	Phrase string
	// After is how long an answer has to take at least, from when its question was sent.
	After time.Duration
	// Part is the part of a way of drivers that alone counts of it, with what it demands of an
	// answer; the zero Way: none does.
	Part protocol.Way
	// People have to approve, each entry for itself; none unless Part.Login. NotRunner: who owns the
	// run does not count.
	People    []rules.People
	NotRunner bool

	// The demands themselves, for Conflict.
	server, step []string
	rules        rules.Demand
	nobody       bool // could log in, as has to be
}

// ApprovalSources are those that say how a step is approved. The first that states a mode decides
// on it, except that rules only add.
type ApprovalSources struct {
	Server []string     // the ways that the server takes
	Rules  rules.Demand // of the operator
	Step   protocol.Common
	Type   driver.ApprovalMode // of the driver that judges the step
	Realm  string              // Setup.Realm
}

// ApprovalOf merges what is demanded: ways are narrowed, and every phrase has to be typed.
func ApprovalOf(from ApprovalSources) Approval {
	own := rules.OfChallenge(from.Step, from.Realm)
	a := Approval{How: protocol.WithParts(from.Server), server: from.Server, rules: from.Rules}
	for _, mode := range []driver.ApprovalMode{from.Step.ApprovalMode, from.Type} {
		if a.Mode == "" {
			a.Mode = mode
		}
	}
	a.Stated = from.Step.ApprovalMode != ""
	var phrases []string
	if r := from.Rules.Approval; r != nil {
		a.Mode, a.Stated = driver.ApprovalUser, true
		a.narrow(r.How)
		phrases = append(phrases, r.Phrases...)
		if a.After = r.After; a.After > 0 { // an agent's report and a review have no time that is measured
			a.How = slices.DeleteFunc(a.How, func(way string) bool { return way == driver.ByAgent || way == driver.ByReview })
		}
	}
	if own.Approval != nil {
		a.step = own.Approval.How
		a.narrow(a.step)
	}
	a.Phrase = typed(append(phrases, from.Step.ApprovalPhrase()))
	if all := from.Rules.And(own).Approval; all != nil {
		a.People, a.NotRunner = all.People, all.NotRunner
	}
	a.settle(from.Realm)
	return a
}

// settle turns a part of a way into a condition of the way, in which drivers answer.
func (a *Approval) settle(realm string) {
	a.How = protocol.WithoutParts(a.How)
	for i, name := range a.How {
		part, ok := protocol.WayOf(name)
		switch {
		case !ok:
			continue
		case part.Login && realm == "":
			a.How, a.nobody = slices.Delete(a.How, i, i+1), true
		default:
			a.How[i], a.Part = protocol.AnsweredBy(name), part
		}
		break // the parts of a way contain each other, so there is one
	}
	if a.Part.Login && len(a.People) == 0 {
		a.People = []rules.People{{Count: 1}}
	}
}

func (a *Approval) narrow(to []string) {
	if to == nil {
		return
	}
	a.Narrowed = true
	a.How = slices.DeleteFunc(a.How, func(way string) bool { return !slices.Contains(to, way) })
}

// typed is the one line in which all phrases are typed, each once.
func typed(phrases []string) string {
	var all []string
	for _, p := range phrases {
		if p != "" && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return strings.Join(all, " ")
}

// Conflict says why nobody can approve the step, and what to do; empty: somebody can, or
// nobody has to.
func (a Approval) Conflict() string {
	if a.Mode != driver.ApprovalUser || len(a.How) > 0 {
		return ""
	}
	var takes []string
	if a.step != nil {
		takes = append(takes, "the step is approved only by "+listed(a.step))
	}
	if r := a.rules.Approval; r != nil && r.How != nil {
		takes = append(takes, fmt.Sprintf("the operator's rules (%s) take only %s", strings.Join(a.rules.By, "; "), listed(r.How)))
	}
	if a.nobody {
		takes = append(takes, "nobody can log in to this server (auth.enabled)")
	}
	takes = append(takes, "the server takes "+listed(a.server))
	return strings.Join(takes, ", and ") + `: change "how" of the step or of the rule, or ask the operator to change approval.how`
}

// Words say how the step is approved.
func (a Approval) Words() string {
	said := "by " + listed(a.ways())
	for _, p := range a.People {
		said += ", " + p.Words()
	}
	if a.NotRunner {
		said += ", other than whoever runs it"
	}
	if a.Phrase != "" {
		said += fmt.Sprintf(", and who approves types %q", a.Phrase)
	}
	if a.After > 0 {
		said += fmt.Sprintf(", %s after the question was sent at the earliest", a.After)
	}
	return said
}

// ways are those that count, as people name them.
func (a Approval) ways() []string {
	if a.Part.Name == "" {
		return a.How
	}
	all := slices.Clone(a.How)
	all[slices.Index(all, protocol.AnsweredBy(a.Part.Name))] = a.Part.Name
	return all
}

func listed(ways []string) string {
	ways = protocol.WithoutParts(ways)
	if len(ways) == 0 {
		return "no way"
	}
	return strings.Join(ways, " or ")
}

// UnknownWay says which of the ways is none that drivers declare, and what there is; empty: all
// are known.
func UnknownWay(how, known []string) string {
	for _, way := range how {
		if !slices.Contains(known, protocol.AnsweredBy(way)) {
			there := protocol.WithParts(known)
			return fmt.Sprintf("%.80q is not a way in which a driver of drivers.lock answers approvals (there are %s)%s",
				way, strings.Join(there, ", "), fields.Suggestion(way, there))
		}
	}
	return ""
}

// CheckHow refuses a setting approval.how that names a way which no driver has. The default names
// what is shipped, whether it is installed or not.
func CheckHow(how, known []string) error {
	if slices.Equal(how, DefaultHow()) {
		return nil
	}
	if why := UnknownWay(how, known); why != "" {
		return fmt.Errorf("approval.how: %s", why)
	}
	return nil
}

// Stuck finds what a run of the step would stop at: evidence that nobody can supply, or an approval
// that nobody can give.
func (s Setup) Stuck(at Place, i int, use string) (found []protocol.Diagnostic) {
	for _, d := range []*protocol.Diagnostic{s.Unapprovable(at, i, use), s.Unvouched(at, i, use)} {
		if d != nil {
			found = append(found, *d)
		}
	}
	return found
}

// Unapprovable refuses a step that nobody can approve, and warns of one for whose approval the
// tree has no route. It returns nil if somebody can approve it, or nobody has to.
func (s Setup) Unapprovable(at Place, i int, use string) *protocol.Diagnostic {
	step := at.Chain.Steps[i]
	common, err := protocol.CommonOf(step.Challenge)
	if err != nil || step.Challenge == nil {
		return nil
	}
	if why := UnknownWay(common.ApprovalHow(), s.Tree.Ways()); why != "" {
		return step.Problem("/approval/how", "approval.how: "+why)
	}
	judge, _, _ := s.Drivers.Describe(use)
	ruled := s.RulesAt(at, i)
	a := ApprovalOf(ApprovalSources{Server: s.Ways(), Rules: ruled, Step: common, Type: judge.Approval, Realm: s.Realm})
	if why := a.Conflict(); why != "" {
		return step.Problem("/approval", "nobody can approve this step: "+why)
	}
	if a.Mode != driver.ApprovalUser || s.Tree.ApprovedBy(a.How) {
		return nil
	}
	d := step.Problem("/approval", fmt.Sprintf("no route under inputs.approval of the decision tree leads to an approval by %s: every run will stop here", listed(a.ways())))
	d.Severity = driver.SeverityWarning
	return d
}
