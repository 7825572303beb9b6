package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// Program is a driver as a program that can be started afresh, whatever it is
// written in and whatever its transport.
type Program interface {
	// Run runs the program by hand, with nothing but a PATH in its environment
	// and an empty stdin, until it ends. A program that fails is not an error.
	Run(ctx context.Context, args ...string) (Output, error)
	// Start starts a fresh process as the host does, with the environment that
	// its operator gives it, and does not configure it.
	Start(ctx context.Context) (Process, error)
	// StartBare is Start without the environment that the operator gives.
	StartBare(ctx context.Context) (Process, error)
}

// Printer is a Program of transport exec that can show all that a call prints,
// so that noise on stdout is told from a broken reply. It is optional.
type Printer interface {
	// Print runs one call as the host does. A call that fails is not an error.
	Print(ctx context.Context, method string, request []byte) (Output, error)
}

// Output is what a program that ran by hand left.
type Output struct {
	Stdout, Stderr []byte
	ExitStatus     int
	Took           time.Duration
}

// Process is one started driver. With the exec transport it is the
// processes of all its calls.
type Process interface {
	Calls() driverrpc.Calls
	// PID is the process number; 0: it has no lasting process.
	PID() int
	// Took is the time from the start to the first answer.
	Took() time.Duration
	// Noise lists the lines on stdout that are not the wire's.
	Noise() []string
	// CutLifeline does what the death of the host does.
	CutLifeline()
	// Exited is closed when the process has ended; nil without a lasting process.
	Exited() <-chan struct{}
	// Close stops the process; it may be called twice.
	Close() error
}

// methodOf is the name of the method that takes the request.
func methodOf(request any) string {
	switch request.(type) {
	case driver.ValidateRequest:
		return driverrpc.MethodValidate
	case driver.AdvanceRequest:
		return driverrpc.MethodAdvance
	case driver.RenderRequest:
		return driverrpc.MethodRender
	}
	return driverrpc.MethodInterpret
}

const describeFlag = driverrpc.DescribeFlag

// describeLimit is how long a program may take to print what it is.
const describeLimit = 10 * time.Second

// describeByHand is what the program prints with --describe.
func describeByHand(ctx context.Context, p Program) (driver.Descriptor, error) {
	var d driver.Descriptor
	ctx, cancel := context.WithTimeout(ctx, describeLimit)
	defer cancel()
	out, err := p.Run(ctx, describeFlag)
	if err != nil {
		return d, fmt.Errorf("run with %s: %w", describeFlag, err)
	}
	if out.ExitStatus != 0 {
		return d, fmt.Errorf("%s ended with status %d: %s", describeFlag, out.ExitStatus, cut(string(out.Stderr)))
	}
	if err := json.Unmarshal(out.Stdout, &d); err != nil {
		return d, fmt.Errorf("%s printed %q, which is not a descriptor: %w", describeFlag, cut(string(out.Stdout)), err)
	}
	return d, nil
}

// withProcess returns the subject with the process to be called.
func (s Subject) withProcess(ctx context.Context, p Process) (Subject, error) {
	desc, err := p.Calls().Describe(ctx)
	if err != nil {
		return s, fmt.Errorf("describe: %w", err)
	}
	s.process = p
	return s.over(p.Calls(), desc), nil
}

// over returns the subject with the driver behind calls to be called.
func (s Subject) over(calls driverrpc.Calls, desc driver.Descriptor) Subject {
	s.Descriptor, s.describer, s.Configurer = desc, calls, calls
	s.Challenge, s.Capability = nil, nil
	switch desc.Role {
	case driver.RoleChallenge:
		s.Challenge = calls.Challenge()
	case driver.RoleCapability:
		s.Capability = calls.Capability()
	}
	return s.keyed()
}

// fresh starts another process and configures it; the caller closes it.
func (s Subject) fresh(ctx context.Context) (Subject, error) {
	if err := started(s); err != nil {
		return s, err
	}
	p, err := s.Program.Start(ctx)
	if err != nil {
		return s, err
	}
	other, err := s.withProcess(ctx, p)
	if err == nil {
		err = other.configure(ctx)
	}
	if err != nil && !errors.Is(err, errNoConfig) {
		return s, errors.Join(err, p.Close())
	}
	return other, err
}

// configure gives a fresh process the configuration of the samples, as the host
// would. A driver of transport exec gets it with each call.
func (s Subject) configure(ctx context.Context) error {
	if s.Descriptor.Transport == driver.TransportExec {
		return nil
	}
	found, err := s.Configurer.Configure(ctx, s.Config, false)
	if err != nil {
		return fmt.Errorf("configure it: %w", err)
	}
	if !refused(found, nil) {
		return nil
	}
	if len(s.Config) == 0 {
		return fmt.Errorf("%w: %s", errNoConfig, printed(found))
	}
	return fmt.Errorf("it refuses the configuration of the samples: %s", printed(found))
}

// lives reports whether the driver still serves.
func (s Subject) lives(ctx context.Context) error {
	if s.process == nil || s.Descriptor.Transport == driver.TransportExec {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveAgain)
	defer cancel()
	if _, err := s.describer.Describe(ctx); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

var errGone = errors.New("the driver does not serve any more")

// serveAgain is how long a driver may take to its next answer after a call
// that was meant to hurt.
const serveAgain = 5 * time.Second
