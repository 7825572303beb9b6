package programs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is `kairos serve --http` at an address that it keeps. It can be ended and
// started again, by any goroutine: a failure fails the test later.
type Server struct {
	Address string // host and port
	Dir     string // of its configuration and log
	// Command makes a command of the program with the configuration of the server.
	Command func(args ...string) *exec.Cmd

	t testing.TB

	mu    sync.Mutex    // guards the fields below
	cmd   *exec.Cmd     // nil: it does not run
	ended chan struct{} // closed when it has ended by itself or otherwise
}

// NewServer returns a server at a free address that is not started. Its Command is to
// be set.
func NewServer(t testing.TB, dir string) *Server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // to be free for the server
	return &Server{t: t, Dir: dir, Address: l.Addr().String()}
}

// URL of the server.
func (s *Server) URL() string { return "http://" + s.Address }

// Start starts the server, also after Kill or Stop. Its log is appended to the file log.
func (s *Server) Start() {
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer func() { _ = log.Close() }() // the server writes to its own
	cmd := s.Command("serve", "--http", s.Address)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its ProcessState is read
	}()
}

// Kill ends the server as a crash does.
func (s *Server) Kill() { _ = s.end(syscall.SIGKILL) }

// Stop ends the server as an operator does, and returns what it ends with.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	_ = cmd.Process.Signal(signal) // it may have ended
	<-s.ended
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("the server ended with %s", cmd.ProcessState)
	}
	return nil
}

// Ended is closed when the server that was started last has ended.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// PID is the process of the server; 0: it does not run.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// AwaitReady waits until the server says that it is ready: a minute, for machines that
// are busy.
func (s *Server) AwaitReady() {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s.ready() {
			return
		}
		select {
		case <-s.Ended():
			end = time.Time{}
		default:
		}
	}
	s.t.Errorf("the server at %s does not become ready:\n%s", s.Address, s.Lately())
}

func (s *Server) ready() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false // it does not listen yet
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (s *Server) log() string { return filepath.Join(s.Dir, "log") }

// Log is what the server has logged since the first start.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Lately is the end of the server's log.
func (s *Server) Lately() string {
	log := s.Log()
	return log[max(0, len(log)-3000):]
}
