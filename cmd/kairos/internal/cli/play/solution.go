package play

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// envelope are the members of a solution that say which challenge it is for.
var envelope = []string{"type", "nonce", "proof_hash"}

// submit submits a solution, if there is one. If it leaves out type, nonce or proof_hash, they
// are filled in from the open challenge, at which submit looks first: without a nonce the
// server shows the step, uses no evidence and counts nothing.
func submit(ctx context.Context, t api.Transport, in api.NextRequest, solutions []json.RawMessage) (api.StepReply, error) {
	if len(solutions) == 0 {
		return api.Next.Call(ctx, t, in)
	}
	given := solutions[0]
	if isWhole(given) {
		in.Solution = given
		return api.Next.Call(ctx, t, in)
	}
	var err error
	if in.Solution, err = withoutNonce(given); err != nil {
		return api.StepReply{}, err
	}
	open, err := api.Next.Call(ctx, t, in)
	if err != nil || open.ErrorCode == "" || open.ErrorCode == string(fault.WaitingForUser) || open.Challenge.Nonce == "" {
		return open, err // the server was to obtain the proof itself, or cannot continue
	}
	if named := textOf(in.Solution, "type"); named != "" && textOf(given, "type") == "" && named != open.Challenge.Type {
		return api.StepReply{}, fault.New(fault.TypeMismatch, "the open challenge is of type %q, and the solution holds %q: nothing was submitted or counted", open.Challenge.Type, named)
	}
	if in.Solution, err = filledIn(given, open.Challenge); err != nil {
		return api.StepReply{}, err
	}
	in.RunID = open.RunID
	return api.Next.Call(ctx, t, in)
}

// isWhole reports whether a solution leaves nothing out that could be filled in.
func isWhole(solution json.RawMessage) bool {
	return !slices.ContainsFunc(envelope, func(key string) bool { return textOf(solution, key) == "" })
}

// withoutNonce is a solution as it is sent to look at the open step: with its type, or that
// of its only evidence; nil: it has none.
func withoutNonce(solution json.RawMessage) (json.RawMessage, error) {
	fields, err := membersOf(solution)
	if err != nil {
		return nil, err
	}
	if textOf(solution, "type") == "" {
		var types []string
		for key := range fields {
			if key != "evidence" && !slices.Contains(envelope, key) {
				types = append(types, key)
			}
		}
		if len(types) != 1 {
			return nil, nil
		}
		if fields["type"], err = json.Marshal(types[0]); err != nil {
			return nil, err
		}
	}
	delete(fields, "nonce")
	return json.Marshal(fields)
}

// filledIn is the solution with what it leaves out of type, nonce and proof_hash.
func filledIn(raw json.RawMessage, c api.Challenge) (json.RawMessage, error) {
	fields, err := membersOf(raw)
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"type": c.Type, "nonce": c.Nonce, "proof_hash": c.ProofHash} {
		if textOf(raw, key) != "" || value == "" {
			continue
		}
		b, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields[key] = b
	}
	return json.Marshal(fields)
}

func membersOf(solution json.RawMessage) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(solution, &fields); err != nil {
		return nil, fmt.Errorf("the solution must be a JSON object: %w", err)
	}
	return fields, nil
}

// textOf is a member of a JSON object that is a string, or empty.
func textOf(raw json.RawMessage, key string) string {
	var fields map[string]json.RawMessage
	var s string
	if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(fields[key], &s) != nil {
		return ""
	}
	return s
}
