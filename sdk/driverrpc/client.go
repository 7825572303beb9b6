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
func (c *Client) Challenge() driver.Challenge {
	return challengeClient{driverpb.NewChallengeServiceClient(c.cc)}
}

// Capability is the driver's capability role.
func (c *Client) Capability() driver.Capability {
	return capabilityClient{driverpb.NewCapabilityServiceClient(c.cc)}
}

type challengeClient struct {
	rpc driverpb.ChallengeServiceClient
}

func (c challengeClient) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	return validate.overGRPC(ctx, req, c.rpc.Validate)
}

func (c challengeClient) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	return advance.overGRPC(ctx, req, c.rpc.Advance)
}

type capabilityClient struct {
	rpc driverpb.CapabilityServiceClient
}

func (c capabilityClient) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	return render.overGRPC(ctx, req, c.rpc.Render)
}

func (c capabilityClient) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	return interpret.overGRPC(ctx, req, c.rpc.Interpret)
}

// Preview makes capabilityClient a driver.Previewer.
func (c capabilityClient) Preview(ctx context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	return preview.overGRPC(ctx, req, c.rpc.Preview)
}

// IsDriverBug reports whether a call failed by a mistake of the driver: it
// panicked, or its result does not fit the contract.
func IsDriverBug(err error) bool { return status.Code(err) == codes.Internal }
