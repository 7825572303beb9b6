package driverhost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

const (
	maxReply    = 16 << 20 // bytes; as over gRPC
	execAtOnce  = 16       // processes of one driver; more calls wait
	shownOutput = 80       // bytes of an invalid reply in its error
)

// execOptions are what the calls of a driver on the exec transport need.
type execOptions struct {
	// verified opens the verified binary for one call, which closes it.
	verified func() (*binary, error)
	guard    *guard // close closes it
	env      []string
	config   json.RawMessage // empty: none
	says     *outputLog
	secret   *redactor
}

// execCalls calls a driver by running its binary once a call. It is safe for
// concurrent use.
type execCalls struct {
	execOptions
	places chan struct{} // one for each process
	closed context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards the field below
	running sync.WaitGroup
}

func newExecCalls(o execOptions) *execCalls {
	c := &execCalls{execOptions: o, places: make(chan struct{}, execAtOnce)}
	c.closed, c.cancel = context.WithCancel(context.Background())
	return c
}

// close takes no more calls, ends those under way with all their processes, and
// waits for that. It may be called twice.
func (c *execCalls) close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	c.guard.close()
	c.says.mu.Lock()
	defer c.says.mu.Unlock()
	c.says.reportDropped()
}

// enter counts a call in, unless the transport is closed.
func (c *execCalls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Err() != nil {
		return false
	}
	c.running.Add(1)
	return true
}

// run makes one call of a method. An error with the gRPC code Unavailable means that the
// process died or did not start.
func (c *execCalls) run(ctx context.Context, method string, request []byte) ([]byte, error) {
	return c.once(ctx, []string{driverrpc.CallFlag, method}, request)
}

// once runs the binary once, when there is a place for it.
func (c *execCalls) once(ctx context.Context, args []string, input []byte) ([]byte, error) {
	if !c.enter() {
		return nil, diedError{errStopped}
	}
	defer c.running.Done()
	reply, err := c.placed(ctx, args, input)
	if err != nil && c.closed.Err() != nil && ctx.Err() == nil {
		return nil, diedError{errStopped} // not a failure of the driver: another generation may serve the call
	}
	return reply, err
}

// placed waits for a place and runs the binary in it.
func (c *execCalls) placed(ctx context.Context, args []string, input []byte) (reply []byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for one of %d processes: %w", execAtOnce, context.Cause(ctx))
	}
	// Scripts can be written into while they are open, so each call verifies.
	b, err := c.verified()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	last := ""
	shot := oneShot{
		binary: b, guard: c.guard, args: args, env: c.environment(ctx), input: input, max: maxReply,
		say: func(line []byte, cut bool) {
			last = cmp.Or(cleanLine(line), last)
			c.says.say("stderr", line, cut)
		},
	}
	if reply, err = shot.run(ctx); err == nil {
		err = checkReply(reply)
	}
	if err != nil && last != "" { // errors.Is and status.Code still see what it is
		err = fmt.Errorf("%w; it said: %s", err, c.secret.hide(last))
	}
	return reply, err
}

// environment is that of one call; the guard adds the rest.
func (c *execCalls) environment(ctx context.Context) []string {
	env := append([]string{}, c.env...)
	if len(c.config) > 0 {
		env = append(env, driverrpc.ConfigEnv+"="+string(c.config))
	}
	if trace := driver.TraceOf(ctx); trace != "" {
		env = append(env, "TRACEPARENT="+trace)
	}
	return env
}

// checkReply makes sure that a reply is one JSON document.
func checkReply(reply []byte) error {
	if len(bytes.TrimSpace(reply)) == 0 {
		return errors.New("it ended without a reply on stdout")
	}
	if !json.Valid(reply) {
		return fmt.Errorf("its reply is not one JSON document: %.*q", shownOutput, cleanLine(reply))
	}
	return nil
}

// diedError is the end of a process without an answer.
type diedError struct{ error }

func (e diedError) Unwrap() error { return e.error }

// GRPCStatus makes a dead process look as on the gRPC transport.
func (e diedError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }

// oneShot is a process that takes one input and gives one output.
type oneShot struct {
	binary *binary
	guard  *guard
	args   []string
	env    []string
	input  []byte
	max    int                         // bytes of output
	say    func(line []byte, cut bool) // gets each line of stderr
}

// run runs the process to its end and returns what it printed, with an error
// too. When ctx ends it is killed. No process of its group and no pipe is left,
// whatever it does.
func (o oneShot) run(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	p, err := startChild(o.binary, o.guard, o.args, o.env)
	if err != nil {
		return nil, diedError{err}
	}
	abort := context.AfterFunc(ctx, func() { p.kill() })
	out := &output{max: o.max, full: func() { p.kill() }}
	var streams sync.WaitGroup
	streams.Go(func() { // a process need not read its input
		_, _ = p.pipes.stdin.host.Write(o.input)
		_ = p.pipes.stdin.host.Close()
	})
	streams.Go(func() { _, _ = io.Copy(out, &leftovers{file: p.pipes.stdout.host}) })
	streams.Go(func() {
		split := &lineSplitter{max: maxLine, emit: o.say}
		_, _ = io.Copy(split, &leftovers{file: p.pipes.stderr.host}) // ends when the process does
		split.flush()
	})
	ended := p.wait()
	// The group is dead. Escaped child processes may keep the pipes open.
	deadline := time.Now().Add(lingering)
	for _, f := range []pipe{p.pipes.stdin, p.pipes.stdout, p.pipes.stderr} {
		_ = f.host.SetDeadline(deadline)
	}
	streams.Wait()
	aborted := !abort()
	_ = p.pipes.closeHostEnds() // stdin is closed already
	var excess *excessError
	switch {
	case out.over:
		return nil, fmt.Errorf("it printed more than %d bytes", o.max)
	case ended == nil:
		return out.kept.Bytes(), nil
	case errors.As(ended, &excess):
		return nil, diedError{excess}
	case aborted:
		return out.kept.Bytes(), fmt.Errorf("it was still running and is killed: %w", context.Cause(ctx))
	default:
		return out.kept.Bytes(), howItEnded(ended)
	}
}

// startHint adds a hint to some errors of the kernel.
func startHint(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w (is the program in its #! line there?)", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w (a script needs a #! line; a program has to be for %s)", err, Platform())
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%w (its configuration is too big for the environment)", err)
	default:
		return err
	}
}

func howItEnded(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return fmt.Errorf("it failed: %w", err)
	}
	return diedError{fmt.Errorf("its process ended: %w", err)}
}

// maxLeftovers is more than a pipe holds.
const maxLeftovers = 1 << 20 // bytes

// leftovers reads a pipe to its end or, once its deadline has passed, as far as
// it is filled: on a busy machine nobody may have found the time before, and a
// file whose deadline has passed gives nothing more, whatever was written to it.
type leftovers struct {
	file *os.File
	read int // after the deadline
}

func (l *leftovers) Read(p []byte) (int, error) {
	if l.read == 0 {
		n, err := l.file.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	if l.read >= maxLeftovers || l.file.SetReadDeadline(time.Time{}) != nil {
		return 0, io.EOF
	}
	raw, err := l.file.SyscallConn()
	if err != nil {
		return 0, io.EOF
	}
	n := 0
	err = raw.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), p) // what would have to wait fails
		return true
	})
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	l.read += n
	return n, nil
}

// output keeps at most max bytes. When there are more it calls full once and
// swallows the rest.
type output struct {
	kept bytes.Buffer
	max  int
	full func()
	over bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.over {
		return len(p), nil
	}
	if o.kept.Len()+len(p) > o.max {
		o.over = true
		o.full()
		return len(p), nil
	}
	return o.kept.Write(p)
}
