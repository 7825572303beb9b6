package driverhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// generation is one process of a driver and its one connection, from the
// verified binary to the last byte of stderr. It never restarts: a driver that
// crashed or is swapped gets a new generation.
type generation struct {
	log     *slog.Logger
	dir     string
	entry   LockedEntry
	config  json.RawMessage
	process *process
	client  *plugin.Client
	rpc     *driverrpc.Client // set by start
	hashed  chan verification // closed once the one value is taken

	mu     sync.Mutex // guards the fields below
	state  state
	calls  int           // in flight
	served bool          // has answered a call
	idle   chan struct{} // closed when draining and no call is in flight

	stopOnce sync.Once
}

// newGeneration prepares a generation; start starts it.
func newGeneration(s *slot, number int, socketBase string) *generation {
	g := &generation{
		log: s.host.log.With("driver", s.entry.Name, "generation", number), dir: s.host.dir,
		entry: s.entry, config: s.config.Config, state: registered, idle: make(chan struct{}),
		hashed: make(chan verification, 1),
	}
	g.process = newProcess(g.log, s.entry.Name, s.host.starter, g.verify)
	g.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  driverrpc.Handshake(),
		Plugins:          driverrpc.Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, socketDir string) (runner.Runner, error) {
			g.process.env = append(s.environment(), spec.Env...)
			g.process.socketDir = socketDir
			return g.process, nil
		},
		StartTimeout:     s.host.start,
		Logger:           newPluginLog(g.log),
		SyncStdout:       g.process.says.writer("stdout"),
		SyncStderr:       g.process.says.writer("stderr"),
		AutoMTLS:         true,
		SkipHostEnv:      true,
		GRPCDialOptions:  driverrpc.DialOptions(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: socketBase},
	})
	return g
}

// verification is a verified binary, or why it is not.
type verification struct {
	binary *binary
	err    error
}

// verify waits for the verified binary. Called once, right before it is run.
func (g *generation) verify() (*binary, error) {
	v := <-g.hashed
	if v.err == nil {
		v.err = g.move(sumMatched)
	}
	return v.binary, v.err
}

// start brings the generation to ready, or stops it and says why it is not.
func (g *generation) start(ctx context.Context) error {
	go func() { // the binary is hashed while go-plugin makes its certificate
		b, err := verifyBinary(g.dir, g.entry)
		g.hashed <- verification{b, err}
		close(g.hashed)
	}()
	abort := context.AfterFunc(ctx, g.process.kill)
	err := g.bringUp(ctx)
	if !abort() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if v, unused := <-g.hashed; unused && v.binary != nil {
		err = errors.Join(err, v.binary.close())
	}
	if err == nil {
		return nil
	}
	_ = g.move(failed) // whatever the state: it stops
	g.stop(0)
	return g.explain(err)
}

// explain adds how the process ended and what it said last.
func (g *generation) explain(err error) error {
	if how := g.process.ownEnd(); how != nil {
		err = fmt.Errorf("%w; the process ended: %w", err, how)
	}
	if last := g.process.says.last(); last != "" {
		err = fmt.Errorf("%w; it said: %s", err, last)
	}
	return fmt.Errorf("start driver %s: %w", g.entry.Name, err)
}

func (g *generation) bringUp(ctx context.Context) error {
	if err := g.connect(); err != nil {
		return err
	}
	steps := []struct {
		do   func(context.Context) error
		then happening
	}{
		{g.describe, described}, {g.configure, configured}, {g.rpc.CheckHealth, probed},
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return err
		}
		if err := g.move(step.then); err != nil {
			return err
		}
	}
	return nil
}

// connect starts the process and dials it.
func (g *generation) connect() error {
	if _, err := g.client.Start(); err != nil {
		if g.process.handshake.missing() {
			return errors.New("it closed its stdout without a handshake")
		}
		return err
	}
	if err := g.move(forked); err != nil {
		return err
	}
	protocol, err := g.client.Client()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	raw, err := protocol.Dispense(driverrpc.PluginName)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	rpc, ok := raw.(*driverrpc.Client)
	if !ok {
		return fmt.Errorf("connect: the plugin is a %T", raw)
	}
	g.rpc = rpc
	return g.move(connected)
}

// describe holds the running driver against its descriptor in the lock.
func (g *generation) describe(ctx context.Context) error {
	d, err := g.rpc.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if !sameDescriptor(d, g.entry.Descriptor) {
		return fmt.Errorf("it describes itself otherwise than in the lock; run `kairos driver lock` if that is wanted")
	}
	// The one connection of this generation stands, so nobody needs the socket.
	removeSocket(g.log, g.process.socketDir)
	return nil
}

func sameDescriptor(a, b driver.Descriptor) bool {
	compact := func(d driver.Descriptor) map[string]any {
		var m map[string]any
		raw, err := json.Marshal(d)
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			return map[string]any{"unreadable": err.Error()}
		}
		return m
	}
	return reflect.DeepEqual(compact(a), compact(b))
}

func (g *generation) configure(ctx context.Context) error {
	found, err := g.rpc.Configure(ctx, g.config, false)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	var problems []string
	for _, d := range found {
		if d.Severity == driver.SeverityError {
			problems = append(problems, fmt.Sprintf("%s: %s", d.Pointer, d.Message))
			continue
		}
		g.log.Warn("driver warns about its configuration", "pointer", d.Pointer, "warning", d.Message)
	}
	if len(problems) > 0 {
		return fmt.Errorf("its configuration is refused: %s", strings.Join(problems, "; "))
	}
	return nil
}

// move applies one happening; what the table does not have is an error.
func (g *generation) move(h happening) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	to, err := g.state.step(h)
	if err != nil {
		return err
	}
	g.state = to
	return nil
}

// enter counts a call in; false when the generation takes no calls.
func (g *generation) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != ready || g.process.dead() {
		return false
	}
	g.calls++
	return true
}

// leave counts a call out.
func (g *generation) leave(answered bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	g.served = g.served || answered
	if g.state == draining && g.calls == 0 {
		close(g.idle)
	}
}

// retire takes no more calls and waits until those in flight are done or ctx is.
func (g *generation) retire(ctx context.Context) {
	g.mu.Lock()
	to, err := g.state.step(retired)
	if err != nil { // crashed or stopped: nothing to drain
		g.mu.Unlock()
		return
	}
	g.state = to
	if to != draining || g.calls == 0 {
		g.mu.Unlock()
		return
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
		g.log.Warn("driver is stopped under calls that do not end")
	case <-g.process.exited:
	}
}

// crash notes that the process is gone or unreachable. It reports whether this
// was news and whether the generation had served a call.
func (g *generation) crash() (news, served bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != ready {
		return false, g.served
	}
	to, err := g.state.step(died)
	if err != nil {
		return false, g.served
	}
	g.state = to
	return true, g.served
}

// probeTime is how long a driver that was late may take to say how it is.
const probeTime = time.Second

// errHung is why a process is replaced that still lives.
var errHung = errors.New("it does not answer")

// answers asks a driver that was late whether it still talks at all.
func (g *generation) answers(ctx context.Context) bool {
	// The caller may leave meanwhile, which says nothing about the driver.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	return g.rpc.CheckHealth(ctx) == nil || ctx.Err() == nil
}

// stop ends the process within grace and frees everything. It may be called twice.
func (g *generation) stop(grace time.Duration) {
	g.stopOnce.Do(func() {
		g.process.stop(grace)
		g.client.Kill() // the process is gone: this only waits for go-plugin's goroutines
		removeSocket(g.log, g.process.socketDir)
		g.mu.Lock()
		defer g.mu.Unlock()
		if to, err := g.state.step(ended); err == nil {
			g.state = to
		}
	})
}

var errStopped = errors.New("the driver host is closed")
