package director

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Bounds of an attestation: ratings are added up, and the reply repeats the message.
const (
	maxBonus = 1000
	maxSaid  = 64 << 10 // bytes
)

// Attest closes a run with an outcome and says whether it is verified, and who
// vouches for what. Without any run of the protocol it succeeds, unverified, and
// counts nothing. When several runs could be meant it closes none. A run that is
// closed stays as it was attested first.
func (e *Engine) Attest(ctx context.Context, c access.Caller, in api.AttestRequest) (api.AttestReply, error) {
	if in.Outcome != "success" && in.Outcome != "failure" {
		return api.AttestReply{}, fault.New(fault.InvalidArgument, "outcome must be success or failure, not %q", plain.Clip(in.Outcome, 40))
	}
	if in.Message == "" || in.Message == present.MessageForm {
		return api.AttestReply{}, fault.New(fault.InvalidArgument, "message must say what the run did")
	}
	if in.QualityBonus < -maxBonus || in.QualityBonus > maxBonus {
		return api.AttestReply{}, fault.New(fault.InvalidArgument, "quality_bonus must be from -%d to %d, not %g", maxBonus, maxBonus, in.QualityBonus)
	}
	if len(in.Message) > maxSaid {
		return api.AttestReply{}, fault.New(fault.InvalidArgument, "message has %d bytes, at most %d are taken; shorten it", len(in.Message), maxSaid)
	}
	return use(e, func(u useCase) (api.AttestReply, error) { return u.attest(ctx, c, in) })
}

func (u useCase) attest(ctx context.Context, c access.Caller, in api.AttestRequest) (api.AttestReply, error) {
	now := u.e.opt.Clock.Now()
	id, reply, err := attestedRun(ctx, u, c, in)
	reply.Results = []api.AttestResult{{
		URI: in.URI, Outcome: in.Outcome, QualityBonus: bonus(in), Message: in.Message, RatedAt: now.UTC().Format(time.RFC3339Nano),
	}}
	reply.TotalRated = 1
	if err != nil || id == "" {
		return reply, err
	}
	t, err := u.resume(ctx, c, id)
	if err != nil {
		return api.AttestReply{}, err
	}
	if err := checkAttested(ctx, t, in.URI); err != nil {
		return api.AttestReply{}, err
	}
	t.change.Verdict(&reply)
	t.worth(&reply)
	if reply.Protocol, err = library.RevisionOf(ctx, u.e.parts.Protocols, *t.Chain); err != nil {
		return api.AttestReply{}, err
	}
	if !reply.Protocol.Current {
		reply.Message = plain.Sentences(reply.Message, fmt.Sprintf("The run followed %s.", reply.Protocol))
	}
	switch t.Run.State {
	case run.Closed:
		return t.attestedBefore(ctx, reply)
	case run.Ended:
		return api.AttestReply{}, t.change.Over(ctx)
	}
	if u.e.opt.RequireComplete && in.Outcome == "success" && len(reply.MissingSteps) > 0 {
		return api.AttestReply{}, fault.New(fault.RunIncomplete, "run %s has unsolved steps: %s", id, strings.Join(reply.MissingSteps, ", ")).
			WithNext("call kairos_next with %s, or attest with outcome failure", reply.MissingSteps[0]).
			With("run_id", id).WithCall(api.ToolBegin, present.Resume(reply.MissingSteps[0], string(id)))
	}
	if err := giveUpCall(ctx, t, "kairos_attest"); err != nil {
		return api.AttestReply{}, err
	}
	if err := t.apply(run.Event{
		Kind: run.Attested, Outcome: in.Outcome, Reason: plain.Clip(in.Message, 2000), Bonus: &reply.Results[0].QualityBonus,
	}); err != nil {
		return api.AttestReply{}, err
	}
	if err := t.save(ctx); err != nil {
		return reply, err
	}
	rateAttested(u, *t.Chain, in, reply.Verified)
	u.e.opt.Observer.Attested(Attested{Space: t.Run.Space, Outcome: in.Outcome, Verified: reply.Verified})
	return reply, nil
}

// attestedBefore is the reply to another attestation of a closed run: what was
// recorded by the first. Nothing is counted again.
func (t *turn) attestedBefore(ctx context.Context, reply api.AttestReply) (api.AttestReply, error) {
	events, err := t.e.parts.History.Events(ctx, t.Run.ID)
	if err != nil {
		return api.AttestReply{}, fmt.Errorf("read what happened in run %s: %w", t.Run.ID, err)
	}
	reply.AlreadyAttested = true
	result := &reply.Results[0]
	for _, ev := range events {
		if ev.Kind != run.Attested {
			continue
		}
		result.Outcome, result.RatedAt = ev.Outcome, ev.At.UTC().Format(time.RFC3339Nano)
		result.Message = cmp.Or(ev.Reason, "(erased)")
		result.QualityBonus = baseBonus(ev.Outcome)
		if ev.Bonus != nil {
			result.QualityBonus = *ev.Bonus
		}
	}
	reply.Message = plain.Sentences(fmt.Sprintf("Run %s was attested before, at %s with outcome %s. That stands, and nothing was counted again.",
		t.Run.ID, result.RatedAt, result.Outcome), reply.Message)
	return reply, nil
}

// worth fills in who vouches for what.
func (t *turn) worth(reply *api.AttestReply) {
	var all []driver.Provenance
	for i, p := range t.Run.Proofs {
		ev, solved := t.Run.Evidence[i], present.Solved(*t.Run, *t.Chain, i)
		reply.Steps = append(reply.Steps, api.AttestedStep{
			StepIndex: p.Step, URI: solved.URI, Label: solved.Label, Provenance: p.Provenance,
			Driver: solved.Driver, Via: solved.Via, Verdict: ev.Verdict(), Files: solved.Files,
		})
		if reply.StepsByProvenance == nil {
			reply.StepsByProvenance = make(map[driver.Provenance]int)
		}
		reply.StepsByProvenance[p.Provenance]++
		all = append(all, p.Provenance)
		if solved.Files != nil {
			all = append(all, solved.Files.Provenance)
		}
		if a := ev.Approval; a != nil {
			reply.Approvals = append(reply.Approvals, api.AttestedApproval{
				StepIndex: p.Step, Via: a.Via, Provenance: a.Provenance, Basis: string(a.Basis), By: a.By, ApprovedAt: a.GrantedAt.UTC().Format(time.RFC3339Nano),
			})
		}
		if !ev.RedactedAt.IsZero() {
			reply.Redactions = append(reply.Redactions, api.AttestedRedaction{StepIndex: p.Step, RedactedAt: ev.RedactedAt.UTC().Format(time.RFC3339Nano)})
		}
	}
	reply.WeakestProvenance = run.Weakest(all)
	t.tried(reply)
	if len(t.Run.Proofs) > 0 && len(reply.MissingSteps) > 0 {
		reply.Message = plain.Sentences(reply.Message, "The others: "+run.Worth(t.Run.Vouchers(), "")+".")
	}
}

// tried fills in what did not succeed at once, so that a success does not look like the only attempt.
func (t *turn) tried(reply *api.AttestReply) {
	discarded := 0
	for _, s := range t.Run.Unsuccessful() {
		tries := api.AttestedTries{
			StepIndex: s.Step, URI: protocol.URI(t.Chain.Steps[s.Step-1].UUID), Solved: s.Solved,
			Attempts: s.Times, Failures: s.Failures, Discarded: s.Discarded,
		}
		for _, o := range s.Observed.All() {
			tries.Observations = append(tries.Observations, api.AttestedFailure{At: o.At.UTC().Format(time.RFC3339Nano), Driver: o.Via, Code: o.Code})
		}
		reply.Tries = append(reply.Tries, tries)
		discarded += s.Discarded
	}
	if discarded > 0 {
		reply.Message = plain.Sentences(reply.Message, fmt.Sprintf("%d observations of KAIROS itself did not count before (tries).", discarded))
	}
}

// bonus is the rating that clients of the earlier server know.
func bonus(in api.AttestRequest) float64 { return baseBonus(in.Outcome) + in.QualityBonus }

func baseBonus(outcome string) float64 {
	if outcome == "success" {
		return 5
	}
	return -0.2
}

// attestedRun finds the run that is meant; empty: none, and the reply says why.
func attestedRun(ctx context.Context, u useCase, c access.Caller, in api.AttestRequest) (run.ID, api.AttestReply, error) {
	if in.RunID != "" {
		return run.ID(in.RunID), api.AttestReply{}, nil
	}
	chain, absent, err := u.e.parts.Library.ChainOf(ctx, c, in.URI)
	if err != nil {
		return "", api.AttestReply{}, err
	}
	id, err := u.e.parts.Runs.ToAttest(ctx, c, chain)
	switch code := fault.CodeOf(err); code {
	case "":
		return id, api.AttestReply{}, nil
	case fault.NoOpenRun:
		if absent != nil {
			return "", api.AttestReply{}, absent
		}
		return "", api.AttestReply{Message: fmt.Sprintf("No run of %q was open; nothing was verified, and nothing was counted.", chain.Title)}, nil
	case fault.AmbiguousRun:
		f := (*fault.Error)(nil)
		asFault(err, &f)
		candidates, _ := f.Details["candidates"].([]string)
		return "", api.AttestReply{
			ErrorCode: string(code), Candidates: candidates,
			Message:    "None was closed, because it is not clear which run is meant: " + f.Message + ". Repeat the call with the run_id you mean.",
			Tried:      fmt.Sprintf("%s with %s", api.ToolAttest, in.URI),
			NextAction: fmt.Sprintf("call kairos_attest with %s and the run_id of the run that you mean, one of candidates", in.URI),
			NextCall: api.NewCall(api.ToolAttest, map[string]any{
				"uri": in.URI, "run_id": runs.OneOfCandidates, "outcome": in.Outcome, "message": in.Message,
			}),
		}, nil
	}
	return "", api.AttestReply{}, err
}
