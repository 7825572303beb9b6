package director

import (
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/director/plan"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// admission decides whether a submission is for the open step.
type admission struct{ t *turn }

// named checks that the run_id of a call, if it has one, is that of the run
// whose nonce it carries.
func (ad *admission) named(runID string) error {
	if runID == "" || runID == string(ad.t.Run.ID) {
		return nil
	}
	return fault.New(fault.NonceMismatch, "run_id is %s, but solution.nonce belongs to run %s: it is not clear which run is meant, and nothing was counted",
		plain.Clip(runID, 80), ad.t.Run.ID).
		WithNext("repeat the call without run_id to continue run %s, or with the nonce and proof_hash of the run that you mean; kairos_begin with its session_id shows them", ad.t.Run.ID).
		With("run_id", ad.t.Run.ID).WithCall(api.ToolBegin, present.Resume(plan.View(ad.t.State).OpenURI(), string(ad.t.Run.ID)))
}

// owns checks that the URI names a step of the run's protocol; which one is
// left open, because some clients send the step being solved and some the next.
func (ad *admission) owns(stepUUID, uri string) error {
	for _, s := range ad.t.Chain.Steps {
		if s.UUID == stepUUID {
			return nil
		}
	}
	return fault.New(fault.NonceMismatch, "%s is not a step of %q, the protocol of run %s", uri, ad.t.Chain.Title, ad.t.Run.ID).
		WithNext("call kairos_next with %s", plan.View(ad.t.State).OpenURI()).
		With("run_id", ad.t.Run.ID).WithCall(api.ToolBegin, present.Resume(plan.View(ad.t.State).OpenURI(), string(ad.t.Run.ID)))
}

// repeated answers what needs no new work: submissions to closed runs and
// network retries of submissions that were accepted.
func (ad *admission) repeated(ctx context.Context, s *plan.Solution) (Round, bool, error) {
	used := s != nil && s.Nonce != "" && s.Nonce != ad.t.Run.Step.Nonce && slices.Contains(ad.t.Run.Nonces, s.Nonce)
	if used {
		rec, ok, err := ad.t.e.store.History.Recorded(ctx, ad.t.Run.ID, nonceKey(s.Nonce))
		if err != nil {
			return Round{}, false, fmt.Errorf("look up a recorded reply: %w", err)
		}
		if ok && rec.Payload == s.Payload {
			round, err := ad.t.late.repeat(ctx, rec)
			return round, true, err
		}
	}
	if !ad.t.Run.State.Live() {
		return Round{}, true, ad.t.change.Over(ctx)
	}
	if !used {
		return Round{}, false, nil
	}
	solved := slices.Index(ad.t.Run.SolvedBy, s.Nonce)
	switch {
	case s.Supplied() && solved >= 0:
		round, err := ad.mismatch(ctx, "this nonce was used for a step that is solved; the open challenge has another")
		return round, true, err
	case s.Supplied():
		round, err := ad.mismatch(ctx, "this nonce was replaced by a fresh one; the open challenge has it")
		return round, true, err
	case solved >= 0:
		// The answer came after its call had ended; nobody told the agent yet.
		ad.t.Note = "The step you asked for was solved meanwhile."
		ad.t.Solved = plan.Unheard(ad.t.State, len(ad.t.Run.Proofs)-solved)
	case plan.ApprovalGiven(ad.t.State):
		ad.t.Note = fmt.Sprintf("Step %d is approved, and has a fresh nonce.", ad.t.Run.Step.Index)
	default:
		ad.t.Note = "The step has a fresh nonce meanwhile."
	}
	round, err := ad.t.replies.presentOpen(ctx)
	return round, true, err
}

// mismatch refuses a nonce without counting it against the open step, which it
// has nothing to do with.
func (ad *admission) mismatch(ctx context.Context, why string) (Round, error) {
	if plan.Complete(ad.t.State) {
		return ad.t.replies.completed(ctx)
	}
	return ad.t.replies.halt(ctx, fault.New(fault.NonceMismatch, "%s", why).WithNext(
		"retry kairos_next with %s and the nonce and proof_hash of this reply's challenge", protocol.URI(plan.OpenStep(ad.t.State).UUID)))
}

// withoutNonce shows the open step again: without its nonce nothing says that the
// evidence is for this step of this run. Nothing is counted.
func (ad *admission) withoutNonce(ctx context.Context) (Round, error) {
	ad.t.Solution, ad.t.Target = nil, 0
	ad.t.Omission = "solution.nonce is missing, so the solution was not used and nothing was counted. " +
		"Send it again with the nonce and proof_hash of this reply's challenge, if it is for this step of this run"
	return ad.t.replies.presentOpen(ctx)
}

// envelope checks what stands around the evidence: nonce, then proof hash.
func (ad *admission) envelope(ctx context.Context, s *plan.Solution) (Round, bool, error) {
	if s == nil {
		return Round{}, false, nil
	}
	if s.Supplied() && s.Nonce == "" {
		round, err := ad.withoutNonce(ctx)
		return round, true, err
	}
	code, why := fault.Code(""), ""
	switch expected := ad.t.Run.ProofHash(); {
	case s.Nonce != "" && s.Nonce != ad.t.Run.Step.Nonce:
		code, why = fault.NonceMismatch, "the nonce is not the one of the open challenge"
	case s.ProofHash != "" && s.ProofHash != expected:
		code, why = fault.ProofHashMismatch, "proof_hash is not the one of the open challenge"
	case s.ProofHash == "" && s.Supplied() && plan.OpenStep(ad.t.State).Challenge != nil:
		code, why = fault.MissingField, "solution.proof_hash is missing; take it from challenge.proof_hash"
	default:
		return Round{}, false, nil
	}
	round, err := ad.t.replies.refuse(ctx, code, why)
	return round, true, err
}

// sameRoots checks the roots of a call that resumes a run: where it works is
// said when it begins.
func (ad *admission) sameRoots(texts []string) error {
	roots, err := rootsOf(texts)
	if err != nil || len(roots) == 0 || slices.Equal(roots, ad.t.Run.Roots) {
		return err
	}
	return fault.New(fault.InvalidArgument, "run %s works in %q since it began; its roots cannot be changed", ad.t.Run.ID, ad.t.Run.Roots).
		WithNext("leave out roots to continue the run, or session_id to begin another one").
		WithCall(api.ToolBegin, present.Resume(plan.View(ad.t.State).OpenURI(), string(ad.t.Run.ID)))
}

// otherProtocol names what the URI means, if that is not the run's protocol, as it was
// when the run began or as it is now; empty: it is.
func (ad *admission) otherProtocol(ctx context.Context, uri string) (other string, err error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return "", fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", library.SearchFirst)
	}
	if slices.ContainsFunc(ad.t.Chain.Steps, func(s protocol.Step) bool { return s.UUID == id }) {
		return "", nil
	}
	switch chain, _, err := ad.t.e.ChainOf(ctx, ad.t.Caller, uri); {
	case err == nil && chain.ID == ad.t.Chain.ID && chain.Space == ad.t.Chain.Space:
		return "", nil
	case err == nil:
		return fmt.Sprintf("the protocol %q", chain.Title), nil
	case fault.CodeOf(err) != fault.NotFound:
		return "", err
	}
	return "something else", nil
}

// resumes checks that the URI of a call that resumes a run names the run's protocol.
func (ad *admission) resumes(ctx context.Context, uri string) error {
	if uri == "" {
		return nil
	}
	other, err := ad.otherProtocol(ctx, uri)
	if other == "" || err != nil {
		return err
	}
	return ad.notOfRun("session_id", uri, other).
		WithNext("call kairos_begin with %s and session_id to resume the run, or leave out session_id to begin another one", plan.View(ad.t.State).OpenURI())
}

// attests checks that the URI of an attestation names the protocol of the run that it
// closes: what is said of one protocol is not verified by a run of another.
func (ad *admission) attests(ctx context.Context, uri string) error {
	other, err := ad.otherProtocol(ctx, uri)
	if other == "" || err != nil {
		return err
	}
	return ad.notOfRun("run_id", uri, other).
		WithNext("call kairos_attest with %s and run_id to attest the run, or leave out run_id to attest a run of the protocol that uri names", plan.View(ad.t.State).OpenURI())
}

// notOfRun is the error of a call whose URI names another protocol than its run is of.
func (ad *admission) notOfRun(field, uri, other string) *fault.Error {
	f := fault.New(fault.InvalidArgument, "%s %s is a run of %q, but uri %s names %s; nothing was changed", field, ad.t.Run.ID, ad.t.Chain.Title, uri, other).
		With("run_id", ad.t.Run.ID)
	if ad.t.Run.State.Live() {
		f = f.WithCall(api.ToolBegin, present.Resume(plan.View(ad.t.State).OpenURI(), string(ad.t.Run.ID)))
	}
	return f
}
