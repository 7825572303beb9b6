package director

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
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
	present.Attested(&reply, *t.Run, *t.Chain)
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
	library.RateAttested(u.e.parts.Library, *t.Chain, in, reply.Verified)
	u.e.opt.Observer.Attested(observe.Attested{Space: t.Run.Space, Outcome: in.Outcome, Verified: reply.Verified})
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
		result.QualityBonus = library.BaseBonus(ev.Outcome)
		if ev.Bonus != nil {
			result.QualityBonus = *ev.Bonus
		}
	}
	reply.Message = plain.Sentences(fmt.Sprintf("Run %s was attested before, at %s with outcome %s. That stands, and nothing was counted again.",
		t.Run.ID, result.RatedAt, result.Outcome), reply.Message)
	return reply, nil
}

// bonus is the rating that clients of the earlier server know.
func bonus(in api.AttestRequest) float64 { return library.BaseBonus(in.Outcome) + in.QualityBonus }

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
		f := shown(err)
		candidates, _ := f.Details["candidates"].([]string)
		return "", api.AttestReply{
			ErrorCode: string(code), Candidates: candidates,
			Message:    "None was closed, because it is not clear which run is meant: " + f.Message + ". Repeat the call with the run_id you mean.",
			Tried:      fmt.Sprintf("%s with %s", api.ToolAttest, in.URI),
			NextAction: fmt.Sprintf("call kairos_attest with %s and the run_id of the run that you mean, one of candidates", in.URI),
			NextCall: api.NewCall(api.ToolAttest, map[string]any{
				"uri": in.URI, "run_id": runs.OneOfCandidates, "outcome": in.Outcome, "message": present.MessageForm,
			}),
		}, nil
	}
	return "", api.AttestReply{}, err
}
