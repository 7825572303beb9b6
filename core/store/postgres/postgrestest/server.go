// Package postgrestest gives tests a real PostgreSQL server: the one at
// KAIROS_TEST_POSTGRES, else one that it starts from the installed programs.
package postgrestest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the environment variable with the address of a server on which tests
// may create databases.
const Variable = "KAIROS_TEST_POSTGRES"

// Password of the user kairos of a server that was started, over TCP. Over its socket
// it needs none.
const Password = "wal/rus?1"

// Server is a running PostgreSQL server.
type Server struct {
	address *url.URL // of its database postgres

	folder, programs string // of a server that was started
	port             int
	owner            *syscall.Credential // it refuses to run as root
	process          *exec.Cmd
	output           *os.File
}

var databases atomic.Int64

// Start returns a server for the test and all its subtests. If there is none, the
// test is skipped, or fails if CI is true.
func Start(t testing.TB) *Server {
	t.Helper()
	if given := os.Getenv(Variable); given != "" {
		address, err := url.Parse(given)
		if err != nil {
			t.Fatalf("%s is not an address", Variable)
		}
		return &Server{address: address}
	}
	s := &Server{programs: programs()}
	if s.programs == "" {
		missing := fmt.Sprintf("POSTGRESQL IS MISSING: install the package postgresql, or name a server in %s", Variable)
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	if err := s.create(); err != nil {
		t.Fatalf("create a PostgreSQL cluster: %v", err)
	}
	t.Cleanup(func() {
		s.end(syscall.SIGQUIT)
		if err := os.RemoveAll(s.folder); err != nil {
			t.Error(err)
		}
	})
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	return s
}

// programs is the folder of the newest installed server; "": none. Debian has them
// outside of PATH.
func programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		// Its companions are beside the program, not beside a link to it.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

func version(program string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	if err != nil {
		return 0
	}
	return n
}

// Owned reports whether the test has started the server, so that it may stop it.
func (s *Server) Owned() bool { return s.programs != "" }

func (s *Server) create() (err error) {
	// Short, because the path of a socket has at most 107 bytes.
	if s.folder, err = os.MkdirTemp("/tmp", "kairos-pg-"); err != nil {
		return err
	}
	if s.owner, err = Owner(); err != nil {
		return err
	}
	if s.owner != nil {
		if err := os.Chown(s.folder, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return err
		}
	}
	password := filepath.Join(s.folder, "password")
	if err := os.WriteFile(password, []byte(Password+"\n"), 0o644); err != nil {
		return err
	}
	initdb := s.command("initdb", "-D", s.data(), "-U", "kairos", "-E", "UTF8", "--no-locale", "--no-sync",
		"--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile="+password)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	free, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return err
	}
	s.address = &url.URL{Scheme: "postgres", User: url.User("kairos"), Path: "/postgres", RawQuery: url.Values{
		"host": {s.folder}, "port": {strconv.Itoa(s.port)},
	}.Encode()}
	return nil
}

// Owner is the user as whom servers run; nil: the one of the test.
func Owner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	var found *user.User
	var err error
	for _, name := range []string{"postgres", "nobody"} {
		if found, err = user.Lookup(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// Program is the path of a program of a server that was started.
func (s *Server) Program(name string) string { return filepath.Join(s.programs, name) }

func (s *Server) command(name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), s.Program(name), arguments...)
	cmd.Dir = s.folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return cmd
}

// startTime bounds a start, also after a crash.
const startTime = time.Minute

// Run starts the server, also again after Kill.
func (s *Server) Run() error {
	// After a kill, processes of the old server may hold its memory for a moment.
	for end := time.Now().Add(startTime); ; time.Sleep(50 * time.Millisecond) {
		err := s.run()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func (s *Server) run() (err error) {
	if s.output, err = os.Create(filepath.Join(s.folder, "log")); err != nil {
		return err
	}
	s.process = s.command("postgres", "-D", s.data(), "-k", s.folder, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "shared_buffers=32MB")
	s.process.Stdout, s.process.Stderr = s.output, s.output
	if err := s.process.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.process.Wait() }()
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			log, _ := os.ReadFile(s.output.Name())
			s.process = nil
			return fmt.Errorf("the server ended: %w: %s", err, log)
		default:
		}
		if s.execute("SELECT 1") == nil {
			return nil
		}
	}
	return fmt.Errorf("the server did not start within %v", startTime)
}

// PID is the process ID of a server that was started.
func (s *Server) PID() int { return s.process.Process.Pid }

// Kill ends the server as a crash does.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server as an operator does who does not wait for its clients.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

func (s *Server) end(signal syscall.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(signal)
	for s.process.Process.Signal(syscall.Signal(0)) == nil {
		time.Sleep(5 * time.Millisecond)
	}
	s.process = nil
	_ = s.output.Close()
}

// Database returns the address of a new database. It is removed after the test, if
// the server is not.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("kairos_test_%d_%d", os.Getpid(), databases.Add(1))
	if err := s.execute("CREATE DATABASE " + name); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	if !s.Owned() {
		t.Cleanup(func() {
			if err := s.execute("DROP DATABASE " + name); err != nil {
				t.Errorf("drop the database: %v", err)
			}
		})
	}
	return s.Named(name)
}

// Named returns the address of a database by its name.
func (s *Server) Named(database string) string {
	address := *s.address
	address.Path = "/" + database
	return address.String()
}

// OverTCP changes an address of the server to one over TCP. Only of a server that was
// started.
func (s *Server) OverTCP(address, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // addresses of this package can be parsed
	}
	u.User, u.Host, u.RawQuery = url.UserPassword("kairos", password), fmt.Sprintf("127.0.0.1:%d", s.port), ""
	return u.String()
}

// Port of a server that was started.
func (s *Server) Port() int { return s.port }

func (s *Server) execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	return Execute(ctx, s.address.String(), statement)
}

// Execute runs statements in a database.
func Execute(ctx context.Context, address string, statements ...string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", strings.SplitN(statement, "\n", 2)[0], err)
		}
	}
	return nil
}
