package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	suiteTimeout = 3 * time.Minute // of one revision
	startTimeout = time.Minute
)

// revisions are the protocol versions whose requirements are run.
var revisions = []string{"2025-11-25", "2026-07-28"}

// TestConformance runs what the official conformance suite requires of a server
// against `kairos serve --http` and against the fixture, which has the suite's
// own tools on the same transport. The files conformance/NAME-REVISION.yaml list
// what fails and whose it is: anything else that fails, and anything in there
// that does not, fails the test.
func TestConformance(t *testing.T) {
	requireNode(t)
	bin := built(t)
	fetchClients(t)
	node := newNode(t)
	for name, server := range map[string]*exec.Cmd{"kairos": kairosOverHTTP(t, bin), "fixture": fixture(t)} {
		url := started(t, server)
		for _, revision := range revisions {
			t.Run(name+" "+revision, func(t *testing.T) { conform(t, node, url, name, revision) })
		}
	}
}

// conform runs the requirements of one revision against one server.
func conform(t *testing.T, node, url, name, revision string) {
	baseline := filepath.Join("conformance", name+"-"+revision+".yaml")
	results := t.TempDir()
	out, err := output(t.Context(), suiteTimeout, exec.Command(node,
		"node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url,
		"--requirements", revision, "--expected-failures", baseline, "--output-dir", results))
	if err != nil {
		t.Errorf("the suite does not fail what %s lists, and only that: %v\n%s", baseline, err, summary(out))
	}
	passed, failed := tally(t, results)
	t.Logf("%s, %s: %d checks passed, %d failed (scored or not)", name, revision, passed, failed)
	if passed < 30 {
		t.Errorf("only %d checks passed: did the suite reach the server?\n%s", passed, out)
	}
}

// summary is what the suite says at its end.
func summary(out []byte) string {
	_, end, found := strings.Cut(string(out), "\n=== SUMMARY ===")
	if !found {
		return string(out)
	}
	return end
}

// tally counts the checks in the suite's results.
func tally(t *testing.T, dir string) (passed, failed int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []struct{ Status string }
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range checks {
			switch c.Status {
			case "SUCCESS":
				passed++
			case "FAILURE", "WARNING":
				failed++
			}
		}
	}
	return passed, failed
}

// kairosOverHTTP is a server with an empty database on a free port.
func kairosOverHTTP(t *testing.T, bin string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "kairos.yaml")
	if err := os.WriteFile(config, []byte("http: {listen: '127.0.0.1:0'}\nmetrics: {listen: 'off'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "kairos"), "serve", "--http", "--config", config, "--db", filepath.Join(dir, "kairos.db"))
	cmd.Env = ownEnv(dir)
	return cmd
}

// fixture is the server with the suite's tools, built with its tag.
func fixture(t *testing.T) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fixture")
	run(t, exec.Command("go", "build", "-trimpath", "-tags", "conformance,grpcnotrace", "-o", program, "./conformance"))
	return exec.Command(program)
}

// ownEnv keeps the machine's own configuration from a server.
func ownEnv(home string) []string {
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
}

var address = regexp.MustCompile(`http://[^ ,]*/mcp`)

// started starts a server, which ends with the test, and returns its URL.
func started(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	said, say := io.Pipe()
	cmd.Stdout, cmd.Stderr = say, say
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Signal(os.Interrupt)
		patience := time.AfterFunc(startTimeout, func() { _ = cmd.Process.Kill() })
		defer patience.Stop()
		_ = cmd.Wait()
		_ = say.Close()
	})
	url := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if at := address.FindString(lines.Text()); at != "" && len(url) == 0 {
				url <- at
			}
		}
		_, _ = io.Copy(io.Discard, said) // a line that is too long must not stop the server
	}()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	select {
	case at := <-url:
		return at
	case <-ctx.Done():
		t.Fatal(fmt.Errorf("%s did not say where it listens: %w", cmd.Path, ctx.Err()))
		return ""
	}
}
