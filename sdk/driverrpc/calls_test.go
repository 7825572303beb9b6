package driverrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// actor is a challenge driver whose Validate does what the challenge says.
type actor struct {
	recorder
	began chan struct{} // gets a value when a call waits
	ended chan error    // gets the reason why it does not wait any more
	late  chan struct{} // closed: calls that ignore their context return
}

func newActor() *actor {
	return &actor{began: make(chan struct{}, 1000), ended: make(chan error, 1000), late: make(chan struct{})}
}

func (a *actor) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	do, argument, _ := strings.Cut(string(req.Challenge), " ")
	switch do {
	case "wait":
		a.began <- struct{}{}
		<-ctx.Done()
		a.ended <- ctx.Err()
		return driver.ValidateResult{}, ctx.Err()
	case "leak":
		a.began <- struct{}{}
		<-a.late
		return driver.ValidateResult{}, nil
	case "deadline":
		at, ok := ctx.Deadline()
		return driver.ValidateResult{Challenge: json.RawMessage(fmt.Sprint(ok, time.Until(at).Round(time.Minute)))}, nil
	case "fail":
		return driver.ValidateResult{}, errors.New(argument)
	case "panic":
		panic(argument)
	case "gone":
		return driver.ValidateResult{}, status.Error(codes.Unavailable, "not me")
	case "late":
		return driver.ValidateResult{}, context.DeadlineExceeded
	case "bytes":
		var n int
		if _, err := fmt.Sscan(argument, &n); err != nil {
			return driver.ValidateResult{}, err
		}
		return driver.ValidateResult{Challenge: make([]byte, n)}, nil
	case "not-utf8":
		return driver.ValidateResult{Diagnostics: []driver.Diagnostic{driver.Problem("", "\xff")}}, nil
	case "severity":
		return driver.ValidateResult{Diagnostics: []driver.Diagnostic{{}}}, nil
	}
	return driver.ValidateResult{Challenge: req.Challenge}, nil
}

func actorClient(t *testing.T) (*actor, *driverrpc.Client) {
	t.Helper()
	a := newActor()
	return a, loopback(t, driver.Driver{Descriptor: challengeDescriptor(), Challenge: a})
}

func validate(ctx context.Context, c *driverrpc.Client, do string) (string, error) {
	res, err := c.Challenge().Validate(ctx, driver.ValidateRequest{Challenge: json.RawMessage(do)})
	return string(res.Challenge), err
}

func TestCallsEndWithTheCodeOfTheirOutcome(t *testing.T) {
	_, c := actorClient(t)
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, tc := range map[string]struct {
		ctx   context.Context
		do    string
		want  codes.Code
		bytes int // of the reply
	}{
		"a result":                  {t.Context(), "anything", codes.OK, 8},
		"no document":               {t.Context(), "", codes.OK, 0},
		"the largest reply":         {t.Context(), fmt.Sprint("bytes ", 16<<20-5), codes.OK, 16<<20 - 5},
		"a reply that is too large": {t.Context(), fmt.Sprint("bytes ", 16<<20-4), codes.ResourceExhausted, 0},
		"a large request":           {t.Context(), strings.Repeat("a", 15<<20), codes.OK, 15 << 20},
		"a request just too large":  {t.Context(), strings.Repeat("a", 16<<20-4), codes.ResourceExhausted, 0},
		"an error":                  {t.Context(), "fail the disk is full", codes.Unknown, 0},
		"an error that is not text": {t.Context(), "fail a\xff\xfeb", codes.Unknown, 0},
		"a long error":              {t.Context(), "fail " + strings.Repeat("ü", 100_000), codes.Unknown, 0},
		"a dead process of its own": {t.Context(), "gone", codes.Unknown, 0},
		"somebody's deadline":       {t.Context(), "late", codes.Unknown, 0},
		"a panic":                   {t.Context(), "panic on purpose", codes.Internal, 0},
		"text that is not UTF-8":    {t.Context(), "not-utf8", codes.Internal, 0},
		"a reply that is not sound": {t.Context(), "severity", codes.Internal, 0},
		"an expired deadline":       {expired, "anything", codes.DeadlineExceeded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := validate(tc.ctx, c, tc.do)
			if status.Code(err) != tc.want || len(got) != tc.bytes {
				t.Errorf("%d bytes, code %v (%.80v), want %d bytes, %v", len(got), status.Code(err), err, tc.bytes, tc.want)
			}
			if _, err := validate(t.Context(), c, "anything"); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
	if _, err := c.Capability().Render(t.Context(), driver.RenderRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method of the other role: %v, want Unimplemented", err)
	}
}

func TestDeadlineAndCancellationReachTheDriver(t *testing.T) {
	a, c := actorClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for on, want := range map[context.Context]string{ctx: "true 1h0m0s", context.WithoutCancel(ctx): "false"} {
		if got, err := validate(on, c, "deadline"); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("the driver saw the deadline %q, %v, want %q", got, err, want)
		}
	}
	go func() {
		<-a.began
		cancel()
	}()
	if _, err := validate(ctx, c, "wait"); status.Code(err) != codes.Canceled {
		t.Errorf("error = %v, want Canceled", err)
	}
	if err := <-a.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the driver's context ended with %v, want Canceled", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := validate(soon, c, "wait"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error = %v, want DeadlineExceeded", err)
	}
	<-a.ended
}

func TestEachOfManyCallsGetsItsOwnReply(t *testing.T) {
	_, c := actorClient(t)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 50 {
				want := fmt.Sprintf("%d/%d", i, j)
				if j%10 == 0 { // a long one, and one that nobody waits for
					ctx, cancel := context.WithCancel(t.Context())
					go cancel()
					_, _ = validate(ctx, c, "bytes 300000")
				}
				if got, err := validate(t.Context(), c, want); got != want || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Calls that never return leave the workers of the server to others.
func TestLeakedCallsLeaveRoomForOthers(t *testing.T) {
	a, c := actorClient(t)
	const leaked = 300
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range leaked {
		wg.Go(func() {
			if _, err := validate(ctx, c, "leak"); status.Code(err) != codes.Canceled {
				t.Errorf("error = %v, want Canceled", err)
			}
		})
	}
	for range leaked {
		<-a.began
	}
	if got, err := validate(t.Context(), c, "anything"); got != "anything" || err != nil {
		t.Errorf("beside %d calls: %q, %v", leaked, got, err)
	}
	cancel()
	wg.Wait()
	if got, err := validate(t.Context(), c, "anything"); got != "anything" || err != nil {
		t.Errorf("after %d leaked calls: %q, %v", leaked, got, err)
	}
	close(a.late)
}
