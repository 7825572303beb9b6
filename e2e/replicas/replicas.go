// Package replicas gives tests several real servers that share a PostgreSQL database,
// behind a proxy that takes turns, as an operator runs them.
package replicas

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Config says what is started. Everything but More is required.
type Config struct {
	// Program makes a command of the program kairos. Its environment and its stderr are
	// set afterwards.
	Program func(args ...string) *exec.Cmd
	// Drivers is a folder with locked drivers.
	Drivers string
	// Database is the address of a PostgreSQL database.
	Database string
	// More is added to the configuration of each server.
	More string
}

// Set is several servers and the proxy in front of them.
type Set struct {
	*Proxy
	Servers []*Server
	t       testing.TB
	dir     string
	config  Config
	key     string // with which servers that start now seal questions
}

// Start starts n servers and their proxy, and waits until all are ready. They end with
// the test.
func Start(t testing.TB, n int, c Config) *Set {
	t.Helper()
	s := &Set{t: t, dir: t.TempDir(), config: c}
	s.SetKeys(NewKey())
	if out, err := exec.CommandContext(t.Context(), "openssl", "genpkey", "-algorithm", "ed25519", "-out", filepath.Join(s.dir, "signing.key")).CombinedOutput(); err != nil {
		t.Fatalf("make a key that signs statements: %v\n%s", err, out)
	}
	for i := range n {
		s.Servers = append(s.Servers, s.newServer(i))
	}
	s.Proxy = startProxy(t, s.Servers)
	for _, one := range s.Servers {
		one.Start()
		t.Cleanup(one.Kill)
	}
	for _, one := range s.Servers {
		one.AwaitReady()
	}
	if t.Failed() {
		t.FailNow()
	}
	return s
}

// NewKey makes a key for questions to clients.
func NewKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return hex.EncodeToString(key[:])
}

// SetKeys writes the keys that the servers share; each reads them when it starts.
func (s *Set) SetKeys(keys ...string) {
	s.t.Helper()
	text := ""
	for _, key := range keys {
		text += key + "\n"
	}
	s.write("state.key", text)
	s.key = keys[0]
}

// Key is the first one of SetKeys.
func (s *Set) Key() string { return s.key }

func (s *Set) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Server is one server at an address that it keeps.
type Server struct {
	Address string // host and port
	Dir     string // of its configuration and log
	set     *Set

	mu    sync.Mutex    // guards the fields below
	cmd   *exec.Cmd     // nil: it does not run
	ended chan struct{} // closed when it has ended by itself or otherwise
}

func (s *Set) newServer(i int) *Server {
	s.t.Helper()
	one := &Server{Address: freeAddress(s.t), Dir: filepath.Join(s.dir, strconv.Itoa(i)), set: s}
	if err := os.Mkdir(one.Dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join(strconv.Itoa(i), "kairos.yaml"), fmt.Sprintf(`database: %q
admin: {socket: admin.sock}
drivers: {dir: %q}
signing: {key_file: ../signing.key}
replica: {address: "http://%s"}
%s`, s.config.Database, s.config.Drivers, one.Address, s.config.more()))
	return one
}

// more has the keys of every server, unless the test wants others.
func (c Config) more() string {
	return "mcp: {state_key_file: ../state.key, plain_wait: 5s, ask_again: 1s}\nhttp: {rate: {per_minute: -1}}\n" + c.More
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// URL of the server.
func (o *Server) URL() string { return "http://" + o.Address }

// Command is the program with the configuration of this server.
func (o *Server) Command(args ...string) *exec.Cmd {
	cmd := o.set.config.Program(args...)
	cmd.Env = append(os.Environ(), "KAIROS_CONFIG="+filepath.Join(o.Dir, "kairos.yaml"), "METRICS_PORT=0", "LOG_LEVEL=info",
		"TMPDIR="+o.Dir, "XDG_DATA_HOME="+filepath.Join(o.Dir, "share"))
	return cmd
}

// Start starts the server, also after Kill or Stop. A failure fails the test later, so
// that any goroutine may call it.
func (o *Server) Start() {
	log, err := os.OpenFile(o.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		o.set.t.Error(err)
		return
	}
	defer func() { _ = log.Close() }()
	cmd := o.Command("serve", "--http", o.Address)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		o.set.t.Error(err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	ended := make(chan struct{})
	o.cmd, o.ended = cmd, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its ProcessState is read
	}()
}

// Kill ends the server as a crash does.
func (o *Server) Kill() { _ = o.end(syscall.SIGKILL) }

// Stop ends the server as an operator does, and returns what it ends with.
func (o *Server) Stop() error { return o.end(syscall.SIGTERM) }

func (o *Server) end(signal syscall.Signal) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cmd == nil {
		return nil
	}
	cmd := o.cmd
	o.cmd = nil
	_ = cmd.Process.Signal(signal) // it may have ended
	<-o.ended
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("the server ended with %s", cmd.ProcessState)
	}
	return nil
}

// Ended is closed when the server that was started last has ended.
func (o *Server) Ended() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// PID is the process of the server; 0: it does not run.
func (o *Server) PID() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cmd == nil {
		return 0
	}
	return o.cmd.Process.Pid
}

// readyTime bounds a start on a machine that is busy.
const readyTime = time.Minute

// AwaitReady waits until the server says that it is ready.
func (o *Server) AwaitReady() {
	o.set.t.Helper()
	for end := time.Now().Add(readyTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if o.ready() {
			return
		}
		select {
		case <-o.Ended():
			end = time.Time{}
		default:
		}
	}
	o.set.t.Errorf("the server at %s does not become ready:\n%s", o.Address, o.Log())
}

func (o *Server) ready() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL()+"/readyz", http.NoBody)
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

func (o *Server) log() string { return filepath.Join(o.Dir, "log") }

// Log is what the server has logged since the first start.
func (o *Server) Log() string {
	text, err := os.ReadFile(o.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
