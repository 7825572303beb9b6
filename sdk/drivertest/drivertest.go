// Package drivertest is the driver contract as checks with stable ids. Run
// checks a driver written in Go in a test, directly and over the wire; Verify checks
// any subject, also a program in any language. The
// kit does not know what a challenge type means, so a driver's own verdicts
// come in as samples.
package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// Outcome names what a call came to.
type Outcome string

// The outcomes. Valid and Invalid are those of Validate: without and with an
// error diagnostic. An Interpret that asks again is NotAnswer.
const (
	Any            Outcome = ""
	Valid          Outcome = "valid"
	Invalid        Outcome = "invalid"
	NeedInput      Outcome = "need_input"
	Accepted       Outcome = "accepted"
	Rejected       Outcome = "rejected"
	Declined       Outcome = "declined"
	Unavailable    Outcome = "unavailable"
	ClientRequest  Outcome = "client_request"
	AgentChallenge Outcome = "agent_challenge"
	ClientReview   Outcome = "client_review"
	Elsewhere      Outcome = "elsewhere"
	Answer         Outcome = "answer"
	NotAnswer      Outcome = "not_an_answer"
	Missing        Outcome = "missing"
	Dismissed      Outcome = "dismissed"
	Pending        Outcome = "pending"
	Unknown        Outcome = "unknown"
	NotDone        Outcome = "not_done"
)

// Sample is a request that the driver is meant to serve and what must come of it.
type Sample struct {
	Name string
	// Request is a driver.ValidateRequest, AdvanceRequest, RenderRequest or
	// InterpretRequest, by value and of the driver's role. {{fresh}} in its texts
	// becomes a name that nothing had before, such as that of a tag which can be
	// made only once; calls with one idempotency key have the same.
	Request any
	// Want is the outcome it must have; Any leaves it open.
	Want Outcome
}

// Subject is a driver under check: one to be called as it is, or a Program.
type Subject struct {
	Descriptor driver.Descriptor
	Challenge  driver.Challenge  // nil for a capability driver
	Capability driver.Capability // nil for a challenge driver
	Configurer driver.Configurer // nil when the driver has none
	Samples    []Sample
	// Config is the configuration under which the samples hold, or empty.
	Config json.RawMessage
	// Program starts processes of the driver. Without it the checks of processes are
	// skipped. With it only Samples and Config need to be set for Verify.
	Program Program

	derived      []Sample      // see derive
	soon         time.Duration // what "within a second" means
	found        *found        // by earlier checks; nil: nothing is remembered
	describer    describer     // nil: Descriptor is all there is
	process      Process       // the process that is called, of a Program
	startFailed  error         // why there is no process
	unconfigured error         // set when it needs a configuration that is not known
}

// describer is a driver that can be asked again what it is.
type describer interface {
	Describe(ctx context.Context) (driver.Descriptor, error)
}

// Run makes every check of the driver, directly and over gRPC. Configure the driver
// before, if it needs that to serve the samples: Run only ever configures it with dryRun.
func Run(t *testing.T, d driver.Driver, samples ...Sample) {
	t.Helper()
	run(t, d, SampleFile{Samples: samples})
}

// RunFile is Run with the samples of a file. If the file has a configuration,
// the driver is configured with it first, as the host would do it.
func RunFile(t *testing.T, d driver.Driver, path string) {
	t.Helper()
	file, err := LoadSamples(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Config) > 0 {
		if err := configure(t.Context(), d, file.Config); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	run(t, d, file)
}

func configure(ctx context.Context, d driver.Driver, config json.RawMessage) error {
	s := direct(d, SampleFile{Config: config})
	if s.Configurer == nil {
		return errors.New(`the file has a "config", but the driver takes no configuration: remove it, or implement driver.Configurer`)
	}
	return s.configure(ctx)
}

func run(t *testing.T, d driver.Driver, file SampleFile) {
	t.Helper()
	if err := driverrpc.CheckDriver(d); err != nil {
		t.Fatalf("descriptor/valid: %v", err)
	}
	for _, s := range file.Samples {
		if err := checkSample(d.Descriptor.Role, s); err != nil {
			t.Fatalf("sample %q: %v", s.Name, err)
		}
	}
	t.Run("direct", func(t *testing.T) { runChecks(t, direct(d, file), costly...) })
	client, stop, err := driverrpc.Loopback(d)
	if err != nil {
		t.Fatalf("serve the driver: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop the driver: %v", err)
		}
	})
	t.Run("grpc", func(t *testing.T) {
		if withRaceDetector {
			runOver(t, d, client, file, costly...) // a minute of decoding, in which it finds nothing
		} else {
			runOver(t, d, client, file)
		}
	})
}

// costly are the checks that Run makes only over gRPC: they take longest, and
// what they look for shows there too. With the race detector they are left out.
var costly = []string{"call/huge-input", "call/size-limits"}

func runOver(t *testing.T, d driver.Driver, client *driverrpc.Client, file SampleFile, except ...string) {
	t.Helper()
	s, err := remote(t.Context(), client, file)
	if err != nil {
		t.Fatalf("descriptor/valid: %v", err)
	}
	runChecks(t, s, except...)
	t.Run("call/same-over-grpc", func(t *testing.T) {
		if err := sameResults(t.Context(), direct(d, file), s); err != nil {
			t.Error(err)
		}
	})
}

func runChecks(t *testing.T, s Subject, except ...string) {
	t.Helper()
	s = s.derive()
	s.soon = time.Minute // a test does not fail because the machine is slow
	for _, c := range Checks() {
		if slices.Contains(except, c.ID) {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			err := c.Run(t.Context(), s)
			switch skipped, ok := onlySkip(err); {
			case err == nil:
			case ok:
				t.Skip(skipped)
			case c.Level == Should:
				t.Logf("warning: %s\n%v", c.Why, err)
			default:
				t.Errorf("%s\n%v", c.Why, err)
			}
		})
	}
}

func direct(d driver.Driver, file SampleFile) Subject {
	s := Subject{
		Descriptor: d.Descriptor, Challenge: d.Challenge, Capability: d.Capability, Samples: file.Samples, Config: file.Config,
	}
	if d.Challenge != nil {
		s.Configurer, _ = d.Challenge.(driver.Configurer)
	}
	if d.Capability != nil {
		s.Configurer, _ = d.Capability.(driver.Configurer)
	}
	return s
}

func remote(ctx context.Context, client *driverrpc.Client, file SampleFile) (Subject, error) {
	desc, err := client.Describe(ctx)
	if err != nil {
		return Subject{}, fmt.Errorf("describe: %w", err)
	}
	return Subject{Samples: file.Samples, Config: file.Config}.over(client, desc), nil
}

func checkSample(role driver.Role, s Sample) error {
	want := driver.RoleCapability
	switch s.Request.(type) {
	case driver.ValidateRequest, driver.AdvanceRequest:
		want = driver.RoleChallenge
	case driver.RenderRequest, driver.InterpretRequest:
	default:
		return fmt.Errorf("the request is a %T, not a request by value", s.Request)
	}
	if role != want {
		return fmt.Errorf("%s is for %s drivers, this is a %s driver", methodOf(s.Request), want, role)
	}
	return nil
}

var errPanic = errors.New("the driver panicked")

// call serves one request of any of the four kinds.
func (s Subject) call(ctx context.Context, request any) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	switch req := request.(type) {
	case driver.ValidateRequest:
		return s.Challenge.Validate(ctx, req)
	case driver.AdvanceRequest:
		return s.Challenge.Advance(ctx, req)
	case driver.RenderRequest:
		return s.Capability.Render(ctx, req)
	case driver.InterpretRequest:
		return s.Capability.Interpret(ctx, req)
	}
	return nil, fmt.Errorf("no call takes a %T", request)
}

// outcomes lists the outcomes that a result has; a sound one has exactly one.
func outcomes(result any) []Outcome {
	set := map[Outcome]bool{}
	switch r := result.(type) {
	case driver.ValidateResult:
		invalid := slices.ContainsFunc(r.Diagnostics, func(d driver.Diagnostic) bool {
			return d.Severity == driver.SeverityError
		})
		set[Invalid], set[Valid] = invalid, !invalid
	case driver.AdvanceResult:
		set[NeedInput], set[Accepted], set[Rejected] = len(r.NeedInput) > 0, r.Accepted != nil, r.Rejected != nil
		set[Declined], set[Unavailable] = r.Declined != nil, r.Unavailable != nil
		set[Pending], set[Unknown], set[NotDone] = r.Pending != nil, r.Unknown != nil, r.NotDone != nil
	case driver.RenderResult:
		set[ClientRequest], set[AgentChallenge] = r.ClientRequest != nil, r.AgentChallenge != nil
		set[Answer], set[Unavailable], set[ClientReview] = r.Answer != nil, r.Unavailable != nil, r.ClientReview != nil
		set[NotAnswer] = r.Invalid != nil
		set[Elsewhere] = r.Elsewhere != nil
		set[Pending], set[Unknown], set[NotDone] = r.Pending != nil, r.Unknown != nil, r.NotDone != nil
	case driver.InterpretResult:
		set[Answer], set[Declined], set[NotAnswer] = r.Answer != nil, r.Declined != nil, r.Invalid != nil
		set[Unavailable], set[Missing], set[Dismissed] = r.Unavailable != nil, r.Missing != nil, r.Dismissed != nil
	}
	var out []Outcome
	for o, has := range set {
		if has {
			out = append(out, o)
		}
	}
	slices.Sort(out)
	return out
}
