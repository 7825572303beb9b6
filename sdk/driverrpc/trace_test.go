package driverrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// tracer is a challenge driver that notes the trace of its calls.
type tracer struct {
	recorder
	seen string
}

func (r *tracer) Validate(ctx context.Context, _ driver.ValidateRequest) (driver.ValidateResult, error) {
	r.seen = driver.TraceOf(ctx)
	return driver.ValidateResult{}, nil
}

func TestTheTraceOfACallCrossesTheWire(t *testing.T) {
	rec := &tracer{}
	client := loopback(t, driver.Driver{Descriptor: challengeDescriptor(), Challenge: rec})
	for name, tc := range map[string]struct {
		ctx  context.Context
		want string
	}{
		"sound":            {driver.WithTrace(t.Context(), traceparent), traceparent},
		"none":             {t.Context(), ""},
		"a stranger's one": {metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent), traceparent},
		"a broken one":     {metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-zz"), ""},
		"two":              {metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent, "traceparent", traceparent), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := client.Challenge().Validate(tc.ctx, driver.ValidateRequest{}); err != nil {
				t.Fatal(err)
			}
			if rec.seen != tc.want {
				t.Errorf("the driver saw trace %q, want %q", rec.seen, tc.want)
			}
		})
	}
}
