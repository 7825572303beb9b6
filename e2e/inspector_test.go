package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const inspectTimeout = 3 * time.Minute

// TestInspectorPlaysARun plays a protocol with the command line of the official
// Inspector, one process a call, in both eras and over both transports.
func TestInspectorPlaysARun(t *testing.T) {
	requireNode(t)
	bin := built(t)
	fetchClients(t)
	node := newNode(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "kairos.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for transport, target := range map[string][]string{
		"stdio": {filepath.Join(bin, "kairos"), "serve", "--config", config, "--db", filepath.Join(dir, "kairos.db")},
		"http":  {started(t, kairosOverHTTP(t, bin))},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(transport+" "+era, func(t *testing.T) {
				t.Parallel()
				i := inspector{node: node, target: target, era: era, env: ownEnv(dir)}
				i.play(t)
			})
		}
	}
}

// inspector is the Inspector's command line for one server.
type inspector struct {
	node   string
	target []string // a URL, or a command and its arguments
	era    string
	env    []string
}

const watering = "# Water the %s plants\n\n## Water them\n\nSay how much each pot got.\n\n" +
	"```json\n{\"challenge\": {\"type\": \"comment\", \"comment\": {\"min_length\": 10}}}\n```\n\n" +
	"## Look at them\n\nSay how they look.\n\n" +
	"```json\n{\"challenge\": {\"type\": \"comment\", \"comment\": {\"min_length\": 10}}}\n```\n"

func (i inspector) play(t *testing.T) {
	var listed struct{ Tools []struct{ Name string } }
	i.run(t, &listed, "--method", "tools/list")
	if len(listed.Tools) != 9 {
		t.Fatalf("the Inspector lists %d tools, want 9", len(listed.Tools))
	}
	var minted struct{ Items []struct{ URI string } }
	i.call(t, "kairos_mint", map[string]any{
		"markdown_doc": strings.ReplaceAll(watering, "%s", i.era), "llm_model_id": "inspector", "force_update": true,
	}, &minted)
	if len(minted.Items) != 2 {
		t.Fatalf("minted %d steps, want 2", len(minted.Items))
	}
	var prompts struct{ Prompts []struct{ Name string } }
	i.run(t, &prompts, "--method", "prompts/list")
	name := "water-the-" + i.era + "-plants"
	if !slices.ContainsFunc(prompts.Prompts, func(p struct{ Name string }) bool { return p.Name == name }) {
		t.Errorf("the Inspector lists the prompts %v, want %s", prompts.Prompts, name)
	}
	var started struct {
		Messages []struct{ Content struct{ Text string } }
	}
	i.run(t, &started, "--method", "prompts/get", "--prompt-name", name)
	if len(started.Messages) != 1 || !strings.Contains(started.Messages[0].Content.Text, minted.Items[0].URI) {
		t.Errorf("prompt %s = %+v, want the URI of the protocol", name, started)
	}
	step := i.step(t, "kairos_begin", map[string]any{"uri": minted.Items[0].URI})
	for _, text := range []string{"Every pot got a litre.", "They look better than before."} {
		if step.Challenge.Type != "comment" || step.Challenge.Nonce == "" {
			t.Fatalf("step = %+v, want a comment to make", step)
		}
		step = i.step(t, "kairos_next", map[string]any{"uri": step.CurrentStep.URI, "solution": map[string]any{
			"type": "comment", "nonce": step.Challenge.Nonce, "proof_hash": step.Challenge.ProofHash,
			"comment": map[string]any{"text": text},
		}})
	}
	var closed struct{ Verified bool }
	i.call(t, "kairos_attest", map[string]any{
		"uri": step.CurrentStep.URI, "outcome": "success", "message": "watered", "run_id": step.RunID,
	}, &closed)
	if !closed.Verified {
		t.Error("the run is not verified")
	}
}

type inspectedStep struct {
	RunID       string `json:"run_id"`
	ErrorCode   string `json:"error_code"`
	CurrentStep struct {
		URI string
	} `json:"current_step"`
	Challenge struct {
		Type, Nonce string
		ProofHash   string `json:"proof_hash"`
	}
}

func (i inspector) step(t *testing.T, tool string, args map[string]any) (s inspectedStep) {
	t.Helper()
	i.call(t, tool, args, &s)
	if s.ErrorCode != "" || s.RunID == "" {
		t.Fatalf("%s = %+v", tool, s)
	}
	return s
}

// call calls a tool and decodes what it replied.
func (i inspector) call(t *testing.T, tool string, args map[string]any, reply any) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		IsError           bool
		StructuredContent json.RawMessage
	}
	i.run(t, &result, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", string(text))
	if result.IsError {
		t.Fatalf("%s: %s", tool, result.StructuredContent)
	}
	if err := json.Unmarshal(result.StructuredContent, reply); err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, result.StructuredContent)
	}
}

// run runs the Inspector once and decodes the result that it prints.
func (i inspector) run(t *testing.T, result any, args ...string) {
	t.Helper()
	const program = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
	file := filepath.Join(t.TempDir(), "result.json")
	all := append([]string{program, "--cli"}, args...)
	all = append(all, "--protocol-era", i.era, "--quiet", "--output", file, "--")
	all = append(all, i.target...)
	cmd := exec.Command(i.node, all...)
	cmd.Env = i.env
	out, err := output(t.Context(), inspectTimeout, cmd)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if err := json.Unmarshal(text, result); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
}
