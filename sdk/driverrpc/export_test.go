package driverrpc

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// ProtoOf gives the wire's message of a request or result, for the fixtures.
func ProtoOf(v any) (proto.Message, error) {
	var c conversion
	m := c.protoOf(v)
	return m, c.err
}

func (c *conversion) protoOf(v any) proto.Message {
	switch v := v.(type) {
	case driver.Descriptor:
		return c.toDescriptor(v)
	case ConfigureRequest:
		return &driverpb.ConfigureRequest{ConfigJson: v.Config, DryRun: v.DryRun}
	case ConfigureResult:
		return &driverpb.ConfigureResponse{Diagnostics: c.toDiagnostics(v.Diagnostics)}
	case Health:
		return &driverpb.CheckHealthResponse{Healthy: v.Healthy, Reason: v.Reason}
	case driver.ValidateRequest:
		return &driverpb.ValidateRequest{ChallengeJson: v.Challenge}
	case driver.ValidateResult:
		return c.toValidateResult(v)
	case driver.AdvanceRequest:
		return c.toAdvanceRequest(v)
	case driver.AdvanceResult:
		return c.toAdvanceResult(v)
	case driver.RenderRequest:
		return c.toRenderRequest(v)
	case driver.RenderResult:
		return c.toRenderResult(v)
	case driver.InterpretRequest:
		return c.toInterpretRequest(v)
	case driver.InterpretResult:
		return c.toInterpretResult(v)
	case struct{}:
		return &driverpb.DescribeRequest{} // as empty as CheckHealthRequest
	}
	c.fail("no message for a %s", fmt.Sprintf("%T", v))
	return nil
}
