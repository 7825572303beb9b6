package archive

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Account is a run with the protocol it executed, for statements about what it
// proves.
type Account struct {
	Run   run.Run
	Chain protocol.Chain // as it was when the run began
	// Challenges that were proved, with their templates filled; null: the step had
	// none, empty: the values that filled it are gone.
	Challenges []json.RawMessage
	// Protocol is how Chain stands to what is stored now.
	Protocol api.ProtocolRevision
}

// Account returns a run that the caller oversees, whatever its state.
func (a *Archive) Account(ctx context.Context, c access.Caller, id run.ID) (Account, error) {
	t, err := a.runs.Oversee(ctx, c, id)
	if err != nil {
		return Account{}, err
	}
	revision, err := library.RevisionOf(ctx, a.store.Protocols, t.Chain)
	if err != nil {
		return Account{}, err
	}
	account := Account{Run: t.Run, Chain: t.Chain, Challenges: make([]json.RawMessage, len(t.Run.Proofs)), Protocol: *revision}
	for i := range t.Run.Proofs {
		account.Challenges[i] = proved(t, i)
	}
	return account, nil
}

// proved returns the challenge of the proof with its templates filled as they
// were; empty if that cannot be reconstructed.
func proved(t *runs.Change, i int) json.RawMessage {
	step := t.Chain.Steps[i]
	if step.Challenge == nil {
		return json.RawMessage("null")
	}
	filled, missing, err := protocol.Fill(step.Challenge, step.Templates, runs.Scope(t.Run, t.Chain))
	if err != nil || len(missing) > 0 || run.CheckDigest(i+1, run.LinkChallenge, filled, t.Run.Proofs[i].ChallengeDigest) != nil {
		return nil
	}
	return filled
}
