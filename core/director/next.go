package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Next submits a solution for the open step of a run, or without one lets the
// server obtain the proof. Wrong solutions are replies, not errors.
func (e *Engine) Next(ctx context.Context, c access.Caller, in api.NextRequest) (Round, error) {
	h, release := e.hold()
	defer release()
	return runs.Again(func() (Round, error) { return h.next(ctx, c, in) })
}

func (e held) next(ctx context.Context, c access.Caller, in api.NextRequest) (Round, error) {
	s, err := parseSolution(in.Solution)
	if err != nil {
		return Round{}, err
	}
	stepUUID, err := protocol.ParseURI(in.URI)
	if err != nil {
		return Round{}, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", library.SearchFirst)
	}
	t, err := e.runFor(ctx, c, in, s, stepUUID)
	if err != nil {
		return Round{}, cmp.Or(e.noSuchType(s, ""), err)
	}
	t.replies.tried = tried(in.URI, s)
	if round, done, err := t.admission.repeated(ctx, s); done || err != nil {
		return round, err
	}
	if t.complete() {
		return t.replies.completed(ctx)
	}
	if err := e.noSuchType(s, e.TypeOf(t.step())); err != nil {
		return Round{}, err
	}
	t.target, t.solution = t.Run.Step.Index, s
	t.Run.MovedAt = t.started
	if round, done, err := t.admission.envelope(ctx, s); done || err != nil {
		return round, err
	}
	if s.supplied() {
		t.submitted = &runs.Recorded{Key: nonceKey(t.Run.Step.Nonce), Payload: s.payload}
	}
	return t.drive(ctx)
}

// noSuchType refuses a solution of a type that there is not, except the type of
// the open challenge, whose driver may have been removed.
func (e held) noSuchType(s *solution, open string) error {
	if types := e.Tree.Types(); s != nil && s.Type != "" && s.Type != open && !slices.Contains(types, s.Type) {
		return fault.New(fault.InvalidArgument, "Input validation error: solution.type: value must be one of '%s'", strings.Join(types, "', '"))
	}
	return nil
}

// tried is what a call of kairos_next tried.
func tried(uri string, s *solution) string {
	what := api.ToolNext + " with " + uri
	switch {
	case s == nil:
		return what + " and no solution"
	case !s.supplied():
		return fmt.Sprintf("%s and a solution of type %s that leaves the proof to the server", what, plain.Clip(s.Type, 80))
	}
	return fmt.Sprintf("%s and a solution of type %s", what, plain.Clip(s.Type, 80))
}

func nonceKey(nonce string) string { return "nonce:" + nonce }

// runFor finds the run a submission is for: by its nonce, else by run_id, else
// the connection's newest run of that protocol, else the caller's only one.
func (e held) runFor(ctx context.Context, c access.Caller, in api.NextRequest, s *solution, stepUUID string) (*turn, error) {
	if s != nil && s.Nonce != "" {
		id, err := e.store.Index.RunOfNonce(ctx, s.Nonce)
		if err != nil && fault.CodeOf(err) != fault.NotFound {
			return nil, fmt.Errorf("find the run of a nonce: %w", err)
		}
		if err == nil {
			t, err := e.resume(ctx, c, id)
			if err == nil {
				err = t.admission.named(in.RunID)
				if err == nil {
					err = t.admission.owns(stepUUID, in.URI)
				}
				return t, err
			}
			if fault.CodeOf(err) != fault.NotFound {
				return nil, err
			}
		}
	}
	if in.RunID != "" {
		t, err := e.resume(ctx, c, run.ID(in.RunID))
		if err != nil {
			return nil, err
		}
		return t, t.admission.owns(stepUUID, in.URI)
	}
	chain, absent, err := e.ChainOf(ctx, c, in.URI)
	if err != nil {
		return nil, err
	}
	id, err := e.onlyRun(ctx, c, chain)
	if fault.CodeOf(err) == fault.NoOpenRun && absent != nil {
		return nil, absent
	}
	if err != nil {
		return nil, err
	}
	return e.resume(ctx, c, id)
}

// named checks that the run_id of a call, if it has one, is that of the run
// whose nonce it carries.
func (ad *admission) named(runID string) error {
	if runID == "" || runID == string(ad.t.Run.ID) {
		return nil
	}
	return fault.New(fault.NonceMismatch, "run_id is %s, but solution.nonce belongs to run %s: it is not clear which run is meant, and nothing was counted",
		plain.Clip(runID, 80), ad.t.Run.ID).
		WithNext("repeat the call without run_id to continue run %s, or with the nonce and proof_hash of the run that you mean; kairos_begin with its session_id shows them", ad.t.Run.ID).
		With("run_id", ad.t.Run.ID).WithCall(api.ToolBegin, present.Resume(ad.t.replies.view().OpenURI(), string(ad.t.Run.ID)))
}

// owns checks that the URI names a step of the run's protocol; which one is
// left open, because some clients send the step being solved and some the next.
func (ad *admission) owns(stepUUID, uri string) error {
	for _, s := range ad.t.Chain.Steps {
		if s.UUID == stepUUID {
			return nil
		}
	}
	return fault.New(fault.NonceMismatch, "%s is no step of %q, the protocol of run %s", uri, ad.t.Chain.Title, ad.t.Run.ID).
		WithNext("call kairos_next with %s", ad.t.replies.view().OpenURI()).
		With("run_id", ad.t.Run.ID).WithCall(api.ToolBegin, present.Resume(ad.t.replies.view().OpenURI(), string(ad.t.Run.ID)))
}

// openRuns lists the caller's live runs of the protocol, last changed first: those
// of this connection, if it has any.
func (e *Engine) openRuns(ctx context.Context, c access.Caller, chain protocol.Chain) (runs []run.Summary, own bool, err error) {
	live, err := e.runs.Live(ctx, c)
	if err != nil {
		return nil, false, err
	}
	runs = slices.DeleteFunc(live, func(s run.Summary) bool { return s.ChainID != chain.ID })
	ours := slices.DeleteFunc(slices.Clone(runs), func(s run.Summary) bool { return c.Connection == "" || s.Connection != c.Connection })
	if len(ours) > 0 {
		runs = ours
	}
	// Neither ids nor times say which came last if the clock was set back between them.
	own = len(ours) > 0 && (len(ours) == 1 || !e.runs.SetBack(ours[0].UpdatedAt))
	return runs, own, nil
}

// onlyRun is the run of the protocol that can be meant without naming one: the
// newest of the connection, else the only one.
func (e *Engine) onlyRun(ctx context.Context, c access.Caller, chain protocol.Chain) (run.ID, error) {
	runs, own, err := e.openRuns(ctx, c, chain)
	if err != nil {
		return "", err
	}
	return oneOf(runs, own, chain)
}

func oneOf(runs []run.Summary, own bool, chain protocol.Chain) (run.ID, error) {
	ids := make([]string, len(runs))
	for i, s := range runs {
		ids[i] = string(s.ID)
	}
	if own {
		return run.ID(slices.Max(ids)), nil // a UUIDv7 grows with time
	}
	switch len(ids) {
	case 1:
		return run.ID(ids[0]), nil
	case 0:
		return "", fault.New(fault.NoOpenRun, "no open run of %q", chain.Title).
			WithNext("call kairos_begin with %s", protocol.URI(chain.Steps[0].UUID)).
			WithCall(api.ToolBegin, map[string]any{"uri": protocol.URI(chain.Steps[0].UUID)})
	}
	return "", fault.New(fault.AmbiguousRun, "%d runs of %q are open: %s", len(ids), chain.Title, strings.Join(ids, ", ")).
		With("candidates", ids).WithNext("repeat the call with the run_id you mean, or with the nonce of its open challenge").
		WithCall(api.ToolBegin, present.Resume(protocol.URI(chain.Steps[0].UUID), present.RunForm))
}

// repeated answers what needs no new work: submissions to closed runs and
// network retries of submissions that were accepted.
func (ad *admission) repeated(ctx context.Context, s *solution) (Round, bool, error) {
	used := s != nil && s.Nonce != "" && s.Nonce != ad.t.Run.Step.Nonce && slices.Contains(ad.t.Run.Nonces, s.Nonce)
	if used {
		rec, ok, err := ad.t.e.store.History.Recorded(ctx, ad.t.Run.ID, nonceKey(s.Nonce))
		if err != nil {
			return Round{}, false, fmt.Errorf("look up a recorded reply: %w", err)
		}
		if ok && rec.Payload == s.payload {
			round, err := ad.t.late.replayOrAsk(ctx, rec)
			return round, true, err
		}
	}
	if !ad.t.Run.State.Live() {
		return Round{}, true, ad.t.Over(ctx)
	}
	if !used {
		return Round{}, false, nil
	}
	solved := slices.Index(ad.t.Run.SolvedBy, s.Nonce)
	switch {
	case s.supplied() && solved >= 0:
		round, err := ad.mismatch(ctx, "this nonce was used for a step that is solved; the open challenge has another")
		return round, true, err
	case s.supplied():
		round, err := ad.mismatch(ctx, "this nonce was replaced by a fresh one; the open challenge has it")
		return round, true, err
	case solved >= 0:
		// The answer came after its call had ended; nobody told the agent yet.
		ad.t.replies.note = "The step you asked for was solved meanwhile."
		ad.t.replies.solved = ad.t.replies.unheard(len(ad.t.Run.Proofs) - solved)
	case ad.t.approvals.approvalGiven():
		ad.t.replies.note = fmt.Sprintf("Step %d is approved, and has a fresh nonce.", ad.t.Run.Step.Index)
	default:
		ad.t.replies.note = "The step has a fresh nonce meanwhile."
	}
	round, err := ad.t.replies.presentOpen(ctx)
	return round, true, err
}

// unheard lists the last n proofs, whose reply nobody may have seen.
func (rp *replies) unheard(n int) []api.Solved {
	var solved []api.Solved
	for i := max(len(rp.t.Run.Proofs)-n, 0); i < len(rp.t.Run.Proofs); i++ {
		solved = append(solved, present.Solved(rp.t.Run, rp.t.Chain, i))
	}
	return solved
}

// mismatch refuses a nonce without counting it against the open step, which it
// has nothing to do with.
func (ad *admission) mismatch(ctx context.Context, why string) (Round, error) {
	if ad.t.complete() {
		return ad.t.replies.completed(ctx)
	}
	return ad.t.replies.halt(ctx, fault.New(fault.NonceMismatch, "%s", why).WithNext(
		"retry kairos_next with %s and the nonce and proof_hash of this reply's challenge", protocol.URI(ad.t.step().UUID)))
}

func replay(rec runs.Recorded) (Round, error) {
	var r api.StepReply
	if err := json.Unmarshal(rec.Reply, &r); err != nil {
		return Round{}, fmt.Errorf("decode the reply recorded under %s: %w", rec.Key, err)
	}
	return Round{Reply: &r}, nil
}

// withoutNonce shows the open step again: without its nonce nothing says that the
// evidence is for this step of this run. Nothing is counted.
func (ad *admission) withoutNonce(ctx context.Context) (Round, error) {
	ad.t.solution, ad.t.target = nil, 0
	ad.t.replies.omission = "solution.nonce is missing, so the solution was not used and nothing was counted. " +
		"Send it again with the nonce and proof_hash of this reply's challenge, if it is for this step of this run"
	return ad.t.replies.presentOpen(ctx)
}

// envelope checks what stands around the evidence: nonce, then proof hash.
func (ad *admission) envelope(ctx context.Context, s *solution) (Round, bool, error) {
	if s == nil {
		return Round{}, false, nil
	}
	if s.supplied() && s.Nonce == "" {
		round, err := ad.withoutNonce(ctx)
		return round, true, err
	}
	code, why := fault.Code(""), ""
	switch expected := ad.t.Run.ProofHash(); {
	case s.Nonce != "" && s.Nonce != ad.t.Run.Step.Nonce:
		code, why = fault.NonceMismatch, "the nonce is not the one of the open challenge"
	case s.ProofHash != "" && s.ProofHash != expected:
		code, why = fault.ProofHashMismatch, "proof_hash is not the one of the open challenge"
	case s.ProofHash == "" && s.supplied() && ad.t.step().Challenge != nil:
		code, why = fault.MissingField, "solution.proof_hash is missing; take it from challenge.proof_hash"
	default:
		return Round{}, false, nil
	}
	round, err := ad.t.replies.refuse(ctx, code, why)
	return round, true, err
}
