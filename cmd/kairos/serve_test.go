package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// served is the real program as a host starts it, spoken to line by line.
type served struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	id     int
	stderr programs.Output
	// logLevel of the program; empty: info.
	logLevel string
	tmp      string // its TMPDIR; empty: dir
	uid      int    // its account; 0: that of the test
	binary   string // the program; empty: that of the test
}

const shellTree = `
defaults: {missing_type: shell, no_challenge_type: shell}
challenges:
  - match: {}
    evidence: [{via: agent}]
inputs:
  approval: [{via: agent, when: 'config.approval.trust_agent'}]
  files: [{via: agent}]
`

// newServed makes a folder with two drivers and a configuration. The drivers
// are not locked.
func newServed(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir()}
	drivers := buildDrivers(t)
	for _, name := range []string{"kairos-driver-shell", "kairos-driver-agent"} {
		b, err := os.ReadFile(filepath.Join(drivers, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path(name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("tree.yaml", shellTree)
	s.configure("")
	return s
}

func (s *served) path(name string) string { return filepath.Join(s.dir, name) }

func (s *served) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path("."+name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.path("."+name), s.path(name)); err != nil {
		s.t.Fatal(err)
	}
}

// configure writes the configuration, with more lines at its end.
func (s *served) configure(more string) {
	s.t.Helper()
	s.write("kairos.yaml", "database: data/kairos.db\ntree: tree.yaml\nadmin: {socket: run/admin.sock}\ndrivers: {dir: .}\n"+more)
}

// program is this test binary as the program itself.
func (s *served) program(args ...string) *exec.Cmd {
	cmd := exec.Command(cmp.Or(s.binary, os.Args[0]))
	cmd.Args = append([]string{"kairos"}, args...)
	cmd.Env = append(os.Environ(), "KAIROS_CONFIG="+s.path("kairos.yaml"), "LOG_LEVEL="+cmp.Or(s.logLevel, "info"), "TMPDIR="+cmp.Or(s.tmp, s.dir))
	if s.uid != 0 { // which may not pass through the folders of the test's program
		cmd.Path, cmd.SysProcAttr = "/proc/self/exe", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}} //nolint:gosec // small
		cmd.Dir = s.dir
	}
	return cmd
}

func (s *served) start(args ...string) {
	s.t.Helper()
	s.cmd = s.program(append([]string{"serve"}, args...)...)
	s.cmd.Stderr = &s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = s.in.Close()
		if err := s.cmd.Wait(); err != nil {
			s.t.Errorf("the server ended with %v\n%s", err, s.stderr.String())
		}
	})
	s.request("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	})
}

func (s *served) request(method string, params any) json.RawMessage {
	s.t.Helper()
	s.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method, "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		s.t.Fatalf("%v\n%s", err, s.stderr.String())
	}
	for {
		reply, err := s.out.ReadBytes('\n')
		if err != nil {
			s.t.Fatalf("%s: %v\n%s", method, err, s.stderr.String())
		}
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(reply, &m) == nil && m.ID != nil && *m.ID == s.id {
			return m.Result
		}
	}
}

func (s *served) call(tool string, args map[string]any) (reply struct {
	Items []struct {
		URI string `json:"uri"`
	} `json:"items"`
	ErrorCode string `json:"error_code"`
	Message   string `json:"message"`
	Challenge struct {
		Nonce     string `json:"nonce"`
		ProofHash string `json:"proof_hash"`
	} `json:"challenge"`
	Solved []struct {
		Label string `json:"label"`
	} `json:"solved"`
},
) {
	s.t.Helper()
	var result struct {
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(s.request("tools/call", map[string]any{"name": tool, "arguments": args}), &result); err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(result.Structured, &reply); err != nil {
		s.t.Fatal(err)
	}
	return reply
}

func (s *served) logs(what string, times int) {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for strings.Count(s.stderr.String(), what) < times {
		if time.Now().After(deadline) {
			s.t.Fatalf("%q is not %d times in the log:\n%s", what, times, s.stderr.String())
		}
		time.Sleep(5 * time.Millisecond) // polling with a deadline
	}
}

func (s *served) lock() {
	s.t.Helper()
	if out, err := s.program("driver", "lock", s.dir).CombinedOutput(); err != nil {
		s.t.Fatalf("driver lock: %v\n%s", err, out)
	}
}

const oneCommand = "# One\n\n## Run\n\nrun it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n"

// solve plays the protocol and lets do happen while its step is open.
func (s *served) solve(do func()) {
	s.t.Helper()
	minted := s.call("kairos_mint", map[string]any{"markdown_doc": oneCommand, "llm_model_id": "test", "force_update": true})
	if len(minted.Items) == 0 {
		s.t.Fatalf("nothing was minted: %s %s\n%s", minted.ErrorCode, minted.Message, s.stderr.String())
	}
	uri := minted.Items[0].URI
	begun := s.call("kairos_begin", map[string]any{"uri": uri})
	do()
	done := s.call("kairos_next", map[string]any{"uri": uri, "solution": map[string]any{
		"type": "shell", "nonce": begun.Challenge.Nonce, "proof_hash": begun.Challenge.ProofHash,
		"shell": map[string]any{"exit_code": 0, "stdout": "", "stderr": "", "duration_seconds": 0.1},
	}})
	if len(done.Solved) != 1 {
		s.t.Errorf("the step is not solved: %s %s\n%s", done.ErrorCode, done.Message, s.stderr.String())
	}
}

func TestARunningServerTakesUpItsFiles(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	s.start()
	for _, made := range []string{"data", "run"} {
		if _, err := os.Stat(s.path(made)); err == nil {
			t.Errorf("%s was made before the first tool call", made)
		}
	}
	s.solve(func() {
		s.configure("approval: {trust_agent: true}\n") // the watch sees it
		s.logs("settings=changed", 1)
	})
	if _, err := os.Stat(s.path("run/admin.sock")); err != nil {
		t.Errorf("no admin socket after the first tool call: %v", err)
	}
	s.solve(func() {
		s.configure("approval: {trust_agent: perhaps}\n")
		s.logs("refused", 1)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.logs("SIGHUP: the reload is refused", 1)
	})
	s.configure("approval: {trust_agent: true}\ndatabase2: x\n")
	s.logs("database2", 1)
	s.configure("approval: {trust_agent: false}\nlog: {format: json}\n")
	s.logs("settings=changed", 2)
	s.logs("needs_restart=[log]", 1)
	s.solve(func() {
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.logs("changed=false", 1)
	})
}

func TestDevModeNeedsNoLockAndIsLoud(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	out, err := s.program("serve").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "drivers.lock") {
		t.Fatalf("without a lock and without --dev: %v\n%s", err, out)
	}
	s.start("--dev")
	s.logs("DEV MODE", 1)
	s.solve(func() {
		// Another build of the same driver, as its author makes it.
		b, err := os.ReadFile(s.path("kairos-driver-shell"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path("new"), append(b, "\n"...), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(s.path("new"), s.path("kairos-driver-shell")); err != nil {
			t.Fatal(err)
		}
		s.logs("shell changed", 1)
	})
}
