package driverrpc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// split reads frames: a byte with the length, and so many bytes of a message.
func split(raw []byte) [][]byte {
	var out [][]byte
	for len(raw) > 0 {
		n := min(int(raw[0]), len(raw)-1)
		out = append(out, raw[1:1+n])
		raw = raw[1+n:]
	}
	return out
}

func joined(f *testing.F, messages ...proto.Message) []byte {
	f.Helper()
	var out []byte
	for _, m := range messages {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		out = append(append(out, byte(len(raw))), raw...)
	}
	return out
}

// hostEnd is the host's end of a stream to a driver that sends any frames, as soon as it
// has received some calls, and then ends it.
type hostEnd struct {
	grpc.ClientStream
	ctx    context.Context
	calls  int
	frames [][]byte

	greeted bool
	mu      sync.Mutex // guards the field below
	sent    int
	all     chan struct{} // closed when all calls were sent
}

func (e *hostEnd) Context() context.Context { return e.ctx }

func (e *hostEnd) SendMsg(m any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r, ok := m.(*driverpb.CallsRequest); ok && !r.GetCancel() {
		if e.sent++; e.sent == e.calls {
			close(e.all)
		}
	}
	return nil
}

func (e *hostEnd) RecvMsg(m any) error {
	if !e.greeted {
		e.greeted = true
		proto.Merge(m.(proto.Message), &driverpb.CallsResponse{MaxCalls: 100})
		return nil
	}
	<-e.all
	if len(e.frames) == 0 {
		return io.EOF
	}
	frame := e.frames[0]
	e.frames = e.frames[1:]
	return proto.Unmarshal(frame, m.(proto.Message))
}

// wire is a connection whose streams have a given end.
type wire struct{ end *hostEnd }

func (w wire) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.New("no call of the test is unary")
}

func (w wire) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	w.end.ctx = ctx
	return w.end, nil
}

// FuzzStreamedReplies feeds any frames to a host with three calls in flight: each gets what
// the frames say, or the error of a lost connection.
func FuzzStreamedReplies(f *testing.F) {
	reply := func(id uint64, more bool, text string) *driverpb.CallsResponse {
		return &driverpb.CallsResponse{Id: id, Reply: []byte(text), More: more}
	}
	f.Add([]byte{})
	f.Add(joined(f, reply(2, false, ""), reply(1, true, "\x12\x02"), reply(3, false, "\xff"), reply(1, false, "{}")))
	f.Add(joined(f, reply(2, false, ""), reply(2, false, "")))
	f.Add(joined(f, reply(2, true, ""), &driverpb.CallsResponse{Id: 2, Status: []byte{8, 5}, More: true}, reply(2, false, "")))
	f.Add(joined(f, reply(0, false, "")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		const calls = 3
		end := &hostEnd{calls: calls, frames: split(raw), all: make(chan struct{})}
		want := expected(end.frames, calls)
		c := driverrpc.NewClient(wire{end})
		if err := c.Stream(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ids := make(chan uint64, calls)
		for id := range uint64(calls) {
			ids <- id + 1
		}
		var wg sync.WaitGroup
		got := make([]result, calls)
		for i := range got {
			wg.Go(func() {
				var reply driverpb.ValidateResponse
				err := driverrpc.Conn(c).Invoke(t.Context(), "/a/b", &driverpb.ValidateRequest{}, &reply)
				got[i] = result{status.Code(err), string(reply.GetChallengeJson())}
			})
		}
		wg.Wait()
		for _, g := range got { // which call has which id is open
			if want[g]--; want[g] < 0 {
				t.Errorf("a call got %+v, want one of %v", g, want)
			}
		}
	})
}

type result struct {
	code     codes.Code
	document string
}

// expected counts the results that the calls get from the frames.
func expected(frames [][]byte, calls int) map[result]int {
	type call struct {
		reply []byte
		ended bool
	}
	inFlight, out := map[uint64]*call{}, map[result]int{}
	for id := range uint64(calls) {
		inFlight[id+1] = &call{}
	}
	for _, frame := range frames {
		var r driverpb.CallsResponse
		if proto.Unmarshal(frame, &r) != nil || inFlight[r.GetId()] == nil {
			break
		}
		c := inFlight[r.GetId()]
		if !r.GetMore() {
			delete(inFlight, r.GetId())
		}
		c.reply = append(c.reply, r.GetReply()...)
		if c.ended || r.GetMore() && len(r.GetStatus()) == 0 {
			continue
		}
		c.ended = true
		var m driverpb.ValidateResponse
		var err error
		if len(r.GetStatus()) > 0 {
			err = driverrpc.FromStatus(r.GetStatus())
		} else if proto.Unmarshal(c.reply, &m) != nil {
			err = status.Error(codes.Internal, "")
		}
		if err != nil {
			out[result{code: status.Code(err)}]++
		} else {
			out[result{document: string(m.GetChallengeJson())}]++
		}
	}
	for _, c := range inFlight {
		if !c.ended {
			out[result{code: codes.Unavailable}]++
		}
	}
	return out
}

// driverEnd is the driver's end of a stream to a host that sends any frames, and ends it
// when all calls have been answered.
type driverEnd struct {
	grpc.ServerStream
	ctx    context.Context
	frames [][]byte
	ended  func() bool // all calls have been answered

	mu  sync.Mutex // guards the field below
	out []*driverpb.CallsResponse
}

func (e *driverEnd) Context() context.Context { return e.ctx }

func (e *driverEnd) RecvMsg(m any) error {
	if len(e.frames) == 0 {
		for deadline := time.Now().Add(time.Minute); !e.ended() && time.Now().Before(deadline); {
			<-time.After(10 * time.Microsecond)
		}
		return io.EOF
	}
	frame := e.frames[0]
	e.frames = e.frames[1:]
	return proto.Unmarshal(frame, m.(proto.Message))
}

func (e *driverEnd) Recv() (*driverpb.CallsRequest, error) {
	r := &driverpb.CallsRequest{}
	return r, e.RecvMsg(r)
}

func (e *driverEnd) Send(r *driverpb.CallsResponse) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out = append(e.out, r)
	return nil
}

// lastResponses counts the last responses by id.
func (e *driverEnd) lastResponses() map[uint64]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[uint64]int{}
	for _, r := range e.out[1:] {
		if !r.GetMore() {
			out[r.GetId()]++
		}
	}
	return out
}

// echo is a driver that answers every call, if only by a panic.
type echo struct{ recorder }

func (*echo) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	switch string(req.Challenge) {
	case "panic":
		panic("on purpose")
	case "long":
		return driver.ValidateResult{Challenge: pattern(200_000)}, nil
	}
	return driver.ValidateResult{Challenge: req.Challenge}, nil
}

// FuzzStreamedRequests feeds any frames to a driver: each call gets exactly one last
// response, unless the frames are not those of a host.
func FuzzStreamedRequests(f *testing.F) {
	validate := func(id uint64, do string, nanos uint64) *driverpb.CallsRequest {
		return &driverpb.CallsRequest{
			Id: id, Method: "/kairos.driver.v1.ChallengeService/Validate", Request: append([]byte{0x0a, byte(len(do))}, do...),
			TimeoutNanos: nanos, Metadata: []*driverpb.CallMetadata{{Key: "traceparent", Value: []byte(traceparent)}},
		}
	}
	f.Add([]byte{})
	f.Add(joined(f, validate(1, "a", 0), validate(2, "panic", 1), validate(3, "long", 1<<40)))
	f.Add(joined(f, validate(1, "a", 1000), &driverpb.CallsRequest{Id: 1, Cancel: true}, validate(1, "a", 1<<63)))
	f.Add(joined(f, validate(0, "a", 0)))
	f.Add(joined(f, &driverpb.CallsRequest{Id: 7}, &driverpb.CallsRequest{Id: 8, Method: "no/such/method"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := &driverEnd{ctx: ctx, frames: split(raw)}
		asked, once := map[uint64]int{}, true // once: the frames are those of a host
		for _, frame := range e.frames {
			var r driverpb.CallsRequest
			if proto.Unmarshal(frame, &r) != nil {
				once = false
				break
			}
			if !r.GetCancel() {
				asked[r.GetId()]++
			}
		}
		e.ended = func() bool { return len(e.lastResponses()) == len(asked) }
		d := driver.Driver{Descriptor: challengeDescriptor(), Challenge: &echo{}}
		err := driverrpc.ServeStream(d, slog.New(slog.DiscardHandler), e)
		for id, n := range e.lastResponses() {
			if n > asked[id] {
				t.Errorf("%d last responses to %d calls with the id %d", n, asked[id], id)
			}
		}
		for id, n := range asked {
			once = once && n == 1 && id != 0
		}
		switch {
		case err != nil && once:
			t.Errorf("the stream ended with %v", err)
		case err == nil && len(e.lastResponses()) != len(asked):
			t.Errorf("responses to %v, want one to each of %v", e.lastResponses(), asked)
		}
	})
}
