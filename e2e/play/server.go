package play

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
)

// Server is the real program over HTTP at one address, in a folder of its own. It can
// be killed and started again.
type Server struct {
	t       *testing.T
	bin     string // the folder of the programs
	dir     string
	Address string // at which it listens
	Front   string // where players call it; empty: Address
	Token   string // the file with the token of its operator

	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
}

// NewServer configures a server that uses the programs in a folder. It is not started.
func NewServer(t *testing.T, bin string) *Server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()                        //nolint:errcheck // it is closed to be free for the server
	run, err := os.MkdirTemp("", "kairos") // short, as the path of a socket has to be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	s := &Server{t: t, bin: bin, dir: t.TempDir(), Address: l.Addr().String(), Token: filepath.Join(run, "admin.token")}
	s.Configure("data/kairos.db", "")
	return s
}

// NewServerOn is NewServer with another database.
func NewServerOn(t *testing.T, bin, database string) *Server {
	t.Helper()
	s := NewServer(t, bin)
	s.Configure(database, "")
	return s
}

// Configure names the server's database, and adds to its configuration.
func (s *Server) Configure(database, more string) {
	s.t.Helper()
	s.Write("kairos.yaml", fmt.Sprintf("database: %q\nadmin: {socket: %q}\ndrivers: {dir: %q}\nhttp: {rate: {per_minute: -1}}\n%s",
		database, strings.TrimSuffix(s.Token, "token")+"sock", filepath.Join(s.bin, "drivers"), more))
}

func (s *Server) front() string { return cmp.Or(s.Front, s.Address) }

// Path is the path of a file in the server's folder.
func (s *Server) Path(name string) string { return filepath.Join(s.dir, name) }

// Write writes a file in the server's folder.
func (s *Server) Write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Command is a command of the operator, with the configuration of the server.
func (s *Server) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "kairos"), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_DATA_HOME="+s.Path("share"), "KAIROS_CONFIG="+s.Path("kairos.yaml"), "METRICS_PORT=0")
	return cmd
}

// Kairos runs a command of the operator and returns what it prints.
func (s *Server) Kairos(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := s.Command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kairos %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// Must is Kairos for a command that has to succeed.
func (s *Server) Must(args ...string) string {
	s.t.Helper()
	out, err := s.Kairos(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// Prepare is Store, and starts the server.
func (s *Server) Prepare() string {
	s.t.Helper()
	uri := s.Store()
	s.up()
	return uri
}

// PrepareCopy starts the server on a database that was copied from a prepared one.
func (s *Server) PrepareCopy() string {
	s.t.Helper()
	s.addCounter()
	s.up()
	return s.find()
}

func (s *Server) up() {
	s.t.Helper()
	s.Start()
	s.t.Cleanup(s.Kill)
	s.AwaitReady()
}

// addCounter tells the server how to start the counter.
func (s *Server) addCounter() {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.Must("tools", "add", "counter", "--changes", "count", "--", self, counterArg, s.Path("counted"))
}

// Store stores the protocol, and lets KAIROS call the counter for it. It returns the
// protocol's URI.
func (s *Server) Store() string {
	s.t.Helper()
	s.Write("protocol.md", document)
	s.addCounter()
	s.Must("mint", "protocol.md")
	s.Must("allow", title, "--yes")
	return s.find()
}

// Start starts the server. Its log is appended to the file log.
func (s *Server) Start() {
	log, err := os.OpenFile(s.Path("log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer log.Close() //nolint:errcheck // the server writes to its own
	cmd := s.Command("serve", "--http", s.Address)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = cmd
}

// Timeline is what the database tells of a run.
func (s *Server) Timeline(run string) (line archive.Timeline, err error) {
	out, err := s.Kairos("runs", "show", run, "--json")
	if err != nil {
		return line, err
	}
	return line, json.Unmarshal([]byte(out), &line)
}

// shown is what a running server tells of a run: Timeline for thousands of runs.
func (s *Server) shown(run string) (line archive.Timeline, err error) {
	body := fmt.Sprintf(`{"run_id":%q}`, run)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.front()+"/api/runs_show", strings.NewReader(body))
	if err != nil {
		return line, err
	}
	token, err := os.ReadFile(s.Token)
	if err != nil {
		return line, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return line, err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	if err != nil {
		return line, err
	}
	return line, json.Unmarshal(text, &line)
}

// PID is the process ID of the server that was started last.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Kill kills the server and waits until it has ended.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // it was killed
}

// AwaitReady waits until the server says that it is ready.
func (s *Server) AwaitReady() {
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.Address+"/readyz", http.NoBody)
		if err != nil {
			s.t.Error(err)
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // it does not listen yet
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	s.t.Error("the server does not become ready:\n" + s.Lately())
}

// Lately is the end of the server's log.
func (s *Server) Lately() string {
	log, _ := os.ReadFile(s.Path("log"))
	return string(log[max(0, len(log)-3000):])
}

// Process is a driver process.
type Process struct {
	PID  int
	Name string // of the driver
}

// Drivers lists the driver processes of the server.
func (s *Server) Drivers() (found []Process) {
	parent := s.PID()
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
			found = append(found, Process{pid, driver})
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
func (s *Server) find() string {
	s.t.Helper()
	var found struct {
		Choices []struct {
			URI  string `json:"uri"`
			Role string `json:"role"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(s.Must("search", title)), &found); err != nil {
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
