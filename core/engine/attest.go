package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// What an attestation may say: ratings are added up, and the reply repeats the message.
const (
	maxBonus = 1000
	maxSaid  = 64 << 10 // bytes
)

// Attest closes a run with an outcome and says whether it is verified. Without
// any run of the protocol it still rates it, unverified. When several runs
// could be meant it closes none.
func (e *Engine) Attest(ctx context.Context, c Caller, in AttestInput) (AttestReply, error) {
	if in.Outcome != "success" && in.Outcome != "failure" {
		return AttestReply{}, fault.New(fault.InvalidArgument, "outcome must be success or failure, not %q", clip(in.Outcome, 40))
	}
	if in.Message == "" || in.Message == messageForm {
		return AttestReply{}, fault.New(fault.InvalidArgument, "message must say what the run did")
	}
	if in.QualityBonus < -maxBonus || in.QualityBonus > maxBonus {
		return AttestReply{}, fault.New(fault.InvalidArgument, "quality_bonus must be from -%d to %d, not %g", maxBonus, maxBonus, in.QualityBonus)
	}
	if len(in.Message) > maxSaid {
		return AttestReply{}, fault.New(fault.InvalidArgument, "message has %d bytes, at most %d are taken; shorten it", len(in.Message), maxSaid)
	}
	h, release := e.hold()
	defer release()
	return again(h, func() (AttestReply, error) { return h.attest(ctx, c, in) })
}

func (e held) attest(ctx context.Context, c Caller, in AttestInput) (AttestReply, error) {
	now := e.opt.Now()
	id, reply, err := e.attestedRun(ctx, c, in)
	reply.Results = []AttestResult{{
		URI: in.URI, Outcome: in.Outcome, QualityBonus: bonus(in), Message: in.Message, RatedAt: now.UTC().Format(time.RFC3339Nano),
	}}
	reply.TotalRated = 1
	if err != nil || id == "" {
		return reply, err
	}
	t, err := e.resume(ctx, c, id)
	if err != nil {
		return AttestReply{}, err
	}
	t.verdictOf(&reply)
	if e.opt.RequireComplete && in.Outcome == "success" && len(reply.MissingSteps) > 0 {
		return AttestReply{}, fault.New(fault.RunIncomplete, "run %s has unsolved steps: %s", id, strings.Join(reply.MissingSteps, ", ")).
			WithNext("call kairos_next with %s, or attest with outcome failure", reply.MissingSteps[0]).
			With("run_id", id).WithCall(toolBegin, resume(reply.MissingSteps[0], string(id)))
	}
	first := t.run.State.Live()
	if first {
		if err := t.apply(run.Event{Kind: run.Attested, Outcome: in.Outcome, Reason: clip(in.Message, 2000)}); err != nil {
			return AttestReply{}, err
		}
	}
	if err := t.save(ctx); err != nil {
		return reply, err
	}
	if first {
		e.rateAttested(t.chain, in)
		e.opt.Observer.Attested(Attested{Space: t.run.Space, Outcome: in.Outcome, Verified: reply.Verified})
	}
	return reply, nil
}

// bonus is the rating that clients of the earlier server know.
func bonus(in AttestInput) float64 {
	if in.Outcome == "success" {
		return 5 + in.QualityBonus
	}
	return -0.2 + in.QualityBonus
}

// attestedRun finds the run that is meant; empty: none, and the reply says why.
func (e *Engine) attestedRun(ctx context.Context, c Caller, in AttestInput) (run.ID, AttestReply, error) {
	if in.RunID != "" {
		return run.ID(in.RunID), AttestReply{}, nil
	}
	chain, absent, err := e.chainOf(ctx, c, in.URI)
	if err != nil {
		return "", AttestReply{}, err
	}
	id, err := e.onlyRun(ctx, c, chain)
	switch code := fault.CodeOf(err); code {
	case "":
		return id, AttestReply{}, nil
	case fault.NoOpenRun:
		if absent != nil {
			return "", AttestReply{}, absent
		}
		e.rateAttested(chain, in)
		return "", AttestReply{Message: fmt.Sprintf("No run of %q was open; nothing was verified.", chain.Title)}, nil
	case fault.AmbiguousRun:
		f := (*fault.Error)(nil)
		asFault(err, &f)
		candidates, _ := f.Details["candidates"].([]string)
		return "", AttestReply{
			ErrorCode: string(code), Candidates: candidates,
			Message:    "Several runs of this protocol are open and none was closed: repeat the call with the run_id you mean.",
			Tried:      fmt.Sprintf("%s with %s", toolAttest, in.URI),
			NextAction: fmt.Sprintf("call kairos_attest with %s and the run_id of the run that you mean, one of candidates", in.URI),
			NextCall: callOf(toolAttest, map[string]any{
				"uri": in.URI, "run_id": runForm, "outcome": in.Outcome, "message": in.Message,
			}),
		}, nil
	}
	return "", AttestReply{}, err
}

// verdictOf fills in what the run proves.
func (t *turn) verdictOf(reply *AttestReply) {
	reply.RunID = string(t.run.ID)
	reply.ProofHash = t.run.ProofHash()
	for i := len(t.run.Proofs); i < len(t.chain.Steps); i++ {
		reply.MissingSteps = append(reply.MissingSteps, protocol.URI(t.chain.Steps[i].UUID))
	}
	err := t.run.Verify()
	reply.Verified = err == nil && len(reply.MissingSteps) == 0
	switch {
	case err != nil:
		reply.Message = "The proof chain is broken: " + err.Error() + "."
	case !reply.Verified:
		reply.Message = fmt.Sprintf("%d of %d steps have no accepted proof.", len(reply.MissingSteps), len(t.chain.Steps))
	default:
		reply.Message = "Every step's evidence was accepted and the proof chain is whole. Provenance says who vouches for each."
	}
	for i, ev := range t.run.Evidence {
		if slices.ContainsFunc(ev.Answers, func(a driver.Answer) bool { _, unjudged := unjudgedBecause(&a); return unjudged }) {
			reply.Message = join(reply.Message, fmt.Sprintf("No verdict was given on the result of step %d, which was to be judged.", i+1))
		}
	}
}
