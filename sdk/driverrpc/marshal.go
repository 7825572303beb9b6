package driverrpc

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// Marshal returns a request or result of Advance or Render as it is on the wire. Within
// one build of the program equal messages have equal bytes.
func Marshal(message any) ([]byte, error) {
	var w proto.Message
	var conv conversion
	switch m := message.(type) {
	case driver.AdvanceRequest:
		w = toAdvanceRequest(&conv, m)
	case driver.AdvanceResult:
		w = toAdvanceResult(&conv, m)
	case driver.RenderRequest:
		w = toRenderRequest(&conv, m)
	case driver.RenderResult:
		w = toRenderResult(&conv, m)
	default:
		return nil, fmt.Errorf("marshal a driver message: unexpected type %T", message)
	}
	if conv.err != nil {
		return nil, fmt.Errorf("marshal %T: %w", message, conv.err)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(w)
}

// Unmarshal reads into a pointer to a result what Marshal returned. The result shares no
// memory with the bytes.
func Unmarshal(b []byte, result any) error {
	var conv conversion
	var err error
	switch r := result.(type) {
	case *driver.AdvanceResult:
		var w driverpb.AdvanceResponse
		if err = proto.Unmarshal(b, &w); err == nil {
			*r = fromAdvanceResult(&conv, &w)
		}
	case *driver.RenderResult:
		var w driverpb.RenderResponse
		if err = proto.Unmarshal(b, &w); err == nil {
			*r = fromRenderResult(&conv, &w)
		}
	default:
		return fmt.Errorf("unmarshal a driver message: unexpected type %T", result)
	}
	if err == nil {
		err = conv.err
	}
	if err != nil {
		return fmt.Errorf("unmarshal %T: %w", result, err)
	}
	return nil
}
