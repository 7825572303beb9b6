package driverrpc

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// Client calls a driver over gRPC. It is safe for concurrent use. Errors of
// the transport and of the driver keep their gRPC status.
type Client struct {
	cc sendTrace
}

var _ driver.Configurer = (*Client)(nil)

// NewClient calls the driver at the other end of the connection. The trace of
// a call's context, see driver.WithTrace, goes along.
func NewClient(cc grpc.ClientConnInterface) *Client { return &Client{cc: sendTrace{cc}} }

// Describe returns the driver's descriptor, checked.
func (c *Client) Describe(ctx context.Context) (driver.Descriptor, error) {
	resp, err := driverpb.NewDriverServiceClient(c.cc).Describe(ctx, &driverpb.DescribeRequest{})
	if err != nil {
		return driver.Descriptor{}, err
	}
	var conv conversion
	d := fromDescriptor(&conv, resp)
	if conv.err != nil {
		return driver.Descriptor{}, fmt.Errorf("descriptor: %w", conv.err)
	}
	if err := CheckDescriptor(d); err != nil {
		return driver.Descriptor{}, fmt.Errorf("descriptor: %w", err)
	}
	return d, nil
}

// Configure sets the driver's configuration, or with dryRun only judges it.
func (c *Client) Configure(ctx context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	resp, err := driverpb.NewDriverServiceClient(c.cc).Configure(ctx,
		&driverpb.ConfigureRequest{ConfigJson: config, DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	var conv conversion
	out := fromDiagnostics(&conv, resp.GetDiagnostics())
	return out, conv.err
}

// CheckHealth returns nil when the driver can serve calls now.
func (c *Client) CheckHealth(ctx context.Context) error {
	resp, err := driverpb.NewDriverServiceClient(c.cc).CheckHealth(ctx, &driverpb.CheckHealthRequest{})
	if err != nil {
		return err
	}
	if !resp.GetHealthy() {
		return fmt.Errorf("unhealthy: %s", resp.GetReason())
	}
	return nil
}

// Challenge is the driver's challenge role.
func (c *Client) Challenge() driver.Challenge { return challengeClient{c.cc} }

// Capability is the driver's capability role.
func (c *Client) Capability() driver.Capability { return capabilityClient{c.cc} }

type challengeClient struct{ cc grpc.ClientConnInterface }

func (c challengeClient) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	resp, err := driverpb.NewChallengeServiceClient(c.cc).Validate(ctx,
		&driverpb.ValidateRequest{ChallengeJson: req.Challenge})
	if err != nil {
		return driver.ValidateResult{}, err
	}
	return decoded(resp, fromValidateResult)
}

func (c challengeClient) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	in, err := encoded(req, toAdvanceRequest)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	resp, err := driverpb.NewChallengeServiceClient(c.cc).Advance(ctx, in)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	return decoded(resp, fromAdvanceResult)
}

type capabilityClient struct{ cc grpc.ClientConnInterface }

func (c capabilityClient) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	in, err := encoded(req, toRenderRequest)
	if err != nil {
		return driver.RenderResult{}, err
	}
	resp, err := driverpb.NewCapabilityServiceClient(c.cc).Render(ctx, in)
	if err != nil {
		return driver.RenderResult{}, err
	}
	return decoded(resp, fromRenderResult)
}

func (c capabilityClient) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	in, err := encoded(req, toInterpretRequest)
	if err != nil {
		return driver.InterpretResult{}, err
	}
	resp, err := driverpb.NewCapabilityServiceClient(c.cc).Interpret(ctx, in)
	if err != nil {
		return driver.InterpretResult{}, err
	}
	return decoded(resp, fromInterpretResult)
}

// Preview makes capabilityClient a driver.Previewer.
func (c capabilityClient) Preview(ctx context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	in, err := encoded(req, toPreviewRequest)
	if err != nil {
		return driver.PreviewResult{}, err
	}
	resp, err := driverpb.NewCapabilityServiceClient(c.cc).Preview(ctx, in)
	if err != nil {
		return driver.PreviewResult{}, err
	}
	return decoded(resp, fromPreviewResult)
}

// encoded converts a request for the wire. A request that cannot be encoded is
// the caller's mistake.
func encoded[G, W any](g G, convert func(*conversion, G) W) (W, error) {
	var conv conversion
	w := convert(&conv, g)
	if conv.err != nil {
		return w, status.Error(codes.InvalidArgument, conv.err.Error())
	}
	return w, nil
}

// decoded converts a reply of the wire. A reply that cannot be decoded is the
// driver's mistake.
func decoded[W, G any](w W, convert func(*conversion, W) G) (G, error) {
	var conv conversion
	g := convert(&conv, w)
	if conv.err != nil {
		return g, status.Error(codes.Internal, conv.err.Error())
	}
	return g, nil
}

// IsDriverBug reports whether a call failed by a mistake of the driver: it
// panicked, or its result does not fit the contract.
func IsDriverBug(err error) bool { return status.Code(err) == codes.Internal }
