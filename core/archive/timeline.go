package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Moment is one thing that happened in a run, told for people.
type Moment struct {
	At    time.Time `json:"at"`
	Step  int       `json:"step"`
	Label string    `json:"label"`
	// What happened: asked, repaired (asked again after what was no answer), sent
	// (to the approval page), answered, approved, supplied, judged, not_judged, route_closed,
	// submitted_before_approval, opened (the approval page), declined, dismissed, called (a driver that changes the world),
	// waiting (for a driver), outcome_unknown, settled, decided (by a person, after an unknown outcome), approval_lapsed, rejected,
	// refused, accepted, failed (which the challenge does not forbid), attested, expired, redacted, abandoned.
	What string `json:"what"`
	// Via is the capability driver, of a yes on the approval page "page"; Why the reason that the tree took it.
	Via string `json:"via,omitempty"`
	Why string `json:"why,omitempty"`
	// Driver judged the evidence: name and version.
	Driver     string            `json:"driver,omitempty"`
	Question   string            `json:"question,omitempty"`
	Answer     json.RawMessage   `json:"answer,omitempty"`
	Provenance driver.Provenance `json:"provenance,omitempty"`
	// Model that generated the answer and why it stopped, as far as told.
	Model      string `json:"model,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`
	Verdict    string `json:"verdict,omitempty"`
	ProofHash  string `json:"proof_hash,omitempty"`
	// Took is how long the route was tried that this ends.
	Took time.Duration `json:"took,omitempty"`
	// Walk is the whole walk through the tree, and Facts what it was made on,
	// where that was kept.
	Walk  *decision.Decision `json:"walk,omitempty"`
	Facts *decision.Record   `json:"facts,omitempty"`
	// Redaction is what was erased from the run.
	Redaction *run.Redaction `json:"redaction,omitempty"`
}

// Timeline is a run and what happened in it, oldest first.
type Timeline struct {
	Run      run.Summary `json:"run"`
	Outcome  string      `json:"outcome,omitempty"`
	Verified bool        `json:"verified"`
	Problem  string      `json:"problem,omitempty"` // why it is not verified
	Moments  []Moment    `json:"moments"`
	// Unscrubbed: values were erased from the run, but copies may still be in
	// the files of the database.
	Unscrubbed bool `json:"unscrubbed,omitempty"`
}

// Erased is the moment in which what was asked in the step, or answered, was
// erased, and its decisions with it; false: they are there.
func (l Timeline) Erased(step int) (Moment, bool) {
	for _, m := range l.Moments {
		if r := m.Redaction; r != nil && (r.Whole || slices.Contains(r.Steps, step) || slices.Contains(r.Quoting, step)) {
			return m, true
		}
	}
	return Moment{}, false
}

// Timeline tells what happened in one of the caller's runs.
func (a *Archive) Timeline(ctx context.Context, c access.Caller, id run.ID) (Timeline, error) {
	t, err := a.runs.Open(ctx, c, id)
	if err != nil {
		return Timeline{}, err
	}
	events, err := a.store.History.Events(ctx, id)
	if err != nil {
		return Timeline{}, fmt.Errorf("read what happened in run %s: %w", id, err)
	}
	var reply api.AttestReply
	t.Verdict(&reply)
	line := Timeline{Run: t.Run.Summary(), Outcome: t.Run.Outcome, Verified: reply.Verified}
	if !reply.Verified {
		line.Problem = reply.Message
	}
	if a.store.Eraser != nil {
		left, err := a.store.Eraser.Unscrubbed(ctx)
		if err != nil {
			return Timeline{}, fmt.Errorf("read which erased values are still in the files: %w", err)
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
			line.Moments[i].Answer = nil // it is not what was answered
		}
	}
	return line, nil
}

// Runs lists the caller's runs that can go on, last changed first.
func (a *Archive) Runs(ctx context.Context, c access.Caller) ([]run.Summary, error) {
	return a.runs.Live(ctx, c)
}

// momentOf tells an event; what only the machinery cares for is left out.
func momentOf(ev run.Event, chain protocol.Chain) (Moment, bool) {
	m := Moment{At: ev.At, Step: ev.Step, Via: ev.Via, What: string(ev.Kind), Took: ev.Took}
	if i := ev.Step - 1; i >= 0 && i < len(chain.Steps) {
		m.Label = chain.Steps[i].Label
	}
	if m.Walk, m.Facts = walkOf(ev); m.Walk != nil {
		m.Why = why(*m.Walk)
	}
	switch ev.Kind {
	case run.Asked, run.Repaired:
		if ev.Kind == run.Repaired && ev.Question.Elsewhere != "" {
			m.What, m.Verdict = "sent", "to the approval page, where the question stays open"
			break // it was asked before
		}
		m.Question = ev.Question.Input.Description
		if ev.Question.Input.User != "" && ev.Question.Input.Kind == driver.KindEvidence && !ev.Question.Human {
			m.Question = ev.Question.Input.User
		}
	case run.Answered, run.Supplied:
		if ev.Input == driver.KindJudge {
			m.What = "judged" // it is not the step's evidence
		}
		tellAnswer(&m, ev)
	case run.RouteClosed:
		m.Via = ev.Attempt.Via
		m.Verdict = because(ev.Attempt.Outcome, ev.Attempt.Reason)
	case run.Opened:
		m.Via, m.Verdict = viaPage, fmt.Sprintf("the page behind the link was opened %s", howReached(*ev.Visit))
	case run.Premature:
		m.Verdict = "work was submitted before the step was approved; it is not counted"
		m.Provenance, m.Answer = driver.AgentReported, nil
		if ev.Answer != nil {
			m.Answer = ev.Answer.Value
		}
	case run.Declined, run.Dismissed, run.Lapsed, run.Expired, run.Abandoned, run.Settled:
		m.Verdict = ev.Reason
	case run.Called:
		m.Verdict = fmt.Sprintf("attempt %d; the driver changes the world, so this is recorded before it is called", ev.Call.Attempt)
	case run.Deferred:
		m.What, m.Verdict = "waiting", ev.Reason
		if p := ev.Call.Pending; p != nil {
			m.Verdict = plain.Sentences(p.Reason, p.Message)
		}
	case run.Unsettled:
		m.What, m.Verdict = "outcome_unknown", ev.Reason
	case run.Decided:
		said := "it did not happen"
		if ev.Decision.Happened {
			said = "it happened"
		}
		m.Verdict = because(fmt.Sprintf("%s, says %s", said, ev.Decision.By), ev.Reason)
		tellAnswer(&m, ev)
	case run.Rejected, run.Refused:
		m.Verdict = because(ev.Code, ev.Reason)
	case run.Accepted:
		p := ev.Proof
		m.Driver, m.Via = named(p.Driver), p.Via.Name
		m.Provenance, m.ProofHash, m.Verdict = p.Provenance, p.Hash, ev.Evidence.Verdict()
		m.Answer = ev.Evidence.Output
		if ev.Evidence.Failed {
			m.What = "failed"
		}
	case run.Attested:
		m.Verdict = because(ev.Outcome, ev.Reason)
	case run.Redacted:
		m.Redaction, m.Verdict = ev.Redaction, because(ev.Redaction.String(), ev.Reason)
	default:
		return Moment{}, false
	}
	return m, true
}

// because is what happened and, if that is still known, why.
func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// viaPage is how an answer came that was given on the approval page.
const viaPage = "page"

func tellAnswer(m *Moment, ev run.Event) {
	if a := ev.Approval; a != nil {
		m.What, m.Via, m.Provenance = "approved", a.Via, a.Provenance
		switch {
		case a.ClientReview:
			m.Verdict = "left to the client's own review of the request"
		case a.Basis == run.BasisLink:
			m.Via = viaPage // whoever sent them there
			m.Verdict = "on the approval page, by whoever had its link: nobody was identified" + visits(a.Visits)
		case a.Basis == run.BasisPage:
			m.Via = viaPage
			m.Verdict = "on the approval page, by " + a.By + visits(a.Visits)
		case a.Basis == run.BasisAgent:
			m.Verdict = "on the agent's word alone: approval.trust_agent is set"
		}
		return
	}
	if why, unjudged := runs.Unjudged(ev.Answer); unjudged {
		m.What, m.Via, m.Verdict = "not_judged", ev.Answer.Via, "no verdict was given: "+why
		return
	}
	if a := ev.Answer; a != nil {
		m.Via, m.Provenance, m.Answer = a.Via, a.Provenance, a.Value
		m.Model, m.StopReason = a.Model, a.StopReason
	}
}

// visits tells how an approval page was reached until it was answered.
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

// howReached describes how the page was reached, of which the server knows little.
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

func named(d run.DriverRef) string {
	if d.Version == "" {
		return d.Name
	}
	return d.Name + " " + d.Version
}

// why is the walk in one line: the rule, the route, its condition.
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
