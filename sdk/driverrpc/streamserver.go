package driverrpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// streamServer serves the stream of calls of a driver.
type streamServer struct {
	driverpb.UnimplementedStreamServiceServer
	services  map[string]bool
	methods   map[string]method // by "/service/method"
	intercept grpc.UnaryServerInterceptor
	closing   chan struct{} // closed: streams end as soon as no call is in flight
}

// method is a method of a service, with the handler that unary calls have.
type method struct {
	impl   any
	handle grpc.MethodHandler
}

func newStreamServer(log *slog.Logger) *streamServer {
	return &streamServer{
		services: map[string]bool{}, methods: map[string]method{}, intercept: intercept(log), closing: make(chan struct{}),
	}
}

// registry registers services for unary and for streamed calls.
type registry struct {
	grpc.ServiceRegistrar
	streamed *streamServer
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registry) RegisterService(desc *grpc.ServiceDesc, impl any) {
	r.ServiceRegistrar.RegisterService(desc, impl)
	r.streamed.services[desc.ServiceName] = true
	for _, m := range desc.Methods {
		r.streamed.methods["/"+desc.ServiceName+"/"+m.MethodName] = method{impl, m.Handler}
	}
}

// Calls implements driverpb.StreamServiceServer.
func (s *streamServer) Calls(stream grpc.BidiStreamingServer[driverpb.CallsRequest, driverpb.CallsResponse]) error {
	if err := stream.Send(&driverpb.CallsResponse{MaxCalls: maxCalls}); err != nil {
		return err
	}
	c := &servedStream{
		streamServer: s, stream: stream, work: make(chan received), over: make(chan struct{}),
		inFlight: make(map[uint64]context.CancelFunc), idle: make(chan struct{}),
	}
	defer c.end()
	for range streamWorkers {
		go c.serve()
	}
	read := make(chan error, 1)
	go func() { read <- c.read() }()
	select {
	case err := <-read:
		return err
	case <-s.closing:
		c.drain()
		return nil
	}
}

// servedStream is one stream of calls. Its goroutines end with it, except in calls that
// do not return when they are cancelled.
type servedStream struct {
	*streamServer
	stream grpc.BidiStreamingServer[driverpb.CallsRequest, driverpb.CallsResponse]
	work   chan received // to the workers
	over   chan struct{} // closed when the stream has ended

	sending sync.Mutex // guards stream.Send and the field below
	ended   bool

	mu       sync.Mutex // guards the fields below
	inFlight map[uint64]context.CancelFunc
	draining bool
	idle     chan struct{} // closed when draining and no call is in flight
}

// received is a call that was received.
type received struct {
	ctx     context.Context
	id      uint64
	method  string
	request []byte
}

func (c *servedStream) read() error {
	for {
		var r driverpb.CallsRequest
		err := c.stream.RecvMsg(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.take(&r)
		}
		if err != nil {
			return err
		}
	}
}

// take begins or cancels a call. An error ends the stream.
func (c *servedStream) take(r *driverpb.CallsRequest) error {
	if r.GetCancel() {
		c.cancel(r.GetId())
		return nil
	}
	ctx := metadata.NewIncomingContext(c.stream.Context(), fromMetadata(r.GetMetadata()))
	ctx, cancel := within(ctx, r.GetTimeoutNanos())
	if refused, err := c.admit(r.GetId(), cancel); refused != nil || err != nil {
		cancel()
		if refused != nil {
			err = c.send(&driverpb.CallsResponse{Id: r.GetId(), Status: toStatus(refused)})
		}
		return err
	}
	in := received{ctx, r.GetId(), r.GetMethod(), r.GetRequest()}
	select {
	case c.work <- in:
	default:
		go c.answer(in)
	}
	return nil
}

// within limits a call to the time that its caller waits; 0: without end.
func within(ctx context.Context, nanos uint64) (context.Context, context.CancelFunc) {
	if nanos == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(min(nanos, math.MaxInt64)))
}

// admit counts a call in. It may be refused, and what no host does is an error.
func (c *servedStream) admit(id uint64, cancel context.CancelFunc) (refused, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, twice := c.inFlight[id]; {
	case id == 0 || twice:
		return nil, status.Errorf(codes.InvalidArgument, "a call cannot have the id %d: 0 is the greeting, others are used once", id)
	case len(c.inFlight) >= maxCalls:
		return status.Errorf(codes.ResourceExhausted, "more than %d calls are in flight", maxCalls), nil
	case c.draining:
		return status.Error(codes.Unavailable, "the driver is about to stop"), nil
	}
	c.inFlight[id] = cancel
	return nil, nil
}

func (c *servedStream) cancel(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.inFlight[id]; cancel != nil {
		cancel()
	}
}

// leave counts a call out.
func (c *servedStream) leave(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight[id]()
	delete(c.inFlight, id)
	c.checkIdle()
}

// checkIdle needs the lock.
func (c *servedStream) checkIdle() {
	if c.draining && len(c.inFlight) == 0 {
		close(c.idle)
	}
}

// serve answers one call after the other.
func (c *servedStream) serve() {
	for {
		select {
		case in := <-c.work:
			c.answer(in)
		case <-c.over:
			return
		}
	}
}

func (c *servedStream) answer(in received) {
	reply, err := c.call(in)
	for err == nil && len(reply) > partBytes {
		if err = in.ctx.Err(); err == nil {
			err = c.send(&driverpb.CallsResponse{Id: in.id, Reply: reply[:partBytes], More: true})
			reply = reply[partBytes:]
		}
	}
	last := &driverpb.CallsResponse{Id: in.id, Reply: reply}
	if err != nil {
		last = &driverpb.CallsResponse{Id: in.id, Status: toStatus(err)}
	}
	c.finish(last)
}

// call does what gRPC does for a unary call.
func (c *servedStream) call(in received) ([]byte, error) {
	m, ok := c.methods[in.method]
	if !ok {
		return nil, c.unimplemented(in.method)
	}
	if len(in.request) > partBytes {
		return nil, tooLarge(len(in.request), partBytes)
	}
	reply, err := m.handle(m.impl, in.ctx, func(v any) error { return decode(in.request, v) }, c.intercept)
	if err != nil {
		return nil, err
	}
	return encode(reply)
}

func (c *servedStream) unimplemented(method string) error {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if !c.services[service] {
		return status.Errorf(codes.Unimplemented, "unknown service %v", service)
	}
	return status.Errorf(codes.Unimplemented, "unknown method %v for service %v", name, service)
}

func (c *servedStream) send(r *driverpb.CallsResponse) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.sendLocked(r)
}

// finish sends the last response to a call. It counts the call out first, because the host
// may begin another one as soon as it has the response.
func (c *servedStream) finish(r *driverpb.CallsResponse) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.leave(r.GetId())
	_ = c.sendLocked(r) // it fails only if the host is gone
}

// sendLocked fails if the stream has ended. It needs the lock.
func (c *servedStream) sendLocked(r *driverpb.CallsResponse) error {
	if c.ended {
		return context.Canceled
	}
	return c.stream.Send(r)
}

// drain waits until no call is in flight, or for the end of the stream.
func (c *servedStream) drain() {
	c.mu.Lock()
	c.draining = true
	c.checkIdle()
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-c.stream.Context().Done():
	}
}

// end waits for the response that is being sent.
func (c *servedStream) end() {
	close(c.over)
	c.sending.Lock()
	defer c.sending.Unlock()
	c.ended = true
}
