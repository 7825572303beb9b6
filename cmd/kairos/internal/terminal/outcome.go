package terminal

import (
	"context"
	"fmt"
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
	for _, s := range r.Solved {
		if known, ok := p.solved[s.StepIndex]; ok && known.ProofHash == s.ProofHash {
			continue
		}
		p.solved[s.StepIndex] = s
		p.host.console.mark(markSolved, "%s", s.line(p.host.console.look.columns(markSolved)))
		if s.Verdict != "" {
			p.host.console.say("    %s", s.Verdict)
		}
		if s.Files != nil {
			p.host.console.say("    its files: %s via %s", s.Files.Provenance, s.Files.Via)
		}
	}
	if r.Challenge.Nonce != "" {
		title, body := r.heading()
		p.host.steps.show(r.StepIndex, r.StepCount, title, body)
	}
	if p.refused(r) {
		p.host.console.mark(markRefused, "%s (%s)", forPerson(r.Message), r.ErrorCode)
	}
}

// refused reports whether the reply refuses what somebody did. It says nothing
// new where the server waits, asks for the work itself, or ends the run.
func (p *play) refused(r stepReply) bool {
	switch r.ErrorCode {
	case "", codeWaiting, codeWaitingDriver:
		return false
	case codeMissingField:
		return p.worked || p.host.exchange.hasAsked()
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
	bySelf := !p.worked && !p.host.exchange.answeredItself()
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
