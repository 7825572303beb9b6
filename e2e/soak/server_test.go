package soak_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is the real program over HTTP at one address, killed and started again.
type server struct {
	t       *testing.T
	dir     string
	address string

	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &server{t: t, dir: t.TempDir(), address: l.Addr().String()}
	s.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\nadmin: {socket: off}\ndrivers: {dir: %q}\nhttp: {rate: {per_minute: -1}}\n",
		filepath.Join(bin, "drivers")))
	return s
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *server) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "kairos"), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_DATA_HOME="+s.path("share"), "KAIROS_CONFIG="+s.path("kairos.yaml"), "METRICS_PORT=0")
	return cmd
}

// kairos runs a command of the operator and returns what it prints.
func (s *server) kairos(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kairos %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func (s *server) must(args ...string) string {
	s.t.Helper()
	out, err := s.kairos(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// prepare stores the protocol, lets KAIROS call the counter for it, and starts the
// server. It returns the protocol's URI.
func (s *server) prepare() string {
	s.t.Helper()
	s.write("protocol.md", document)
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.must("tools", "add", "counter", "--changes", "count", "--", self, counterArg, s.path("counted"))
	s.must("mint", "protocol.md")
	s.must("allow", title, "--yes")
	s.start()
	s.t.Cleanup(s.kill)
	s.awaitReady()
	return s.find()
}

func (s *server) start() {
	log, err := os.OpenFile(s.path("log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer log.Close()
	cmd := s.command("serve", "--http", s.address)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = cmd
}

func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // it was killed
}

// awaitReady waits until the server says that it is ready.
func (s *server) awaitReady() {
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		res, err := http.Get("http://" + s.address + "/readyz")
		if err != nil {
			continue // it does not listen yet
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	s.t.Error("the server does not become ready:\n" + s.lately())
}

// lately is the end of the server's log.
func (s *server) lately() string {
	log, _ := os.ReadFile(s.path("log"))
	return string(log[max(0, len(log)-3000):])
}

// killDriver kills one of the driver processes, if any has started, or stops it, so
// that it answers nothing more. It says what it did.
func (s *server) killDriver() string {
	s.mu.Lock()
	parent := s.cmd.Process.Pid
	s.mu.Unlock()
	drivers := driversOf(parent)
	if len(drivers) == 0 {
		return "no driver had started"
	}
	d := drivers[rand.IntN(len(drivers))]
	signal, did := syscall.SIGKILL, "driver killed"
	if rand.IntN(4) == 0 {
		signal, did = syscall.SIGSTOP, "driver stopped"
	}
	if err := syscall.Kill(d.pid, signal); err != nil {
		return "driver had ended"
	}
	s.t.Logf("%s: %s", did, d.name)
	return did
}

type process struct {
	pid  int
	name string
}

// driversOf lists the driver processes below a process.
func driversOf(parent int) (found []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range dirs {
		name, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		argv0, _, _ := strings.Cut(string(name), "\x00")
		_, driver, is := strings.Cut(argv0, "kairos-driver-")
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if is && isBelow(pid, parent) {
			found = append(found, process{pid, driver})
		}
	}
	return found
}

func isBelow(pid, parent int) bool {
	for pid > 1 {
		if pid == parent {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return false
}

// find returns the URI of the protocol.
func (s *server) find() string {
	s.t.Helper()
	var found struct {
		Choices []struct {
			URI  string `json:"uri"`
			Role string `json:"role"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(s.must("search", title)), &found); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range found.Choices {
		if c.Role == "match" {
			return c.URI
		}
	}
	s.t.Fatal("the protocol is not found")
	return ""
}
