package director

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// callFilled is the call with a solution that the agent has to fill in.
func (rp *replies) callFilled(k task, in driver.Input, shown driver.AgentChallenge) *api.NextCall {
	solution := map[string]any{"type": shown.Type, "nonce": rp.t.Run.Step.Nonce, "proof_hash": rp.t.Run.ProofHash()}
	if !k.free() {
		solution[rp.placeOf(k, in, shown)] = formOf(in.Schema)
	}
	return rp.view().Next(solution)
}

// placeOf is the field of a solution that the input's value goes into: the one
// named like the type, where clients know of one, but for what has a shape of
// its own.
func (rp *replies) placeOf(k task, in driver.Input, shown driver.AgentChallenge) string {
	personsForm := in.Kind == driver.KindEvidence && in.Person && len(k.common.OutputSchema) > 0
	if in.Kind == driver.KindFiles || personsForm || !slices.Contains(rp.t.e.opt.SolutionFields, shown.Type) {
		return "evidence"
	}
	return shown.Type
}

// unfilled lists the places of a submission that still hold a placeholder.
func (s *solution) unfilled(in driver.Input) []string {
	if !mayBeForm(s.raw) {
		return nil
	}
	form := formOf(in.Schema)
	found := untouched(form, value(s.params), "/"+s.Type)
	return append(found, untouched(form, value(s.Evidence), "/evidence")...)
}

// mayBeForm is cheap, and false for nearly everything without a placeholder.
func mayBeForm(raw json.RawMessage) bool {
	return bytes.ContainsRune(raw, '<') || bytes.Contains(raw, []byte(`\u003`))
}

func value(raw json.RawMessage) any {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}
