package play

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/e2e/programs"
)

// Server is the real program over HTTP, in a folder of its own.
type Server struct {
	*programs.Server
	t     *testing.T
	bin   string // the folder of the programs
	Front string // where players call it; empty: Address
	Token string // the file with the token of its operator
}

// NewServer configures a server that uses the programs in a folder. It is not started.
func NewServer(t *testing.T, bin string) *Server {
	t.Helper()
	run, err := os.MkdirTemp("", "kairos") // short, as the path of a socket has to be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	s := &Server{Server: programs.NewServer(t, t.TempDir()), t: t, bin: bin, Token: filepath.Join(run, "admin.token")}
	s.Command = func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "kairos"), args...)
		cmd.Dir = s.Dir
		cmd.Env = append(os.Environ(), "HOME="+s.Dir, "XDG_DATA_HOME="+s.Path("share"), "KAIROS_CONFIG="+s.Path("kairos.yaml"), "METRICS_PORT=0")
		return cmd
	}
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
	s.Write("kairos.yaml", fmt.Sprintf("database: %q\nadmin: {socket: %q}\ndrivers: {dir: %q}\n%s",
		database, strings.TrimSuffix(s.Token, "token")+"sock", filepath.Join(s.bin, "drivers"), more))
}

func (s *Server) front() string { return cmp.Or(s.Front, s.Address) }

// Path is the path of a file in the server's folder.
func (s *Server) Path(name string) string { return filepath.Join(s.Dir, name) }

// Write writes a file in the server's folder.
func (s *Server) Write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
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
	s.Must("accept", title, "--yes")
	return s.find()
}

// Timeline is what the database tells of a run.
func (s *Server) Timeline(run string) (line archive.Timeline, err error) {
	out, err := s.Kairos("runs", "show", run, "-o", "json")
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
	if err := json.Unmarshal([]byte(s.Must("search", title, "-o", "json")), &found); err != nil {
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
