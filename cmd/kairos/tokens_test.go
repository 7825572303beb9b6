package main

import (
	"testing"
)

// runTokens is what the replies of a run of two commands may cost a model, at four bytes a token.
const runTokens = 1200

// TestARunOfTwoCommandsIsWithinTheBudgetOfTokens: agents pay for every byte of a reply.
func TestARunOfTwoCommandsIsWithinTheBudgetOfTokens(t *testing.T) {
	long(t)
	t.Parallel()
	f := newFollower(t, buildDrivers(t), false)
	doc := "# Greet the world\n" + challengeStep("Say hello", "echo hello") + challengeStep("Say goodbye", "echo goodbye")
	minted := f.use("kairos_mint", map[string]any{"markdown_doc": doc, "llm_model_id": "budget"})
	from := len(f.heard)
	reply := f.use("kairos_begin", minted["next_call"].(map[string]any)["arguments"].(map[string]any))
	for range 2 {
		call := reply["next_call"].(map[string]any)["arguments"].(map[string]any)
		call["solution"].(map[string]any)["shell"] = map[string]any{"exit_code": 0, "stdout": "hello\n"}
		reply = f.use("kairos_next", call)
	}
	call := reply["next_call"].(map[string]any)["arguments"].(map[string]any)
	call["outcome"], call["message"] = "success", "Both were said."
	f.verified(f.use("kairos_attest", call))
	bytes := 0
	for _, heard := range f.heard[from:] {
		bytes += len(heard.Reply)
	}
	t.Logf("%d bytes, %d tokens", bytes, bytes/4)
	if bytes > 4*runTokens {
		t.Errorf("the replies have %d bytes, %d tokens, want at most %d", bytes, bytes/4, runTokens)
	}
}

func challengeStep(name, command string) string {
	return "\n## " + name + "\n\nDo what it says.\n\n```json\n{\"challenge\": {\"type\": \"shell\", \"shell\": {\"cmd\": \"" + command + "\", \"timeout_seconds\": 5}}}\n```\n"
}
