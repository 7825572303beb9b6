package qdranttest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
)

// readyLimit is how long a server may take until it answers.
const readyLimit = 60 * time.Second

// watchdog runs the server and ends it when its own standard input ends, which
// it does with this process, also when that is killed. "keep" leaves the data.
const watchdog = `
"$1" --disable-telemetry >"$2/log" 2>&1 &
server=$!
echo $server >"$2/pid.new" && mv "$2/pid.new" "$2/pid"
read -r word
kill -9 $server 2>/dev/null
wait $server 2>/dev/null
[ "$word" = keep ] || rm -rf "$2"
exit 0`

// Options of a server of one's own. The zero value is a plain server.
type Options struct {
	// APIKey is what clients have to show, or empty.
	APIKey string
	// Certificate and Key are PEM files; with them the server speaks only TLS.
	Certificate, Key string
}

// Server is a running server. Its methods are not for concurrent use.
type Server struct {
	binary, dir string
	options     Options
	http, grpc  int

	process  *exec.Cmd // the watchdog; nil: stopped
	lifeline *os.File  // its standard input
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Start gives the gRPC address (host:port) of the test binary's server, which
// the first call starts. KAIROS_TEST_QDRANT names a server to use instead. Where
// none can be had the test is skipped; with CI set it fails.
func Start(t testing.TB) string {
	t.Helper()
	if address := os.Getenv("KAIROS_TEST_QDRANT"); address != "" {
		return address
	}
	shared.once.Do(func() { shared.server, shared.err = start(Options{}) })
	check(t, shared.err)
	return shared.server.Address()
}

// New starts a server for one test, which its end stops.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(o)
	check(t, err)
	t.Cleanup(func() { _ = s.stop("") })
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errMissing) && os.Getenv("CI") == "":
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	default:
		t.Fatalf("qdranttest: %v", err)
	}
}

// Address is where the server speaks gRPC, as host:port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.grpc)) }

// Kill ends the server as a crash does (SIGKILL); its data stays.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.stop("keep\n"); err != nil {
		t.Fatalf("qdranttest: kill the server: %v", err)
	}
}

// Restart starts the server again after Kill, on the same ports and data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("qdranttest: restart the server: %v", err)
	}
}

func start(o Options) (*Server, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	// The ports are free when they are chosen, not surely when they are taken.
	for range 3 {
		var s *Server
		if s, err = prepare(path, o); err != nil {
			return nil, err
		}
		if err = s.run(); err == nil {
			return s, nil
		}
		err = errors.Join(err, s.stop(""))
	}
	return nil, err
}

func prepare(path string, o Options) (*Server, error) {
	dir, err := os.MkdirTemp("", "kairos-qdrant-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	return &Server{binary: path, dir: dir, options: o, http: ports[0], grpc: ports[1]}, nil
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all are held until all are chosen
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// run starts the watchdog with the server and waits until that answers.
func (s *Server) run() error {
	if err := os.Remove(filepath.Join(s.dir, "pid")); err != nil && !os.IsNotExist(err) {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", watchdog, "sh", s.binary, s.dir)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, append(os.Environ(), s.environment()...), read
	err = errors.Join(cmd.Start(), read.Close())
	if err != nil {
		return errors.Join(err, write.Close())
	}
	s.process, s.lifeline = cmd, write
	return s.awaitReady()
}

func (s *Server) environment() []string {
	env := []string{
		"QDRANT__LOG_LEVEL=WARN",
		"QDRANT__SERVICE__HOST=127.0.0.1",
		"QDRANT__SERVICE__HTTP_PORT=" + strconv.Itoa(s.http),
		"QDRANT__SERVICE__GRPC_PORT=" + strconv.Itoa(s.grpc),
		"QDRANT__STORAGE__STORAGE_PATH=" + filepath.Join(s.dir, "storage"),
		"QDRANT__STORAGE__SNAPSHOTS_PATH=" + filepath.Join(s.dir, "snapshots"),
	}
	if s.options.APIKey != "" {
		env = append(env, "QDRANT__SERVICE__API_KEY="+s.options.APIKey)
	}
	if s.options.Certificate != "" {
		env = append(env, "QDRANT__SERVICE__ENABLE_TLS=true", "QDRANT__TLS__CERT="+s.options.Certificate, "QDRANT__TLS__KEY="+s.options.Key)
	}
	return env
}

// awaitReady polls the server until it answers and its process still lives: on
// its port another process could be answering.
func (s *Server) awaitReady() error {
	scheme, client := "http", http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- asks only whether the server is up
	}}
	if s.options.Certificate != "" {
		scheme = "https"
	}
	url := fmt.Sprintf("%s://127.0.0.1:%d/readyz", scheme, s.http)
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready(ctx, &client, url) && s.lives() && dials(ctx, s.Address()) {
			return nil
		}
		if _, err := s.pid(); err == nil && !s.lives() {
			return fmt.Errorf("the server ended at its start: %s", s.logTail())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer at %s after %s: %s", url, readyLimit, s.logTail())
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

func dials(ctx context.Context, address string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	return err == nil && c.Close() == nil
}

// pid is the server's process id, which the watchdog wrote.
func (s *Server) pid() (int, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

func (s *Server) lives() bool {
	pid, err := s.pid()
	if err != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		// Without /proc there is nothing to see.
		_, noProc := os.Stat("/proc/self/stat")
		return noProc != nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func (s *Server) logTail() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// stop ends the server and waits for it. The word says what happens to the data.
func (s *Server) stop(word string) error {
	if s.process == nil {
		if word == "" {
			return os.RemoveAll(s.dir)
		}
		return nil
	}
	_, err := s.lifeline.WriteString(word)
	err = errors.Join(err, s.lifeline.Close(), s.process.Wait())
	s.process, s.lifeline = nil, nil
	return err
}
