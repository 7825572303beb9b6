package director

import (
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/director/solution"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// checkRunID checks that the run_id of a call, if it has one, is that of the run
// whose nonce it carries.
func checkRunID(t *turn, runID string) error {
	if runID == "" || runID == string(t.Run.ID) {
		return nil
	}
	return fault.New(fault.NonceMismatch, "run_id is %s, but solution.nonce belongs to run %s: it is not clear which run is meant, and nothing was counted",
		plain.Clip(runID, 80), t.Run.ID).
		WithNext("repeat the call without run_id to continue run %s, or with the nonce and proof_hash of the run that you mean; kairos_begin with its session_id shows them", t.Run.ID).
		With("run_id", t.Run.ID).WithCall(api.ToolBegin, present.Resume(plan.View(t.State).OpenURI(), string(t.Run.ID)))
}

// checkURI checks that the URI names a step of the run's protocol; which one is
// left open, because some clients send the step being solved and some the next.
func checkURI(t *turn, stepUUID, uri string) error {
	for _, s := range t.Chain.Steps {
		if s.UUID == stepUUID {
			return nil
		}
	}
	return fault.New(fault.NonceMismatch, "%s is not a step of %q, the protocol of run %s", uri, t.Chain.Title, t.Run.ID).
		WithNext("call kairos_next with %s", plan.View(t.State).OpenURI()).
		With("run_id", t.Run.ID).WithCall(api.ToolBegin, present.Resume(plan.View(t.State).OpenURI(), string(t.Run.ID)))
}

// repeated answers what needs no new work: submissions to closed runs and
// network retries of submissions that were accepted.
func repeated(ctx context.Context, t *turn, s *solution.Solution) (Round, bool, error) {
	used := s != nil && s.Nonce != "" && s.Nonce != t.Run.Step.Nonce && slices.Contains(t.Run.Nonces, s.Nonce)
	if used {
		rec, ok, err := t.e.parts.History.Recorded(ctx, t.Run.ID, nonceKey(s.Nonce))
		if err != nil {
			return Round{}, false, fmt.Errorf("look up a recorded reply: %w", err)
		}
		if ok && rec.Payload == s.Payload {
			round, err := repeat(ctx, t, rec)
			return round, true, err
		}
	}
	if !t.Run.State.Live() {
		return Round{}, true, t.change.Over(ctx)
	}
	if !used {
		return Round{}, false, nil
	}
	solved := slices.Index(t.Run.SolvedBy, s.Nonce)
	switch {
	case s.Supplied() && solved >= 0:
		round, err := mismatch(ctx, t, "this nonce was used for a step that is solved; the open challenge has another")
		return round, true, err
	case s.Supplied():
		round, err := mismatch(ctx, t, "this nonce was replaced by a fresh one; the open challenge has it")
		return round, true, err
	case solved >= 0:
		// The answer came after its call had ended; nobody told the agent yet.
		t.Note = "The step you asked for was solved meanwhile."
		t.Solved = plan.LastSolved(t.State, len(t.Run.Proofs)-solved)
	case plan.ApprovalGiven(t.State):
		t.Note = fmt.Sprintf("Step %d is approved, and has a fresh nonce.", t.Run.Step.Index)
	default:
		t.Note = "The step has a fresh nonce meanwhile."
	}
	t.Caller.Detached = true
	return Round{}, true, nil
}

// mismatch refuses a nonce without counting it against the open step, which it
// has nothing to do with.
func mismatch(ctx context.Context, t *turn, why string) (Round, error) {
	if plan.Complete(t.State) {
		return t.reply(ctx, plan.CompletedReply(t.State))
	}
	return t.halt(ctx, fault.New(fault.NonceMismatch, "%s", why).WithNext(
		"retry kairos_next with %s and the nonce and proof_hash of this reply's challenge", protocol.URI(plan.OpenStep(t.State).UUID)))
}

// withoutNonce shows the open step again: without its nonce nothing says that the
// evidence is for this step of this run. Nothing is counted.
func withoutNonce(ctx context.Context, t *turn) (Round, error) {
	t.Solution, t.Target = nil, 0
	t.Omission = "solution.nonce is missing, so the solution was not used and nothing was counted. " +
		"Send it again with the nonce and proof_hash of this reply's challenge, if it is for this step of this run"
	return t.show(ctx)
}

// envelope checks what stands around the evidence: nonce, then proof hash.
func envelope(ctx context.Context, t *turn, s *solution.Solution) (Round, bool, error) {
	if s == nil {
		return Round{}, false, nil
	}
	if s.Supplied() && s.Nonce == "" {
		round, err := withoutNonce(ctx, t)
		return round, true, err
	}
	code, why := fault.Code(""), ""
	switch expected := t.Run.ProofHash(); {
	case s.Nonce != "" && s.Nonce != t.Run.Step.Nonce:
		code, why = fault.NonceMismatch, "the nonce is not the one of the open challenge"
	case s.ProofHash != "" && s.ProofHash != expected:
		code, why = fault.ProofHashMismatch, "proof_hash is not the one of the open challenge"
	case s.ProofHash == "" && s.Supplied() && plan.OpenStep(t.State).Challenge != nil:
		code, why = fault.MissingField, "solution.proof_hash is missing; take it from challenge.proof_hash"
	default:
		return Round{}, false, nil
	}
	round, err := t.act(ctx, plan.Refuse(code, why))
	return round, true, err
}

// sameRoots checks the roots of a call that resumes a run: where it works is
// said when it begins.
func sameRoots(t *turn, texts []string) error {
	roots, err := rootsOf(texts)
	if err != nil || len(roots) == 0 || slices.Equal(roots, t.Run.Roots) {
		return err
	}
	return fault.New(fault.InvalidArgument, "run %s works in %q since it began; its roots cannot be changed", t.Run.ID, t.Run.Roots).
		WithNext("leave out roots to continue the run, or session_id to begin another one").
		WithCall(api.ToolBegin, present.Resume(plan.View(t.State).OpenURI(), string(t.Run.ID)))
}

// otherProtocol names what the URI means, if that is not the run's protocol, as it was
// when the run began or as it is now; empty: it is.
func otherProtocol(ctx context.Context, t *turn, uri string) (other string, err error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return "", fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", library.SearchFirst)
	}
	if slices.ContainsFunc(t.Chain.Steps, func(s protocol.Step) bool { return s.UUID == id }) {
		return "", nil
	}
	switch chain, _, err := t.e.parts.Library.ChainOf(ctx, t.Caller, uri); {
	case err == nil && chain.ID == t.Chain.ID && chain.Space == t.Chain.Space:
		return "", nil
	case err == nil:
		return fmt.Sprintf("the protocol %q", chain.Title), nil
	case fault.CodeOf(err) != fault.NotFound:
		return "", err
	}
	return "something else", nil
}

// checkResumed checks that the URI of a call that resumes a run names the run's protocol.
func checkResumed(ctx context.Context, t *turn, uri string) error {
	if uri == "" {
		return nil
	}
	other, err := otherProtocol(ctx, t, uri)
	if other == "" || err != nil {
		return err
	}
	return notOfRun(t, "session_id", uri, other).
		WithNext("call kairos_begin with %s and session_id to resume the run, or leave out session_id to begin another one", plan.View(t.State).OpenURI())
}

// checkAttested checks that the URI of an attestation names the protocol of the run that it
// closes: what is said of one protocol is not verified by a run of another.
func checkAttested(ctx context.Context, t *turn, uri string) error {
	other, err := otherProtocol(ctx, t, uri)
	if other == "" || err != nil {
		return err
	}
	return notOfRun(t, "run_id", uri, other).
		WithNext("call kairos_attest with %s and run_id to attest the run, or leave out run_id to attest a run of the protocol that uri names", plan.View(t.State).OpenURI())
}

// notOfRun is the error of a call whose URI names another protocol than its run is of.
func notOfRun(t *turn, field, uri, other string) *fault.Error {
	f := fault.New(fault.InvalidArgument, "%s %s is a run of %q, but uri %s names %s; nothing was changed", field, t.Run.ID, t.Chain.Title, uri, other).
		With("run_id", t.Run.ID)
	if t.Run.State.Live() {
		f = f.WithCall(api.ToolBegin, present.Resume(plan.View(t.State).OpenURI(), string(t.Run.ID)))
	}
	return f
}
