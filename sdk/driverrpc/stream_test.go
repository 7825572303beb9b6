package driverrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
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
	case "bytes":
		var n int
		if _, err := fmt.Sscan(argument, &n); err != nil {
			return driver.ValidateResult{}, err
		}
		return driver.ValidateResult{Challenge: pattern(n)}, nil
	case "not-utf8":
		return driver.ValidateResult{Diagnostics: []driver.Diagnostic{driver.Problem("", "\xff")}}, nil
	case "severity":
		return driver.ValidateResult{Diagnostics: []driver.Diagnostic{{}}}, nil
	}
	return driver.ValidateResult{Challenge: req.Challenge}, nil
}

// pattern is a document in which a part that is lost, doubled or in the wrong place shows.
func pattern(n int) json.RawMessage {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i>>16) ^ byte(i*7)
	}
	return out
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

func TestAStreamedCallComesToTheSameAsAUnaryOne(t *testing.T) {
	_, c := actorClient(t)
	if !c.Streams() || c.Unary().Streams() {
		t.Fatalf("Streams = %t, of Unary %t", c.Streams(), c.Unary().Streams())
	}
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		do   string
		want codes.Code
	}{
		"a result":                  {t.Context(), "anything", codes.OK},
		"no document":               {t.Context(), "", codes.OK},
		"a part":                    {t.Context(), "bytes 65000", codes.OK},
		"a part and a little":       {t.Context(), "bytes 65600", codes.OK},
		"two parts":                 {t.Context(), "bytes 131069", codes.OK},
		"the largest reply":         {t.Context(), fmt.Sprint("bytes ", 16<<20-5), codes.OK},
		"a reply that is too large": {t.Context(), fmt.Sprint("bytes ", 16<<20-4), codes.ResourceExhausted},
		"a large request":           {t.Context(), strings.Repeat("a", 1<<20), codes.OK},
		"a request just too large":  {t.Context(), strings.Repeat("a", 16<<20-4), codes.ResourceExhausted},
		"an error":                  {t.Context(), "fail the disk is full", codes.Unknown},
		"an error that is not text": {t.Context(), "fail a\xff\xfeb", codes.Unknown},
		"a long error":              {t.Context(), "fail " + strings.Repeat("ü", 20_000), codes.Unknown},
		"a panic":                   {t.Context(), "panic on purpose", codes.Internal},
		"text that is not UTF-8":    {t.Context(), "not-utf8", codes.Internal},
		"a reply that is not sound": {t.Context(), "severity", codes.Internal},
		"an expired deadline":       {expired, "anything", codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			streamed, err := validate(tc.ctx, c, tc.do)
			if status.Code(err) != tc.want {
				t.Errorf("code = %v (%v), want %v", status.Code(err), err, tc.want)
			}
			unary, unaryErr := validate(tc.ctx, c.Unary(), tc.do)
			if fmt.Sprint(err) != fmt.Sprint(unaryErr) {
				t.Errorf("the error of the streamed call is %q, of the unary one %q", fmt.Sprint(err), fmt.Sprint(unaryErr))
			}
			if streamed != unary {
				t.Errorf("the streamed call gave %d bytes, the unary one %d others", len(streamed), len(unary))
			}
		})
	}
}

// A method of the other role is not served, and asking for it costs no other call.
func TestAMethodThatIsMissingIsUnimplementedBothWays(t *testing.T) {
	_, c := actorClient(t)
	_, err := c.Capability().Render(t.Context(), driver.RenderRequest{})
	_, unaryErr := c.Unary().Capability().Render(t.Context(), driver.RenderRequest{})
	if status.Code(err) != codes.Unimplemented || err.Error() != unaryErr.Error() {
		t.Errorf("streamed %v, unary %v", err, unaryErr)
	}
	if _, err := validate(t.Context(), c, "anything"); err != nil {
		t.Error(err)
	}
}

func TestALongErrorDoesNotBreakTheStream(t *testing.T) {
	_, c := actorClient(t)
	_, err := validate(t.Context(), c, "fail "+strings.Repeat("ü", 100_000))
	if status.Code(err) != codes.Unknown || !strings.HasPrefix(status.Convert(err).Message(), "üüü") {
		t.Errorf("error = %.40v", err)
	}
	if _, err := validate(t.Context(), c, "anything"); err != nil {
		t.Error(err)
	}
}

func TestDeadlineAndCancellationReachTheDriver(t *testing.T) {
	a, c := actorClient(t)
	for name, client := range map[string]*driverrpc.Client{"stream": c, "unary": c.Unary()} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for on, want := range map[context.Context]string{ctx: "true 1h0m0s", context.WithoutCancel(ctx): "false"} {
				if got, err := validate(on, client, "deadline"); err != nil || !strings.HasPrefix(got, want) {
					t.Errorf("the driver saw the deadline %q, %v, want %q", got, err, want)
				}
			}
			go func() {
				<-a.began
				cancel()
			}()
			if _, err := validate(ctx, client, "wait"); status.Code(err) != codes.Canceled {
				t.Errorf("error = %v, want Canceled", err)
			}
			if err := <-a.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the driver's context ended with %v, want Canceled", err)
			}
			soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := validate(soon, client, "wait"); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("error = %v, want DeadlineExceeded", err)
			}
			<-a.ended
			<-a.began
		})
	}
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

// Calls that never return fill the stream. The driver answers all others by unary calls.
func TestLeakedCallsLeaveRoomForOthers(t *testing.T) {
	a, c := actorClient(t)
	const leaked = 300 // more than a stream takes
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

func TestTheDriverRefusesWhatNoHostDoes(t *testing.T) {
	call := func(id uint64, do string) *driverpb.CallsRequest {
		request, err := driverrpc.MarshalProto(&driverpb.ValidateRequest{ChallengeJson: []byte(do)})
		if err != nil {
			t.Fatal(err)
		}
		return &driverpb.CallsRequest{Id: id, Method: "/kairos.driver.v1.ChallengeService/Validate", Request: request}
	}
	var many []*driverpb.CallsRequest
	for id := range uint64(257) {
		many = append(many, call(id+1, "wait"))
	}
	for name, tc := range map[string]struct {
		send   []*driverpb.CallsRequest
		ends   codes.Code // of the stream; OK: it does not end
		status codes.Code // of the first response, if it does not end
	}{
		"no id":               {[]*driverpb.CallsRequest{call(0, "a")}, codes.InvalidArgument, 0},
		"an id twice":         {[]*driverpb.CallsRequest{call(1, "wait"), call(1, "wait")}, codes.InvalidArgument, 0},
		"too many":            {many, codes.OK, codes.ResourceExhausted},
		"too large":           {[]*driverpb.CallsRequest{call(1, strings.Repeat("a", 64<<10))}, codes.OK, codes.ResourceExhausted},
		"no method":           {[]*driverpb.CallsRequest{{Id: 1}}, codes.OK, codes.Unimplemented},
		"the stream itself":   {[]*driverpb.CallsRequest{{Id: 1, Method: "/kairos.driver.v1.StreamService/Calls"}}, codes.OK, codes.Unimplemented},
		"no request":          {[]*driverpb.CallsRequest{{Id: 1, Method: call(1, "").Method, Request: []byte{0xff}}}, codes.OK, codes.Internal},
		"cancels what is not": {[]*driverpb.CallsRequest{{Id: 9, Cancel: true}, call(1, "fail on purpose")}, codes.OK, codes.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := actorClient(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := driverpb.NewStreamServiceClient(driverrpc.Conn(c.Unary())).Calls(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if greeting, err := stream.Recv(); err != nil || greeting.GetMaxCalls() != 256 {
				t.Fatalf("greeting %v, %v", greeting, err)
			}
			for _, r := range tc.send {
				if err := stream.Send(r); err != nil {
					t.Fatal(err)
				}
			}
			got, err := stream.Recv()
			if status.Code(err) != tc.ends {
				t.Fatalf("the stream has ended with %v, want %v", err, tc.ends)
			}
			if code := status.Code(driverrpc.FromStatus(got.GetStatus())); err == nil && code != tc.status {
				t.Errorf("the response has status %v, want %v", code, tc.status)
			}
		})
	}
}

func TestALongReplyLetsOthersPass(t *testing.T) {
	_, c := actorClient(t)
	stream, err := driverpb.NewStreamServiceClient(driverrpc.Conn(c.Unary())).Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(id uint64, do string) {
		request, err := driverrpc.MarshalProto(&driverpb.ValidateRequest{ChallengeJson: []byte(do)})
		if err != nil {
			t.Fatal(err)
		}
		r := &driverpb.CallsRequest{Id: id, Method: "/kairos.driver.v1.ChallengeService/Validate", Request: request}
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	// The window of the connection holds a third of the three replies, so the driver is
	// still sending them when the short call arrives.
	for id := range uint64(3) {
		ask(id+1, fmt.Sprint("bytes ", 15<<20))
	}
	var parts, longest int
	for last := 0; last < 4; {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if longest = max(longest, len(r.GetReply())); longest > 64<<10 {
			t.Fatalf("a part has %d bytes", longest)
		}
		switch {
		case r.GetId() == 4 && last > 0:
			t.Errorf("the short reply came after %d long ones", last)
		case r.GetMore():
			if parts++; parts == 1 {
				ask(4, "short")
			}
		}
		if !r.GetMore() && r.GetId() > 0 {
			last++
		}
		if r.GetId() == 4 && parts > 3*240/2 {
			t.Errorf("the short reply came after %d parts of 720", parts)
		}
	}
}

type stream = grpc.BidiStreamingServer[driverpb.CallsRequest, driverpb.CallsResponse]

// firstCall greets the host and returns the id of its first call.
func firstCall(s stream, limit uint32) (uint64, error) {
	if err := s.Send(&driverpb.CallsResponse{MaxCalls: limit}); err != nil {
		return 0, err
	}
	r, err := s.Recv()
	return r.GetId(), err
}

// scripted is a driver whose end of the stream the test writes. Unary calls are counted.
type scripted struct {
	driverpb.UnimplementedStreamServiceServer
	driverpb.UnimplementedChallengeServiceServer
	play  func(stream) error
	unary atomic.Int32
}

func (s *scripted) Calls(calls stream) error {
	return s.play(calls)
}

func (s *scripted) Validate(context.Context, *driverpb.ValidateRequest) (*driverpb.ValidateResponse, error) {
	s.unary.Add(1)
	return &driverpb.ValidateResponse{}, nil
}

func (s *scripted) client(t *testing.T) *driverrpc.Client {
	t.Helper()
	listener, server := bufconn.Listen(1<<20), grpc.NewServer()
	driverpb.RegisterStreamServiceServer(server, s)
	driverpb.RegisterChallengeServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:script", append(driverrpc.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	c := driverrpc.NewClient(conn)
	t.Cleanup(func() {
		c.Close()
		if err := errors.Join(conn.Close(), func() error { server.Stop(); return <-served }()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestWhatADriverDoesWrongOnTheStreamIsALostConnection(t *testing.T) {
	say := func(s stream, all ...*driverpb.CallsResponse) error {
		for _, r := range all {
			if err := s.Send(r); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return nil
	}
	for name, tc := range map[string]struct {
		play func(s stream, id uint64) error
		want string
	}{
		"it ends the stream":   {func(stream, uint64) error { return nil }, "the driver ended it"},
		"it fails":             {func(stream, uint64) error { return status.Error(codes.Internal, "sorry") }, "sorry"},
		"it replies to nobody": {func(s stream, id uint64) error { return say(s, &driverpb.CallsResponse{Id: id + 1}) }, "not in flight"},
		"it greets twice":      {func(s stream, _ uint64) error { return say(s, &driverpb.CallsResponse{MaxCalls: 1}) }, "not in flight"},
		"it does not split replies": {func(s stream, id uint64) error {
			return say(s, &driverpb.CallsResponse{Id: id, Reply: make([]byte, 1<<20)})
		}, "larger than max"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{play: func(s stream) error {
				id, err := firstCall(s, 10)
				if err != nil {
					return err
				}
				return tc.play(s, id)
			}}
			c := s.client(t)
			if err := c.Stream(t.Context()); err != nil || !c.Streams() {
				t.Fatalf("Stream: %v, streams %t", err, c.Streams())
			}
			for range 2 { // in flight, and afterwards
				_, err := validate(t.Context(), c, "anything")
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error = %v, want Unavailable with %q", err, tc.want)
				}
			}
			if n := s.unary.Load(); n != 0 {
				t.Errorf("%d unary calls", n)
			}
		})
	}
}

func TestAReplyThatDoesNotEndIsCutOff(t *testing.T) {
	cancelled := make(chan uint64, 1)
	s := &scripted{play: func(s stream) error {
		id, err := firstCall(s, 10)
		if err != nil {
			return err
		}
		flood := make(chan error, 1)
		go func() {
			part := &driverpb.CallsResponse{Id: id, Reply: bytes.Repeat([]byte("a"), 64<<10), More: true}
			for range 17 << 20 / len(part.Reply) {
				if err := s.Send(part); err != nil {
					flood <- err
					return
				}
			}
			flood <- nil
		}()
		c, err := s.Recv()
		if err != nil {
			return err
		}
		if c.GetCancel() {
			cancelled <- c.GetId()
		}
		if err := <-flood; err != nil {
			return err
		}
		if err := s.Send(&driverpb.CallsResponse{Id: id}); err != nil {
			return err
		}
		again, err := s.Recv()
		if err != nil {
			return err
		}
		if err := s.Send(&driverpb.CallsResponse{Id: again.GetId()}); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}
	c := s.client(t)
	if err := c.Stream(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := validate(t.Context(), c, "anything"); !driverrpc.IsTooLarge(err) {
		t.Errorf("error = %v, want too large", err)
	}
	if id := <-cancelled; id != 1 {
		t.Errorf("call %d was cancelled, want 1", id)
	}
	if _, err := validate(t.Context(), c, "anything"); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestCallsBeyondTheDriversLimitAreUnary(t *testing.T) {
	end := make(chan struct{})
	s := &scripted{play: func(s stream) error {
		id, err := firstCall(s, 1)
		if err != nil {
			return err
		}
		<-end
		if err := s.Send(&driverpb.CallsResponse{Id: id}); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}
	c := s.client(t)
	if err := c.Stream(t.Context()); err != nil {
		t.Fatal(err)
	}
	replies := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := validate(t.Context(), c, "anything")
			replies <- err
		}()
	}
	if err := <-replies; err != nil || s.unary.Load() != 1 {
		t.Errorf("the second call: %v, %d unary calls", err, s.unary.Load())
	}
	close(end)
	if err := <-replies; err != nil || s.unary.Load() != 1 {
		t.Errorf("the first call: %v, %d unary calls", err, s.unary.Load())
	}
}

func TestADriverThatDoesNotGreetIsNotWaitedForLongerThanAsked(t *testing.T) {
	s := &scripted{play: func(s stream) error {
		<-s.Context().Done()
		return nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.client(t).Stream(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Stream = %v, want DeadlineExceeded", err)
	}
}
