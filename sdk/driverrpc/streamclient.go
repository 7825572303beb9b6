package driverrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// callStream is a connection that carries its calls on one stream. Large requests, calls
// with options of gRPC and calls beyond the driver's limit are unary. A broken stream is
// not opened again: every call fails as if the process had died.
type callStream struct {
	unary    grpc.ClientConnInterface
	stream   grpc.BidiStreamingClient[driverpb.CallsRequest, driverpb.CallsResponse]
	cancel   context.CancelFunc
	limit    int                         // of calls in flight
	requests chan *driverpb.CallsRequest // to the sender
	work     sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	last   uint64     // id
	calls  map[uint64]*streamedCall
	broken error
}

// streamedCall is a call in flight: until its last response, even if its caller is gone.
type streamedCall struct {
	done  chan struct{} // closed when reply and err are set
	over  bool          // done is closed, or nobody waits for it
	reply []byte
	err   error
}

// openStream returns nil if the driver does not serve the stream. ctx limits the wait for
// the driver's greeting.
func openStream(ctx context.Context, cc grpc.ClientConnInterface) (*callStream, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	abort := context.AfterFunc(ctx, cancel)
	stream, limit, err := greeted(own, cc)
	if !abort() {
		err = status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		cancel()
		if status.Code(err) == codes.Unimplemented {
			return nil, nil //nolint:nilnil // see above
		}
		return nil, fmt.Errorf("open the stream of calls: %w", err)
	}
	s := &callStream{
		unary: cc, stream: stream, cancel: cancel, limit: limit, calls: make(map[uint64]*streamedCall),
		// A call has a request and at most one cancellation, which may still be here
		// when the call has ended.
		requests: make(chan *driverpb.CallsRequest, 3*limit),
	}
	s.work.Go(s.send)
	s.work.Go(s.receive)
	return s, nil
}

func greeted(
	ctx context.Context, cc grpc.ClientConnInterface,
) (stream grpc.BidiStreamingClient[driverpb.CallsRequest, driverpb.CallsResponse], limit int, err error) {
	stream, err = driverpb.NewStreamServiceClient(cc).Calls(ctx, grpc.MaxCallRecvMsgSize(2*partBytes))
	if err != nil {
		return nil, 0, err
	}
	greeting, err := stream.Recv()
	if err != nil {
		return nil, 0, err
	}
	if greeting.GetId() != 0 {
		return nil, 0, fmt.Errorf("it begins with a response to call %d, not with the greeting", greeting.GetId())
	}
	return stream, int(min(greeting.GetMaxCalls(), maxCalls)), nil
}

// close breaks the stream. It may be called twice.
func (s *callStream) close() {
	s.cancel()
	s.work.Wait()
}

// NewStream implements grpc.ClientConnInterface.
func (s *callStream) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return s.unary.NewStream(ctx, desc, method, opts...)
}

// Invoke implements grpc.ClientConnInterface.
func (s *callStream) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	message, ok := args.(proto.Message)
	if !ok || proto.Size(message) > partBytes || len(opts) > 1 { // generated code adds one, which says nothing here
		return s.unary.Invoke(ctx, method, args, reply, opts...)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	request, err := encode(message)
	if err != nil {
		return err
	}
	id, c, err := s.begin()
	if err != nil {
		return err
	}
	if c == nil {
		return s.unary.Invoke(ctx, method, args, reply, opts...)
	}
	s.enqueue(requestOf(ctx, id, method, request))
	select {
	case <-c.done:
	case <-ctx.Done():
		s.abandon(id)
		return status.FromContextError(ctx.Err()).Err()
	}
	if c.err != nil {
		return c.err
	}
	return decode(c.reply, reply)
}

func requestOf(ctx context.Context, id uint64, method string, request []byte) *driverpb.CallsRequest {
	r := &driverpb.CallsRequest{Id: id, Method: method, Request: request}
	if deadline, ok := ctx.Deadline(); ok {
		r.TimeoutNanos = uint64(max(1, time.Until(deadline)))
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		r.Metadata = toMetadata(md)
	}
	return r
}

// begin returns nil if as many calls are in flight as the driver takes.
func (s *callStream) begin() (uint64, *streamedCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return 0, nil, s.broken
	}
	if len(s.calls) >= s.limit {
		return 0, nil, nil
	}
	s.last++
	c := &streamedCall{done: make(chan struct{})}
	s.calls[s.last] = c
	return s.last, c, nil
}

// abandon tells the driver that nobody waits for the call.
func (s *callStream) abandon(id uint64) {
	s.mu.Lock()
	c := s.calls[id]
	if c != nil {
		c.over, c.reply = true, nil
	}
	s.mu.Unlock()
	if c != nil {
		s.enqueue(&driverpb.CallsRequest{Id: id, Cancel: true})
	}
}

// enqueue never waits: there is room for everything that a driver can leave unread, unless
// it ends calls that it has not received.
func (s *callStream) enqueue(r *driverpb.CallsRequest) {
	select {
	case s.requests <- r:
	default:
		s.fail(errors.New("the driver replied to calls before it received them"))
	}
}

// send is the only sender. While a driver does not read, send waits, but no caller does.
func (s *callStream) send() {
	for {
		select {
		case r := <-s.requests:
			if s.stream.Send(r) != nil {
				return // receive gets the reason
			}
		case <-s.stream.Context().Done():
			return
		}
	}
}

func (s *callStream) receive() {
	for {
		var r driverpb.CallsResponse
		err := s.stream.RecvMsg(&r)
		if err == nil {
			err = s.deliver(&r)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// deliver gives a response to its caller. An error breaks the stream.
func (s *callStream) deliver(r *driverpb.CallsResponse) error {
	s.mu.Lock()
	c := s.calls[r.GetId()]
	if c != nil && !r.GetMore() {
		delete(s.calls, r.GetId())
	}
	cut := c != nil && c.take(r)
	s.mu.Unlock()
	if c == nil {
		return fmt.Errorf("the driver replied to call %d, which is not in flight", r.GetId())
	}
	if cut {
		s.enqueue(&driverpb.CallsRequest{Id: r.GetId(), Cancel: true})
	}
	return nil
}

// take adds a response to the call. It reports whether the rest of the reply is not wanted.
func (c *streamedCall) take(r *driverpb.CallsResponse) (cut bool) {
	if c.over {
		return false
	}
	if c.reply == nil {
		c.reply = r.GetReply()
	} else {
		c.reply = append(c.reply, r.GetReply()...)
	}
	switch {
	case len(r.GetStatus()) > 0:
		c.err = fromStatus(r.GetStatus())
	case len(c.reply) > MaxMessageBytes:
		c.err = tooLarge(len(c.reply), MaxMessageBytes)
	case r.GetMore():
		return false
	}
	c.end()
	return r.GetMore()
}

func (c *streamedCall) end() {
	c.over = true
	close(c.done)
}

// fail breaks the stream.
func (s *callStream) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return
	}
	s.broken = brokenBy(cause)
	s.cancel()
	for _, c := range s.calls {
		if !c.over {
			c.err = s.broken
			c.end()
		}
	}
	clear(s.calls)
}

// brokenBy is the error of the calls in flight: always one of a lost connection.
func brokenBy(cause error) error {
	switch code := status.Code(cause); {
	case code == codes.Unavailable || code == codes.Canceled:
		return cause
	case errors.Is(cause, io.EOF):
		cause = errors.New("the driver ended it")
	}
	return status.Errorf(codes.Unavailable, "the stream of calls broke: %v", cause)
}
