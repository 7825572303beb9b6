package archive

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Moment is one event of a run, described for people.
type Moment struct {
	At    time.Time `json:"at"`
	Step  int       `json:"step"`
	Label string    `json:"label"`
	// What is one of asked, repaired (asked again after an unusable answer), sent
	// (to the approval page), answered, approved, partly_approved (by one of several people), supplied, judged, not_judged,
	// route_closed, submitted_before_approval, opened (the approval page), declined,
	// dismissed, automated (the client answered itself, which decides nothing), called (a driver that changes the world), waiting (for a driver),
	// outcome_unknown, settled, decided (by a person, after an unknown outcome),
	// approval_lapsed, rejected, refused, accepted, failed (which the challenge
	// allows), attested, expired, redacted, abandoned.
	What string `json:"what"`
	// Via is the capability driver, or "page" for an approval on the approval page;
	// Why is the reason why the tree chose it.
	Via string `json:"via,omitempty"`
	Why string `json:"why,omitempty"`
	// Driver judged the evidence: name and version.
	Driver   string          `json:"driver,omitempty"`
	Question string          `json:"question,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	// Sent is the submission of an agent, where Answer was read from another form of it.
	Sent       json.RawMessage   `json:"sent,omitempty"`
	Provenance driver.Provenance `json:"provenance,omitempty"`
	// Basis is the way in which a person approved.
	Basis run.Basis `json:"basis,omitempty"`
	// Model that generated the answer and why it stopped, if known.
	Model      string `json:"model,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`
	Verdict    string `json:"verdict,omitempty"`
	ProofHash  string `json:"proof_hash,omitempty"`
	// Files says who vouches for the files of an accepted step. It is empty if it demanded none.
	Files driver.Provenance `json:"files,omitempty"`
	// Delay is how long the answer took, from when its question was sent to the client, or nil.
	Delay *run.Delay `json:"delay,omitempty"`
	// Took is how long the route that ends here was tried.
	Took time.Duration `json:"took,omitempty"`
	// Walk is the complete walk through the tree, and Facts its input, if they were
	// kept.
	Walk  *decision.Decision `json:"walk,omitempty"`
	Facts *decision.Record   `json:"facts,omitempty"`
	// Redaction says what was erased from the run.
	Redaction *run.Redaction `json:"redaction,omitempty"`
}

// momentOf describes an event for people; false: it matters only to the engine.
func momentOf(ev run.Event, chain protocol.Chain) (Moment, bool) {
	m := Moment{At: ev.At, Step: ev.Step, Via: ev.Via, What: string(ev.Kind), Took: ev.Took, Delay: ev.Delay}
	if i := ev.Step - 1; i >= 0 && i < len(chain.Steps) {
		m.Label = chain.Steps[i].Heading()
	}
	if m.Walk, m.Facts = walkOf(ev); m.Walk != nil {
		m.Why = why(*m.Walk)
	}
	tell, known := tellers[ev.Kind]
	if known {
		tell(&m, ev)
	}
	return m, known
}

// tellers complete the moment of an event, by its kind.
var tellers = map[run.Kind]func(*Moment, run.Event){
	run.Asked:       tellQuestion,
	run.Repaired:    tellRepaired,
	run.Answered:    tellAnswered,
	run.Supplied:    tellAnswered,
	run.RouteClosed: tellRouteClosed,
	run.Opened:      tellOpened,
	run.Premature:   tellUncounted("work was submitted before the step was approved; it is not counted"),
	run.Claimed:     tellUncounted("evidence was submitted that cannot count for this step; it is neither judged nor counted"),
	run.Planned:     tellPlanned,
	run.Declined:    tellDeclined,
	run.Dismissed:   tellReason,
	run.Automated:   func(m *Moment, ev run.Event) { m.Verdict = because(ev.Delay.Words(), ev.Reason) },
	run.Undeclined:  func(m *Moment, ev run.Event) { m.Verdict = because("taken back by "+ev.By, ev.Reason) },
	run.Adopted: func(m *Moment, ev run.Event) {
		m.Verdict = because("from "+ev.Owner.From+" to "+ev.Owner.Principal, ev.Reason)
	},
	run.Lapsed:    tellReason,
	run.Expired:   tellReason,
	run.Abandoned: tellReason,
	run.Settled:   tellReason,
	run.Cancelled: tellReason,
	run.Called:    tellCalled,
	run.Deferred:  tellDeferred,
	run.Unsettled: func(m *Moment, ev run.Event) { m.What, m.Verdict = "outcome_unknown", ev.Reason },
	run.Decided:   tellDecided,
	run.Rejected:  tellCode,
	run.Refused:   tellCode,
	run.Accepted:  tellAccepted,
	run.Attested:  func(m *Moment, ev run.Event) { m.Verdict = because(ev.Outcome, ev.Reason) },
	run.Redacted: func(m *Moment, ev run.Event) {
		m.Redaction, m.Verdict = ev.Redaction, because(ev.Redaction.String(), ev.Reason)
	},
	run.PartlyApproved: tellVote,
}

func tellReason(m *Moment, ev run.Event) { m.Verdict = ev.Reason }

func tellDeclined(m *Moment, ev run.Event) {
	tellReason(m, ev)
	if ev.By != "" {
		m.Verdict += ", by " + run.Person(ev.By, ev.Name)
	}
}

func tellCode(m *Moment, ev run.Event) { m.Verdict = because(ev.Code, ev.Reason) }

func tellQuestion(m *Moment, ev run.Event) {
	if ev.Question.Beside() {
		m.Via = viaPage // whichever driver asked before
	}
	m.Question = ev.Question.Input.Description
	if ev.Question.Input.User != "" && ev.Question.Input.Kind == driver.KindEvidence && !ev.Question.Human {
		m.Question = ev.Question.Input.User
	}
	if in := ev.Question.Input; ev.Question.Short {
		m.Question = strings.Join([]string{m.Question, "The whole:", in.Type + " " + string(in.Display), in.System, in.User}, "\n")
	}
}

func tellRepaired(m *Moment, ev run.Event) {
	if ev.Question.Elsewhere != "" { // it was asked before
		m.What, m.Verdict = "sent", "to the approval page, where the question stays open"
		return
	}
	tellQuestion(m, ev)
}

func tellAnswered(m *Moment, ev run.Event) {
	if ev.Input == driver.KindJudge {
		m.What = "judged" // it is not the step's evidence
	}
	tellAnswer(m, ev)
}

func tellRouteClosed(m *Moment, ev run.Event) {
	m.Via = ev.Attempt.Via
	m.Verdict = because(ev.Attempt.Outcome, ev.Attempt.Reason)
}

func tellVote(m *Moment, ev run.Event) {
	m.Via, m.Provenance, m.Basis = viaPage, driver.ClientAttested, run.BasisPage
	m.Verdict = because(fmt.Sprintf("on the approval page, by %s, %s", ev.Vote.Person(), howReached(ev.Vote.Visit)), ev.Reason)
}

func tellOpened(m *Moment, ev run.Event) {
	m.Via, m.Verdict = viaPage, fmt.Sprintf("the page behind the link was opened %s", howReached(*ev.Visit))
}

func tellPlanned(m *Moment, ev run.Event) {
	m.Via, m.Question, m.Verdict = ev.Plan.Driver, ev.Plan.Text, ev.Plan.Accepted()
}

// tellUncounted tells of a report of the agent that does not count.
func tellUncounted(why string) func(*Moment, run.Event) {
	return func(m *Moment, ev run.Event) {
		m.Verdict, m.Provenance = why, driver.AgentReported
		if ev.Answer != nil {
			m.Answer = ev.Answer.Value
		}
	}
}

func tellCalled(m *Moment, ev run.Event) {
	m.Verdict = fmt.Sprintf("attempt %d; the driver changes the world, so this is recorded before it is called", ev.Call.Attempt)
}

func tellDeferred(m *Moment, ev run.Event) {
	m.What, m.Verdict = "waiting", ev.Reason
	if p := ev.Call.Pending; p != nil {
		m.Verdict = plain.Sentences(p.Reason, p.Message)
	}
}

func tellDecided(m *Moment, ev run.Event) {
	said := "it did not happen"
	if ev.Decision.Happened {
		said = "it happened"
	}
	m.Verdict = because(fmt.Sprintf("%s, says %s", said, ev.Decision.By), ev.Reason)
	tellAnswer(m, ev)
}

func tellAccepted(m *Moment, ev run.Event) {
	p := ev.Proof
	m.Driver, m.Via = driverName(p.Driver), p.Via.Name
	m.Provenance, m.ProofHash, m.Verdict = p.Provenance, p.Hash, ev.Evidence.Verdict()
	m.Answer = ev.Evidence.Output
	m.Files = ev.Evidence.Files()
	if ev.Evidence.Failed {
		m.What = "failed"
	}
}

// because joins an event and, if known, its reason.
func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// viaPage is the Via of answers given on the approval page.
const viaPage = "page"

func tellAnswer(m *Moment, ev run.Event) {
	if a := ev.Approval; a != nil {
		m.What, m.Via, m.Provenance, m.Basis = "approved", a.Via, a.Provenance, a.Basis
		switch {
		case a.ClientReview:
			m.Verdict = "left to the client's own review of the request"
		case a.Basis == run.BasisLink:
			m.Via = viaPage // whichever driver sent the link
			m.Verdict = "on the approval page, by whoever had its link: nobody was identified" + visits(a.Visits)
		case a.Basis == run.BasisPage:
			m.Via = viaPage
			m.Verdict = "on the approval page, by " + a.People() + visits(a.Visits)
		case a.Basis == run.BasisAgent:
			m.Verdict = "on the agent's word alone: approval.how has agent"
		case a.Delay.Under():
			m.Verdict = a.Delay.Words()
		}
		return
	}
	if why, unjudged := runs.Unjudged(ev.Answer); unjudged {
		m.What, m.Via, m.Verdict = "not_judged", ev.Answer.Via, "no verdict was given: "+why
		return
	}
	if a := ev.Answer; a != nil {
		m.Via, m.Provenance, m.Answer, m.Sent = a.Via, a.Provenance, a.Value, ev.Sent
		m.Model, m.StopReason = a.Model, a.StopReason
		m.Verdict = cmp.Or(m.Verdict, comparison(*a), quick(ev))
	}
	if v := ev.Visit; v != nil {
		if ev.By != "" {
			m.Basis = run.BasisPage
		}
		m.Via, m.Verdict = viaPage, "on the approval page, by "+cmp.Or(run.Person(ev.By, ev.Name), "whoever had its link: nobody was identified")+"; answered "+howReached(*v)
	}
}

// quick says of a person's answer that it came faster than a person can give it.
func quick(ev run.Event) string {
	if ev.Answer.Provenance != driver.ClientAttested {
		return ""
	}
	return ev.Delay.Words()
}

// comparison says why texts were not compared as configured, where the server
// compared them.
func comparison(a driver.Answer) string {
	var v driver.SimilarityValue
	if a.Via != runs.CoreDriver || json.Unmarshal(a.Value, &v) != nil || v.Method == "" {
		return ""
	}
	return v.Reason
}

// visits describes how the approval page was reached before it was answered.
func visits(all []run.Visit) string {
	if len(all) == 0 {
		return ""
	}
	n := len(all) - 1
	return fmt.Sprintf("; the page was opened %s before, and answered %s", times(n), howReached(all[n]))
}

func times(n int) string {
	switch {
	case n == 1:
		return "once"
	case n >= run.MaxVisits:
		return fmt.Sprintf("%d times or more", n)
	}
	return fmt.Sprintf("%d times", n)
}

// howReached describes how the page was reached, as far as the server knows.
func howReached(v run.Visit) string {
	from := "from " + cmp.Or(string(v.From), "an unknown address")
	if v.From == run.BehindProxy {
		from = string(v.From)
	}
	if v.Browser {
		return from + ", by what says it is a browser"
	}
	return from + ", by something that does not say it is a browser"
}

func driverName(d run.DriverRef) string {
	if d.Version == "" {
		return d.Name
	}
	return d.Name + " " + d.Version
}

// why is the walk in one line: rule, route and condition.
func why(d decision.Decision) string {
	if d.Route == nil {
		return d.Rule + ": no route left"
	}
	reason := "no condition"
	if d.Route.When != "" {
		reason = d.Route.When
	}
	return fmt.Sprintf("%s: %s, because %s", d.Rule, d.Route.Via, reason)
}
