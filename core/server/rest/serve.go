package rest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
)

// Listen says where and how to listen. Address is required.
type Listen struct {
	// Address is host:port; port 0 is any free one.
	Address string
	// CertFile and KeyFile, both or none, make it TLS (1.2 and newer). They are
	// read again when they have changed.
	CertFile, KeyFile string
	// Connections is how many may be open at a time. The default is 16384. Others wait.
	Connections int
	// Busy is how long an address that is in use is tried again: the process of
	// a server that was killed may still be ending. Zero: 2 s.
	Busy time.Duration
	// Shutdown is how long calls in flight may continue after the end. The default is 10 s.
	Shutdown time.Duration
	// Started, if set, is called with the address once it is listened on.
	Started func(net.Addr)
	// Draining, if set, is called when the end has come, before calls in flight
	// are waited for.
	Draining func()
}

// Limits of a client, unless the handler sets others.
const (
	headerTime  = 10 * time.Second
	bodyTime    = 30 * time.Second
	replyTime   = time.Minute
	idleTime    = 2 * time.Minute
	headerBytes = 64 << 10
)

// cutTime is how long handlers may take to notice that their call was cut off.
const cutTime = time.Second

// Serve listens until ctx ends. Then it takes no more connections, lets calls in
// flight end, cuts off those that do not in time, and returns when all handlers
// have, or with an error if some take longer than a second for it. Requests do not
// inherit ctx: its end is not theirs.
func Serve(ctx context.Context, l Listen, h http.Handler, log *slog.Logger) error {
	listener, err := l.open(ctx, log)
	if err != nil {
		return err
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var handlers sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			patient(w, r)
			h.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	if l.Started != nil {
		l.Started(listener.Addr())
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve http at %s: %w", l.Address, err)
	case <-ctx.Done():
	}
	err = l.stop(base, srv, log)
	cut()
	err = errors.Join(err, endsIn(cutTime, handlers.Wait))
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// endsIn waits for the handlers, for a time: one that computes and never looks at its
// context must not keep the server from ending.
func endsIn(limit time.Duration, wait func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(limit):
		return errors.New("calls that were cut off did not end")
	}
}

// patient bounds how long the client may take to send its body and to read a
// reply. Handlers that know better set deadlines of their own.
func patient(w http.ResponseWriter, r *http.Request) {
	control, now := http.NewResponseController(w), time.Now()
	if r.ContentLength != 0 { // else the read that notices a hang-up would end the call
		_ = control.SetReadDeadline(now.Add(bodyTime))
	}
	_ = control.SetWriteDeadline(now.Add(replyTime))
}

// stop ends the server, gently at first.
func (l Listen) stop(ctx context.Context, srv *http.Server, log *slog.Logger) error {
	patience := cmp.Or(l.Shutdown, 10*time.Second)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.Draining != nil {
		l.Draining()
	}
	if err := srv.Shutdown(ctx); err != nil {
		log.Warn("calls in flight are cut off", "after", patience, "error", err)
		return srv.Close()
	}
	return nil
}

// open listens.
func (l Listen) open(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	inner, err := l.bind(ctx, log)
	if err != nil {
		return nil, l.explain(err)
	}
	listener := netutil.LimitListener(inner, cmp.Or(l.Connections, 16384))
	if l.CertFile == "" && l.KeyFile == "" {
		return listener, nil
	}
	c := &certificate{cert: l.CertFile, key: l.KeyFile, log: log}
	if _, err := c.get(nil); err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: c.get, NextProtos: []string{"http/1.1"},
	}), nil
}

// bindAgain is the pause between two attempts to listen.
const bindAgain = 50 * time.Millisecond

// bind listens, and while the address is in use tries again for l.Busy.
func (l Listen) bind(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	var config net.ListenConfig
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.Busy, 2*time.Second))
	defer cancel()
	for told := false; ; told = true {
		inner, err := config.Listen(ctx, "tcp", l.Address)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return inner, err
		}
		if !told {
			log.Info("address is in use, trying again", "address", l.Address)
		}
		select {
		case <-time.After(bindAgain):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// explain says what to do about an address that cannot be listened on.
func (l Listen) explain(err error) error {
	host, port, split := net.SplitHostPort(l.Address)
	switch {
	case split != nil:
		return fmt.Errorf("listen at %q: must be host:port, such as 127.0.0.1:3300: %w", l.Address, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %s of %s is taken by another program, perhaps another KAIROS: stop it, or choose another port: %w", port, host, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %s may not be listened on by this user: choose one above 1023: %w", port, err)
	}
	return fmt.Errorf("listen at %s: %w", l.Address, err)
}

// lookEvery is how often the files of a certificate are looked at.
const lookEvery = time.Second

// certificate is read from its files again when they have changed. If it
// cannot be read, the previous one stays in use.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex // guards the fields below
	loaded *tls.Certificate
	state  string // of the files, when they were read last
	looked time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded != nil && time.Since(c.looked) < lookEvery {
		return c.loaded, nil
	}
	c.looked = time.Now()
	state := stateOf(c.cert) + stateOf(c.key)
	if c.loaded != nil && state == c.state {
		return c.loaded, nil
	}
	c.state = state
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	switch {
	case err == nil:
		c.loaded = &pair
	case c.loaded == nil:
		return nil, fmt.Errorf("read the certificate %s and its key %s: %w", c.cert, c.key, err)
	default:
		c.log.Error("the new certificate cannot be used, the old one stays in use", "cert", c.cert, "key", c.key, "error", err)
	}
	return c.loaded, nil
}

func stateOf(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
}
