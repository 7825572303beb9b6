package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A policy of docs/how-to/say-what-must-hold.md, and what comes of it.
type policy struct {
	step      string // its challenge
	says      string // by `kairos tree explain`
	code      string // of an agent that does the step alone
	slip, fix string // what a person may write instead, and what they are told
}

// The five policies of the manual are taken as they are written there, hold in runs of the
// real program, and one that is almost right is refused with the right spelling.
func TestTheFivePoliciesOfTheManualHold(t *testing.T) {
	long(t)
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/say-what-must-hold.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## Five policies\n")
	parts := strings.Split(text, "\n**")[1:]
	policies := map[string]policy{
		"People answer by form or page only": {
			step: `"user_input", "user_input": {"prompt": "Sure?"}`, says: "approval by form or page", code: "APPROVAL_UNAVAILABLE",
			slip: "form, page", fix: `did you mean "form"?`,
		},
		"Everything in the space production is observed": {
			step: `"shell", "shell": {"cmd": "true"}`, says: "evidence: server", code: "OBSERVATION_UNAVAILABLE",
			slip: "evidence: server", fix: `did you mean "server"?`,
		},
		"A second model judges every comment": {
			step: `"comment", "comment": {"min_length": 5}`, says: "judge: llm", code: "JUDGE_UNAVAILABLE",
			slip: "judge: llm", fix: `did you mean "llm"?`,
		},
		"Every deploy needs a typed phrase": {
			step: `"shell", "shell": {"cmd": "cd app && fly -a shop deploy"}`, says: `approval, typed "act"`, code: "APPROVAL_UNAVAILABLE",
			slip: "[fly, deploy]", fix: "write [fly, deploy]",
		},
		"No agent's word approves anything": {
			step: `"user_input", "user_input": {"prompt": "Sure?"}`, says: "approval by form or review or page", code: "APPROVAL_UNAVAILABLE",
			slip: "review", fix: `did you mean "review"?`,
		},
	}
	slips := map[string]string{"form, page": "from, page", "evidence: server": "evidence: sever", "judge: llm": "judge: lmm", "[fly, deploy]": "fly deploy", "review": "revew"}
	if len(parts) != len(policies) {
		t.Fatalf("the manual has %d policies, want %d", len(parts), len(policies))
	}
	program := programIn(t, t.TempDir())
	env := append(os.Environ(), "KAIROS_DRIVERS_DIR="+buildDrivers(t), "LOG_LEVEL=error", "LC_ALL=C")
	for _, part := range parts {
		title, _, _ := strings.Cut(part, "**")
		title = strings.TrimRight(title, ".")
		p, ok := policies[title]
		if blocks := blocksOf(part); !ok || len(blocks) != 1 {
			t.Fatalf("policy %q has %d blocks, want one, and a test of it", title, len(blocks))
		}
		written := blocksOf(part)[0].text
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(args ...string) string {
				cmd := exec.CommandContext(t.Context(), program, args...)
				cmd.Dir, cmd.Env = dir, append(slices.Clone(env), "KAIROS_DB="+filepath.Join(dir, "kairos.db"), "KAIROS_CONFIG=kairos.yaml")
				out, _ := cmd.CombinedOutput() // it says what failed
				return string(out)
			}
			write("kairos.yaml", written)
			write("act.md", "# Act as told\n\n## Act\n\n```json\n{\"challenge\": {\"type\": "+p.step+"}}\n```\n")
			run("spaces", "create", "production")
			if out := run("tree", "explain", "--space", "production", "--protocol", "act.md"); !strings.Contains(out, "(space production): "+p.says) {
				t.Errorf("tree explain says %s, want %q", out, p.says)
			}
			if out := run("mint", "--space", "production", "act.md"); !strings.Contains(out, "kairos://mem/") {
				t.Fatalf("mint: %s", out)
			}
			if got := claimed(t, run); got != p.code {
				t.Errorf("an agent that does it alone gets %q, want %s", got, p.code)
			}
			write("kairos.yaml", strings.ReplaceAll(written, p.slip, slips[p.slip]))
			if out := run("config", "check"); !strings.Contains(out, p.fix) {
				t.Errorf("with %q config check says %s, want %s", slips[p.slip], out, p.fix)
			}
		})
	}
}

// claimed is the error code that an agent gets which begins the only protocol and claims its step.
func claimed(t *testing.T, run func(args ...string) string) string {
	t.Helper()
	call := func(tool string, in map[string]any) (reply struct {
		ErrorCode   string `json:"error_code"`
		CurrentStep struct {
			URI string `json:"uri"`
		} `json:"current_step"`
		Challenge map[string]any `json:"challenge"`
		Choices   []struct {
			URI  string `json:"uri"`
			Role string `json:"role"`
		} `json:"choices"`
	}) {
		arguments, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		out := run("call", tool, string(arguments))
		if err := json.Unmarshal([]byte(out), &reply); err != nil {
			t.Fatalf("%s: %v: %s", tool, err, out)
		}
		return reply
	}
	found := call("kairos_search", map[string]any{"query": "Act as told", "space": "production"})
	if len(found.Choices) == 0 {
		t.Fatal("the protocol is not found")
	}
	r := call("kairos_begin", map[string]any{"uri": found.Choices[0].URI})
	if r.ErrorCode != "" {
		return r.ErrorCode
	}
	of, _ := r.Challenge["type"].(string)
	claims := map[string]any{
		"shell": map[string]any{"exit_code": 0, "stdout": "done", "stderr": "", "duration_seconds": 1}, "comment": map[string]any{"text": "Everything was done as it is written there."},
		"user_input": map[string]any{"confirmation": "approved"},
	}
	return call("kairos_next", map[string]any{"uri": r.CurrentStep.URI, "solution": map[string]any{
		"type": of, "nonce": r.Challenge["nonce"], "proof_hash": r.Challenge["proof_hash"], of: claims[of],
	}}).ErrorCode
}
