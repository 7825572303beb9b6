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
	cmd      *exec.Cmd  // nil: not started
	lifeline *os.File
	killed   bool
	ended    bool
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
	pipes, err := openPipes()
	if err != nil {
		return fmt.Errorf("open pipes: %w", err)
	}
	defer func() { err = errors.Join(err, pipes.closeChildEnds()) }()

	cmd := &exec.Cmd{
		Args: []string{binary.path}, Env: p.env, Dir: "/",
		Stdin: pipes.stdin.child, Stdout: pipes.stdout.child, Stderr: pipes.stderr.child,
		SysProcAttr: processAttributes(),
	}
	binary.runBy(cmd)
	if err := p.launch(ctx, cmd, pipes.stdin.host); err != nil {
		return errors.Join(fmt.Errorf("execute %s: %w", binary.path, err), pipes.closeHostEnds())
	}
	p.readers.Go(func() { p.handshake.readFrom(pipes.stdout.host, p.says) })
	p.readers.Go(func() { p.says.readFrom(pipes.stderr.host, "stderr") })
	go p.reap(pipes)
	return nil
}

// launch forks on the starter's thread unless the process was killed before.
func (p *process) launch(ctx context.Context, cmd *exec.Cmd, lifeline *os.File) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return errors.New("stopped before it started")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.guard.start(cmd, p.socketDir); err != nil {
		p.guard.close()
		return err
	}
	p.cmd, p.lifeline = cmd, lifeline
	return nil
}

// reap waits for the end of the process, ends its group, and closes the pipes.
func (p *process) reap(pipes *pipes) {
	err := waitFor(p.cmd, p.end)
	if excess := p.guard.ended(p.cmd.Process.Pid); excess != nil {
		err = excess
	}
	p.guard.close() // ends processes that left the process group, where there is a cgroup
	deadline := time.Now().Add(lingering)
	_ = pipes.stdout.host.SetReadDeadline(deadline)
	_ = pipes.stderr.host.SetReadDeadline(deadline)
	p.readers.Wait()
	p.closeLifeline()
	_ = pipes.stdout.host.Close()
	_ = pipes.stderr.host.Close()

	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	close(p.exited)
}

// end records that the process has ended and ends the rest of its group.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = killGroup(p.cmd.Process.Pid) // no such process: the group is empty
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
	p.killed = p.killed || !p.ended
	if p.cmd != nil && !p.ended { // after its end another process may have the number
		_ = killGroup(p.cmd.Process.Pid)
	}
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
	if p.killed && (!errors.As(p.err, &exit) || !exit.Exited()) {
		return nil
	}
	return p.err
}

// pid is 0 before the start.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
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
