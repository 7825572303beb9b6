package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// served is the real program in a folder of its own.
type served struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	client *mcpClient // of start
	stderr programs.Output
	// logLevel of the program; empty: info.
	logLevel string
	tmp      string // its TMPDIR; empty: dir
	uid      int    // its account; 0: that of the test
}

const shellTree = `
defaults: {missing_type: shell, no_challenge_type: shell}
challenges:
  - match: {}
    evidence: [{via: agent}]
inputs:
  approval: [{via: agent}]
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
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"kairos"}, args...)
	cmd.Env = append(os.Environ(), "KAIROS_CONFIG="+s.path("kairos.yaml"), "LOG_LEVEL="+cmp.Or(s.logLevel, "info"), "TMPDIR="+cmp.Or(s.tmp, s.dir))
	if s.uid != 0 { // which may not pass through the folders of the test's program
		cmd.Path, cmd.SysProcAttr = "/proc/self/exe", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}} //nolint:gosec // small
		cmd.Dir = s.dir
	}
	return cmd
}

// start starts the server as a host does that can do nothing.
func (s *served) start(args ...string) {
	s.t.Helper()
	p := s.pipe(s.t, legacyEra, hasNothing, args...)
	s.cmd, s.client = p.cmd, p.mcpClient
	s.t.Cleanup(p.leave)
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
	r := s.client.opens(oneCommand)
	do()
	if done := s.client.submit(r, "shell", ranWell).step(); done.ProofHash == "" {
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
		s.configure("approval: {how: [agent]}\n") // the watch sees it
		s.logs("settings=changed", 1)
	})
	if _, err := os.Stat(s.path("run/admin.sock")); err != nil {
		t.Errorf("no admin socket after the first tool call: %v", err)
	}
	s.solve(func() {
		s.configure("approval: {how: [perhaps]}\n")
		s.logs("refused", 1)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.logs("SIGHUP: the reload is refused", 1)
	})
	s.configure("approval: {how: [agent]}\ndatabase2: x\n")
	s.logs("database2", 1)
	s.configure("log: {format: json}\n")
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

// A metrics port that another program has would show that program's metrics as its own.
func TestAConfiguredMetricsPortThatIsTakenIsRefused(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := newServed(t)
	s.lock()
	s.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\ntree: tree.yaml\ndrivers: {dir: .}\nmetrics: {listen: '%s'}\n", other.Addr()))
	out, err := s.program("serve", "--http=127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprintf("listens on %s: set it to 127.0.0.1:0 for any free port", other.Addr())) {
		t.Errorf("serve ended with %v and says %s, want what to set", err, out)
	}
}
