package drivertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kairos-mcp/kairos/sdk/challenge"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// registry makes names, each of which there can be only once.
type registry struct {
	mu    sync.Mutex // guards the fields below
	names map[string]bool
	keys  map[string]challenge.Verdict
}

func (r *registry) judge(ctx context.Context, d named, _ struct{}) challenge.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	req := challenge.RequestOf(ctx)
	known, found := r.keys[req.IdempotencyKey]
	switch {
	case found:
		return known
	case req.Recover:
		r.keys[req.IdempotencyKey] = challenge.NotDone("nothing was made")
	case r.names[d.Name]:
		return challenge.Reject("TAKEN", "There is one of that name.")
	default:
		r.names[d.Name] = true
		r.keys[req.IdempotencyKey] = challenge.Accept(made(d))
	}
	return r.keys[req.IdempotencyKey]
}

type named struct {
	Name string `json:"name" required:"true" min:"8" max:"40"`
}

type made named

func TestAnActThatIsUniqueByNatureIsTestedWithFreshNames(t *testing.T) {
	for name, want := range map[string]int{"{{fresh}}": 0, "always-this": 1} {
		r := &registry{names: map[string]bool{}, keys: map[string]challenge.Verdict{}}
		d := challenge.New("registry", "1.0.0", r.judge, challenge.Options[named]{Effect: driver.EffectChanges, Recovers: true, Output: made{}})
		file, err := drivertest.ParseSamples(fmt.Appendf(nil, `{"samples":[
			{"name":"stored","method":"Validate","request":{"challenge":{"registry":{"name":%q}}},"want":"valid"},
			{"name":"made","method":"Advance","want":"accepted","request":{"challenge":{"registry":{"name":%q}},
				"answers":[{"input_id":"evidence","value":{},"provenance":"agent-reported"}]}}]}`, name, name))
		if err != nil {
			t.Fatal(err)
		}
		report := verify(t, drivertest.Subject{Descriptor: d.Descriptor, Challenge: d.Challenge, Samples: file.Samples}, drivertest.Options{})
		if ids, text := broken(report); min(len(ids), 1) != want {
			t.Errorf("name %s breaks %v, want none only with {{fresh}}:\n%s", name, ids, text)
		}
		for _, result := range report.Results {
			if result.ID == "call/not-done" && (result.Status == drivertest.Passed) != (want == 0) {
				t.Errorf("name %s: call/not-done is %+v", name, result)
			}
		}
	}
}

// A driver that answers no call costs the time of one, in whatever it hangs.
func TestADriverThatHangsCostsTheTimeOfOneCall(t *testing.T) {
	for _, method := range []string{"Advance", "Validate", "Configure"} {
		synctest.Test(t, func(t *testing.T) { // the clock of the kit runs ahead
			s := direct(t, "counter", "")
			s.Challenge, s.Configurer = stuck{s.Challenge, method}, stuckConfigurer{s.Configurer, method}
			began := time.Now()
			report := verify(t, s, drivertest.Options{Only: []string{"config/*", "call/sound-result", "sample/*", "call/re*", "challenge/*"}})
			ids, text := broken(report)
			if took := time.Since(began); len(ids) != 1 || !strings.Contains(text, method+" gave no answer within 30s") || took > 40*time.Second {
				t.Errorf("%s hangs: %v after %v\n%s", method, ids, took, text)
			}
		})
	}
}

// stuck hangs in one method until its caller gives up.
type stuck struct {
	driver.Challenge
	method string
}

func (s stuck) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if s.method != "Advance" {
		return s.Challenge.Advance(ctx, req)
	}
	<-ctx.Done()
	return driver.AdvanceResult{}, ctx.Err()
}

func (s stuck) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	if s.method != "Validate" {
		return s.Challenge.Validate(ctx, req)
	}
	<-ctx.Done()
	return driver.ValidateResult{}, ctx.Err()
}

type stuckConfigurer struct {
	driver.Configurer
	method string
}

func (s stuckConfigurer) Configure(ctx context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	if s.method != "Configure" {
		return s.Configurer.Configure(ctx, config, dryRun)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}
