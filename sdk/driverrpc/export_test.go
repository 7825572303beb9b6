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
	m := protoOf(&c, v)
	return m, c.err
}

func protoOf(c *conversion, v any) proto.Message {
	switch v := v.(type) {
	case driver.Descriptor:
		return toDescriptor(c, v)
	case ConfigureRequest:
		return &driverpb.ConfigureRequest{ConfigJson: v.Config, DryRun: v.DryRun}
	case ConfigureResult:
		return &driverpb.ConfigureResponse{Diagnostics: toDiagnostics(c, v.Diagnostics)}
	case Health:
		return &driverpb.CheckHealthResponse{Healthy: v.Healthy, Reason: v.Reason}
	case driver.ValidateRequest:
		return toValidateRequest(c, v)
	case driver.ValidateResult:
		return toValidateResult(c, v)
	case driver.AdvanceRequest:
		return toAdvanceRequest(c, v)
	case driver.AdvanceResult:
		return toAdvanceResult(c, v)
	case driver.RenderRequest:
		return toRenderRequest(c, v)
	case driver.RenderResult:
		return toRenderResult(c, v)
	case driver.InterpretRequest:
		return toInterpretRequest(c, v)
	case driver.InterpretResult:
		return toInterpretResult(c, v)
	case driver.PreviewRequest:
		return toPreviewRequest(c, v)
	case driver.PreviewResult:
		return toPreviewResult(c, v)
	case struct{}:
		return &driverpb.DescribeRequest{} // as empty as CheckHealthRequest
	}
	c.fail("no message for a %s", fmt.Sprintf("%T", v))
	return nil
}
