package driverhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// lingering is how long the output of a process is read after its end, if an escaped
// child process keeps the pipes open.
const lingering = 100 * time.Millisecond

// process runs one driver process for go-plugin, whose own runner gives the
// host's stdin to the driver, parses its stderr unsafely and waits without bound.
type process struct {
	log   *slog.Logger
	name  string
	guard *guard

	// Set before Start: the function that waits for the verified binary, and the
	// command that go-plugin has prepared.
	verify    func() (*binary, error)
	env       []string
	socketDir string

	handshake *handshake
	says      *outputLog
	exited    chan struct{} // closed when the process has ended and is reaped
	readers   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	child    *child     // nil: not started
	lifeline *os.File
	killed   bool
	err      error // how it ended; read after exited
}

var _ runner.Runner = (*process)(nil)

func newProcess(log *slog.Logger, name string, g *guard, says *outputLog) *process {
	return &process{
		log: log, name: name, guard: g,
		handshake: newHandshake(), says: says, exited: make(chan struct{}),
	}
}

// Start verifies the binary and starts it.
func (p *process) Start(ctx context.Context) (err error) {
	binary, err := p.verify()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, binary.close()) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return fmt.Errorf("execute %s: stopped before it started", binary.path)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("execute %s: %w", binary.path, err)
	}
	child, err := startChild(binary, p.guard, nil, p.env, p.socketDir)
	if err != nil {
		p.guard.close()
		return err
	}
	p.child, p.lifeline = child, child.pipes.stdin.host
	p.readers.Go(func() { p.handshake.readFrom(child.pipes.stdout.host, p.says) })
	p.readers.Go(func() { p.says.readFrom(child.pipes.stderr.host, "stderr") })
	go p.reap(child)
	return nil
}

// reap waits for the end of the process, ends its group, and closes the pipes.
func (p *process) reap(child *child) {
	err := child.wait()
	p.guard.close() // ends processes that left the process group, where there is a cgroup
	stdout, stderr := child.pipes.stdout.host, child.pipes.stderr.host
	deadline := time.Now().Add(lingering)
	_ = stdout.SetReadDeadline(deadline)
	_ = stderr.SetReadDeadline(deadline)
	p.readers.Wait()
	p.closeLifeline()
	_ = stdout.Close()
	_ = stderr.Close()

	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	close(p.exited)
}

// stop asks the process to end by closing its lifeline, and ends its whole
// group when it has not done so within grace.
func (p *process) stop(grace time.Duration) {
	if p.pid() == 0 {
		p.kill()
		return
	}
	p.closeLifeline()
	if grace <= 0 {
		p.kill()
		<-p.exited
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return
	case <-timer.C:
		p.log.Warn("driver did not stop in time and is killed", "driver", p.name, "grace", grace)
	}
	p.kill()
	<-p.exited
}

// kill ends the process group at once, or keeps the process from starting.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = p.child == nil || p.child.kill() || p.killed
}

func (p *process) closeLifeline() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lifeline != nil {
		_ = p.lifeline.Close()
		p.lifeline = nil
	}
}

// ownEnd returns how the process ended if it ended by itself with an error. A process
// that was killed late still ended by itself if it has an exit status.
func (p *process) ownEnd() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var exit *exec.ExitError
	if p.killed && (!errors.As(p.err, &exit) || killed(exit)) {
		return nil
	}
	return p.err
}

// killed reports whether the signal that this host sends ended a process.
func killed(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// pid is 0 before the start.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return 0
	}
	return p.child.cmd.Process.Pid
}

// Wait implements runner.Runner.
func (p *process) Wait(ctx context.Context) error {
	select {
	case <-p.exited:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill implements runner.Runner.
func (p *process) Kill(context.Context) error {
	p.kill()
	return nil
}

// Stdout gives go-plugin the handshake line and nothing else.
func (p *process) Stdout() io.ReadCloser { return io.NopCloser(p.handshake) }

// Stderr is empty: go-plugin panics on lines that it does not expect, so the
// host reads the driver's stderr itself.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (p *process) Name() string { return p.name }

// ID is the process number, or empty before the start.
func (p *process) ID() string {
	if pid := p.pid(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

// Diagnose has nothing to add: a failed start quotes the driver's stderr.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// child is a running process, the first of its group.
type child struct {
	cmd   *exec.Cmd
	pipes *pipes
	guard *guard

	mu    sync.Mutex // guards the field below
	ended bool
}

// startChild executes a binary, which may change the folders of its own.
func startChild(b *binary, g *guard, args, env []string, own ...string) (*child, error) {
	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("open pipes: %w", err)
	}
	cmd := &exec.Cmd{
		Args: append([]string{b.path}, args...), Env: env, Dir: "/",
		Stdin: pipes.stdin.child, Stdout: pipes.stdout.child, Stderr: pipes.stderr.child,
		SysProcAttr: processAttributes(),
	}
	b.runBy(cmd)
	err = g.start(cmd, own...)
	_ = pipes.closeChildEnds()
	if err != nil {
		_ = pipes.closeHostEnds()
		return nil, fmt.Errorf("execute %s: %w", b.path, startHint(err))
	}
	return &child{cmd: cmd, pipes: pipes, guard: g}, nil
}

// kill ends the process group. It returns false if the process has ended already.
func (c *child) kill() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended { // another process may have the number
		return false
	}
	_ = killGroup(c.cmd.Process.Pid)
	return true
}

// wait reaps the process and ends what it has left behind. It returns how the process
// ended, or that it used too much memory.
func (c *child) wait() error {
	err := waitFor(c.cmd, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = true
		_ = killGroup(c.cmd.Process.Pid) // no such process: the group is empty
	})
	if excess := c.guard.ended(c.cmd.Process.Pid); excess != nil && err != nil {
		return excess
	}
	return err
}

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// pipes are the three pipes between host and driver.
type pipes struct{ stdin, stdout, stderr pipe }

type pipe struct{ host, child *os.File }

func openPipes() (*pipes, error) {
	p := &pipes{}
	var errs [3]error
	p.stdin.child, p.stdin.host, errs[0] = os.Pipe()
	p.stdout.host, p.stdout.child, errs[1] = os.Pipe()
	p.stderr.host, p.stderr.child, errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		_, _ = p.closeChildEnds(), p.closeHostEnds()
		return nil, err
	}
	return p, nil
}

func (p *pipes) closeChildEnds() error {
	return closeAll(p.stdin.child, p.stdout.child, p.stderr.child)
}

func (p *pipes) closeHostEnds() error { return closeAll(p.stdin.host, p.stdout.host, p.stderr.host) }

func closeAll(files ...*os.File) error {
	var errs []error
	for _, f := range files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
