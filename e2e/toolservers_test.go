package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestToolsOfRealServersAreCalled lets KAIROS call the tools of the reference servers
// for files and for everything there is in MCP.
func TestToolsOfRealServersAreCalled(t *testing.T) {
	requireNode(t)
	bin := built(t)
	fetchClients(t)
	node, dir := newNode(t), t.TempDir()
	config, letter := filepath.Join(dir, "kairos.yaml"), filepath.Join(dir, "letters", "a.txt")
	err := errors.Join(os.WriteFile(config, []byte("admin: {socket: off}\nmetrics: {listen: off}\n"), 0o600),
		os.Mkdir(filepath.Dir(letter), 0o700), os.WriteFile(letter, []byte("Dear Betty\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	kairos := func(works bool, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "kairos"), append([]string{"--config", config, "--db", filepath.Join(dir, "kairos.db")}, args...)...)
		cmd.Dir, cmd.Env = dir, append(ownEnv(dir), "SECRET_OF_THE_SERVER=do-not-tell")
		out, err := output(t.Context(), inspectTimeout, cmd)
		if (err == nil) != works {
			t.Fatalf("kairos %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	server := func(name string) string {
		path, err := filepath.Abs(filepath.Join("node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js"))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	kairos(true, "tools", "add", "everything", "--yes", "--", node, server("everything"))
	added := kairos(true, "tools", "add", "files", "--yes", "--", node, server("filesystem"), filepath.Dir(letter))
	for _, line := range []string{"reads     read_text_file:", "changes   write_file:"} {
		if !strings.Contains(added, line) {
			t.Errorf("tools add says\n%s\nwant %q in it", added, line)
		}
	}
	kairos(true, "tools", "check")
	// This server says that the tool with the whole environment only reads.
	if env := kairos(true, "tools", "call", "everything", "get-env", "{}"); !strings.Contains(env, "HOME") || strings.Contains(env, "do-not-tell") {
		t.Errorf("the tool server sees %s", env)
	}
	kairos(false, "tools", "call", "files", "read_text_file", `{"path":"/etc/hostname"}`)

	protocol, answers := filepath.Join(dir, "letter.md"), filepath.Join(dir, "answers.yaml")
	step := func(tool, arguments string) string {
		return fmt.Sprintf("\n## Use %s\n\nUse it.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"evidence\":\"server\",\"mcp\":{\"tool_name\":%q,\"arguments\":%s}}}\n```\n", tool, tool, arguments)
	}
	doc := "# Answer a letter\n" + step("files/read_text_file", fmt.Sprintf(`{"path":%q}`, letter)) + step("everything/get-sum", `{"a":2,"b":3}`) +
		step("files/write_file", fmt.Sprintf(`{"path":%q,"content":"Dear Adam"}`, letter+".answer"))
	const rules = "rules:\n  - {on: elicitation, after: 1s, match: KAIROS can do these steps, answer: {accept: once}}\n" +
		"  - {on: elicitation, after: 1s, match: KAIROS will do exactly this itself, answer: approved}\n"
	if err := errors.Join(os.WriteFile(protocol, []byte(doc), 0o600), os.WriteFile(answers, []byte(rules), 0o600)); err != nil {
		t.Fatal(err)
	}
	if said := kairos(true, "run", protocol, "--script", answers); !strings.Contains(said, "verified: all 3 steps seen by KAIROS") {
		t.Errorf("kairos run says\n%s", said)
	}
	if written, err := os.ReadFile(letter + ".answer"); err != nil || string(written) != "Dear Adam" {
		t.Errorf("the answer is %q, %v", written, err)
	}
}
