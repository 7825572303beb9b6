package terminal

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// giveUp returns a StopError for a reply that only a person can continue from.
func giveUp(r stepReply) error {
	stop := &StopError{Code: r.ErrorCode, Message: whyStopped(r), NextAction: r.NextAction}
	switch r.ErrorCode {
	case "":
		return nil
	case "USER_DECLINED", "APPROVAL_UNAVAILABLE", "OBSERVATION_UNAVAILABLE", "CANCELLED", "OUTCOME_UNKNOWN", "FILES_UNVERIFIED", "AMBIGUOUS_RUN", "NO_OPEN_RUN", "NOT_FOUND", "DRIVER_UNAVAILABLE":
		return stop
	}
	if !r.MustObey {
		return stop
	}
	return nil
}

// record notes and prints what a reply says.
func (p *play) record(r stepReply) {
	p.doing = r.doing()
	if r.RunID != "" && p.result.RunID == "" {
		p.result.RunID = r.RunID
		p.host.console.say("run %s (MCP %s)", r.RunID, p.result.Version)
	}
	if r.ErrorCode == "" {
		p.host.visits.ended()
	}
	p.reported(r)
	for _, s := range r.Solved {
		if known, ok := p.solved[s.StepIndex]; ok && known.ProofHash == s.ProofHash {
			continue
		}
		p.accepted(s)
		if s.Verdict != "" {
			p.host.console.say("    %s", s.Verdict)
		}
		if s.Files != nil {
			p.host.console.say("    its files: %s via %s", p.host.cfg.who(s.Files.Provenance), s.Files.Via)
		}
	}
	if r.Challenge.Nonce != "" {
		title, body := r.heading()
		p.host.steps.show(r.StepIndex, r.StepCount, title, body)
	}
	if p.refused(r) {
		p.host.console.mark(markRefused, "%s (%s)", forPerson(r.Message), r.ErrorCode)
	}
	p.open = r
}

// reported notes and prints the step that is solved on the agent's word: replies do not list it
// among those that the server solved.
func (p *play) reported(r stepReply) {
	index := p.open.StepIndex
	_, known := p.solved[index]
	passed := r.StepIndex > index || r.Challenge.Nonce == "" && r.ErrorCode == ""
	listed := slices.ContainsFunc(r.Solved, func(s Solved) bool { return s.StepIndex == index })
	if index == 0 || known || listed || !passed {
		return
	}
	s := Solved{StepIndex: index, Label: stepTitle(p.open), Driver: p.open.Challenge.Type, Via: "agent", Provenance: "agent-reported"}
	if len(r.Solved) == 0 {
		s.ProofHash = r.ProofHash
	}
	p.accepted(s)
}

// accepted notes and prints a solved step.
func (p *play) accepted(s Solved) {
	p.solved[s.StepIndex] = s
	p.host.console.mark(markSolved, "%s", s.line(p.host.cfg.who, p.host.console.look.columns(markSolved)))
}

// refused reports whether the reply refuses what somebody did. It says nothing
// new where the server waits, asks for the work itself, or ends the run.
func (p *play) refused(r stepReply) bool {
	switch r.ErrorCode {
	case "", codeWaiting, codeWaitingDriver:
		return false
	case codeMissingField:
		return p.worked || p.host.exchange.known().anything
	}
	return giveUp(r) == nil
}

// stepTitle is the first heading of the open step.
func stepTitle(r stepReply) string {
	title, _ := r.heading()
	return title
}

// askWhetherAgain keeps what the server or the host does from being done again and
// again when it failed. A person says whether it is worth another try; where nobody is
// there, there is one. Evidence that a person or the agent gave was refused for a
// reason that they read, and they are asked for it anew.
func (p *play) askWhetherAgain(ctx context.Context, r stepReply) error {
	bySelf := !p.worked && !p.host.exchange.known().itself()
	byHost := p.worked && r.isAction() && p.host.watched()
	if !p.refused(r) || !bySelf && !byHost {
		return nil
	}
	p.failed[r.StepIndex]++
	stop := &StopError{Code: r.ErrorCode, Message: whyStopped(r), NextAction: r.NextAction}
	if !p.host.watched() {
		if p.failed[r.StepIndex] > 1 {
			return stop
		}
		return nil
	}
	again, err := p.host.tryAgain(ctx, fmt.Sprintf("Step %d of %d, %s, failed. Try it again?", r.StepIndex, r.StepCount, stepTitle(r)))
	if err != nil || again {
		return err
	}
	return stop
}

// The server words its replies for agents. A person reads here what happened: what
// tells an agent which tool to call next is left out, because the host calls it.

// sayings are what a person is told instead of the server's words, where those are
// about the person.
var sayings = map[string]string{
	"USER_DECLINED":         "the step was declined, so nothing was done or recorded for it; a run that is resumed asks again",
	"AMBIGUOUS_RUN":         "several open runs could be meant; `kairos runs list` lists them",
	"NO_OPEN_RUN":           "the run is over",
	"EVIDENCE_NOT_ACCEPTED": "only what KAIROS sees itself, or your own answer, counts for this step",
}

// remedies are what a person can do about a code, where resuming the run is not all.
var remedies = map[string]string{
	"OUTCOME_UNKNOWN":      "find out what happened, then record it with `kairos runs decide`",
	"MAX_RETRIES_EXCEEDED": "change the step in the protocol, or resume the run to try once more",
	"CANCELLED":            "a run that is resumed starts it again",
}

// whyStopped says to a person why the run stops at a reply.
func whyStopped(r stepReply) string {
	if said, ok := sayings[r.ErrorCode]; ok {
		return said
	}
	said := forPerson(r.Message)
	if remedy, ok := remedies[r.ErrorCode]; ok {
		said = strings.TrimRight(said, ". ") + "; " + remedy
	}
	return said
}

var (
	// forAgents begins, or is in, what only an agent is told.
	forAgents = regexp.MustCompile(`\bkairos_[a-z]+\b|^(?:Ask|Tell) the (?:person|user|operator)\b|^Propose only\b|\bnobody but you\b|^Really\b` +
		`|^The server obtains this itself\b|^Find (?:and fix )?the cause\b|\b[Dd]o not (?:answer|call it|do|fabricate|infer|invent|make)\b`)
	// sentenceEnd is where one sentence, or one clause, ends and another begins.
	sentenceEnd = regexp.MustCompile(`[.!?;] +`)
	// dataBegins is the line in front of a block of data; the line behind it has the
	// same backquotes, and no line between them does.
	dataBegins = regexp.MustCompile("^([> ]*`{3,})data$")
)

// unfenced is a text without the lines around blocks of data. Nothing of the data
// is left out.
func unfenced(text string) string {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		m := dataBegins.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		if end := slices.Index(lines[i:], m[1]); end > 0 {
			lines = slices.Delete(slices.Delete(lines, i+end, i+end+1), i, i+1)
			i += end - 2
		}
	}
	return strings.Join(lines, "\n")
}

// forPerson is a message of the server without what is for agents. Its quotations
// stand on lines of their own.
func forPerson(message string) string {
	var lines []string
	closing := ""
	for line := range strings.SplitSeq(message, "\n") {
		m := dataBegins.FindStringSubmatch(line)
		switch {
		case closing == "" && m != nil:
			closing = m[1]
		case closing != "" && line != closing:
			lines = append(lines, line)
		case closing != "":
			closing = ""
		default:
			if kept := withoutAgents(line); kept != "" {
				lines = append(lines, kept)
			}
		}
	}
	if len(lines) == 0 {
		return message
	}
	return strings.Join(lines, "\n")
}

// withoutAgents leaves out the sentences that are for agents.
func withoutAgents(line string) string {
	var kept strings.Builder
	for line != "" {
		sentence := line
		if end := sentenceEnd.FindStringIndex(line); end != nil {
			sentence = line[:end[1]]
		}
		line = line[len(sentence):]
		if !forAgents.MatchString(sentence) {
			kept.WriteString(sentence)
		}
	}
	return strings.TrimRight(kept.String(), " ;")
}
