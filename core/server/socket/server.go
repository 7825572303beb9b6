package socket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// closeGrace is how long Close lets requests finish.
const closeGrace = 2 * time.Second

// Server serves a handler on the socket of one server process, to processes of its user.
type Server struct {
	socket string
	log    *slog.Logger
	http   *http.Server
	ctx    context.Context // of the requests; ends when Close begins
	cancel context.CancelFunc

	newTokens func() ([]string, error)
	look      time.Duration // lookEvery
	dropFiles sync.Once

	mu      sync.Mutex // guards the fields below
	closed  bool
	opened  bool
	tokens  []string        // that authorize; the first one is in the file
	failed  error           // of the one attempt to listen
	serving *sync.WaitGroup // what serves and watches the socket; nil before
}

// lookEvery is how often a server looks whether its socket is still there: programs that
// tidy the temporary folder remove it, and commands would find no server any more.
const lookEvery = 5 * time.Second

// NewServer prepares a server; Listen makes its socket. tokens returns the tokens that
// Authorize accepts, at least one, of which the first is written into the file beside the
// socket; nil: a random one. Call Close when done.
func NewServer(socket string, h http.Handler, tokens func() ([]string, error), log *slog.Logger) *Server {
	if tokens == nil {
		tokens = func() ([]string, error) { return []string{rand.Text()}, nil }
	}
	s := &Server{socket: socket, log: log, newTokens: tokens, look: lookEvery}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler: h,
		// No ReadTimeout: it would cancel a request that is served for longer.
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// Prepare makes the folder of the socket. Drivers that start after it can be
// kept from the folder, whenever Listen is called.
func (s *Server) Prepare() error { return makePrivate(filepath.Dir(s.socket)) }

// Listen makes the socket and serves it in the background. Every call after
// the first does nothing and returns the same; after Close it fails.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the admin socket is closed")
	}
	if s.opened {
		return s.failed
	}
	s.opened = true
	tokens, err := s.newTokens()
	if err != nil {
		s.failed = fmt.Errorf("make the admin token: %w", err)
		return s.failed
	}
	l, err := listen(s.socket, tokens[0])
	if err != nil {
		s.failed = fmt.Errorf("open the admin socket: %w", err)
		return s.failed
	}
	s.tokens = tokens
	s.serving = new(sync.WaitGroup)
	s.serve(l)
	s.serving.Go(func() { s.keep(l) })
	s.log.Info("admin socket open", "socket", s.socket)
	return nil
}

// serve serves a socket in the background.
func (s *Server) serve(l *net.UnixListener) {
	s.serving.Go(func() {
		err := s.http.Serve(&ownListener{UnixListener: l, log: s.log})
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.log.Error("admin socket failed", "socket", s.socket, "error", err)
		}
	})
}

// keep puts the socket and its token back where somebody removed them, until the server
// is closed.
func (s *Server) keep(l *net.UnixListener) {
	look := time.NewTicker(s.look)
	defer look.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-look.C:
		}
		if _, err := os.Lstat(s.socket); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		again, err := listen(s.socket, s.tokens[0])
		if err != nil {
			s.log.Warn("the admin socket was removed and cannot be put back", "socket", s.socket, "error", err)
			continue
		}
		_ = l.Close() // nobody finds it any more
		l = again
		s.serve(l)
		s.log.Warn("the admin socket was removed and is there again", "socket", s.socket)
	}
}

// Close takes no more requests, waits for those in flight a bounded time and
// removes the socket. It may be called twice and before Listen.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	serving := s.serving
	s.mu.Unlock()
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close() // whoever still waits gets no reply
	}
	if serving != nil {
		serving.Wait()
		s.dropFiles.Do(func() {
			gone := os.Remove(s.socket)
			if errors.Is(gone, fs.ErrNotExist) { // somebody else has removed it
				gone = nil
			}
			err = errors.Join(err, gone, os.Remove(TokenFile(s.socket)))
		})
	}
	if err != nil {
		return fmt.Errorf("close the admin socket: %w", err)
	}
	return nil
}

// listen makes the socket and its token, both of mode 0600 in a private folder,
// and removes what servers that are dead have left in there.
func listen(socket, token string) (l *net.UnixListener, err error) {
	if !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("%s is not an absolute path", socket)
	}
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("the path %s is longer than the %d bytes a socket may have: set admin.socket to a shorter one", socket, maxSocketPath)
	}
	dir := filepath.Dir(socket)
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the folder %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := sweep(dir, socket); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(socket); err == nil {
		return nil, fmt.Errorf("%s exists already and is not the socket of a server that has ended: "+
			"another server listens there; end admin.socket in a slash to give each server its own socket in that folder", socket)
	}
	if err := writeToken(socket, token); err != nil {
		return nil, err
	}
	l, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by then the path may be that of another one
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(socket))
	}
	return l, nil
}

// sweep removes sockets that nobody listens on: the one that is wanted, and
// those of other processes. The folder is locked.
func sweep(dir, wanted string) error {
	sockets, err := socketsIn(dir)
	if err != nil {
		return err
	}
	for _, path := range append(sockets, wanted) {
		if path == wanted || ofProcess.MatchString(filepath.Base(path)) && !lives(path) {
			removeDead(path)
		}
	}
	return nil
}

// lives reports whether the process that a socket is named for exists. That may be another
// one by now: then the socket is left. To a server each connection is somebody to check,
// and it says so of one that may be a driver.
func lives(path string) bool {
	pid, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), socketSuffix))
	return err == nil && (syscall.Kill(pid, 0) == nil || errors.Is(syscall.Kill(pid, 0), syscall.EPERM))
}

// ofProcess is how SocketIn and DefaultSocket name a socket.
var ofProcess = regexp.MustCompile(`^[0-9]+\.sock$`)

// removeDead removes a socket that nobody listens on; at worst it is left.
func removeDead(path string) {
	conn, err := net.DialTimeout("unix", path, time.Second) //nolint:noctx // bounded by its own time
	switch {
	case err == nil:
		_ = conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
			_, _ = os.Remove(path), os.Remove(TokenFile(path))
		}
	}
}

// ownListener accepts only processes of the user who runs the server, and none
// that this server has started: those are drivers and what drivers start.
type ownListener struct {
	*net.UnixListener
	log *slog.Logger
}

// Accept implements net.Listener.
func (l *ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		refused := checkCaller(conn)
		if refused == nil {
			return conn, nil
		}
		l.log.Warn("admin connection refused", "error", refused)
		_ = conn.Close()
	}
}
