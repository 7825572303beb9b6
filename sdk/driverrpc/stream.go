package driverrpc

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

const (
	// maxCalls is how many calls of a stream may be in flight.
	maxCalls = 256
	// partBytes is the largest request of a streamed call, and the largest part of a
	// reply. It bounds how long one message keeps others waiting.
	partBytes = 64 << 10
	// maxStatusBytes is the largest status of a streamed call.
	maxStatusBytes = partBytes
)

func toMetadata(md metadata.MD) []*driverpb.CallMetadata {
	var out []*driverpb.CallMetadata
	for key, values := range md {
		for _, v := range values {
			out = append(out, &driverpb.CallMetadata{Key: key, Value: []byte(v)})
		}
	}
	return out
}

func fromMetadata(all []*driverpb.CallMetadata) metadata.MD {
	md := metadata.MD{}
	for _, m := range all {
		md.Append(m.GetKey(), string(m.GetValue()))
	}
	return md
}

// toStatus encodes the error of a call as gRPC does for a unary call: what is not UTF-8
// becomes U+FFFD. A status that is too large loses its details and the end of its message.
func toStatus(err error) []byte {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	p := s.Proto()
	p.Message = string([]rune(p.GetMessage()))
	raw, err := proto.Marshal(p)
	if err == nil && len(raw) <= maxStatusBytes {
		return raw
	}
	message := p.GetMessage()
	message = strings.ToValidUTF8(message[:min(len(message), maxStatusBytes/2)], "")
	raw, _ = proto.Marshal(status.New(s.Code(), message).Proto())
	return raw
}

// fromStatus returns the error of a call, never nil.
func fromStatus(raw []byte) error {
	p := status.New(codes.OK, "").Proto()
	if err := proto.Unmarshal(raw, p); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received status: %v", err)
	}
	if err := status.FromProto(p).Err(); err != nil {
		return err
	}
	return status.Error(codes.Internal, "the driver sent OK as the status of a failed call")
}

// encode marshals a message with the limit and the errors of a unary call.
func encode(m any) ([]byte, error) {
	message, ok := m.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "grpc: error while marshaling: %T is not a message", m)
	}
	raw, err := proto.Marshal(message)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	if len(raw) > MaxMessageBytes {
		return nil, status.Errorf(codes.ResourceExhausted, "trying to send message larger than max (%d vs. %d)", len(raw), MaxMessageBytes)
	}
	return raw, nil
}

// decode unmarshals a message with the errors of a unary call.
func decode(raw []byte, m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %T is not a message", m)
	}
	if err := proto.Unmarshal(raw, message); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

func tooLarge(size, limit int) error {
	return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, limit)
}
