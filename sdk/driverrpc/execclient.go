package driverrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ExecClient calls a driver of TransportExec: one process per call. It is safe
// for concurrent use if its run function is. It takes and refuses the same
// results as Client; see IsDriverBug.
type ExecClient struct{ run runFunc }

type runFunc func(ctx context.Context, method string, request []byte) (reply []byte, err error)

// NewExecClient calls a driver by running run once per call. run gets the
// method's name and the request's JSON form and gives back what the process
// printed; it sets the limits of time and size. Its errors are handed on as
// they are.
func NewExecClient(run func(ctx context.Context, method string, request []byte) (reply []byte, err error)) *ExecClient {
	return &ExecClient{run: run}
}

// Describe returns the driver's descriptor, checked.
func (c *ExecClient) Describe(ctx context.Context) (driver.Descriptor, error) {
	d, err := execCall(ctx, c.run, MethodDescribe, struct{}{}, jsonDescriptor)
	if err != nil {
		return driver.Descriptor{}, err
	}
	if err := CheckDescriptor(d); err != nil {
		return driver.Descriptor{}, fmt.Errorf("descriptor: %w", err)
	}
	return d, nil
}

// Configure sets the driver's configuration, or with dryRun only judges it.
// Since no process lives on, only the dry run has a meaning.
func (c *ExecClient) Configure(
	ctx context.Context, config json.RawMessage, dryRun bool,
) ([]driver.Diagnostic, error) {
	return execCall(ctx, c.run, MethodConfigure, ConfigureRequest{Config: fromBytes(config), DryRun: dryRun},
		jsonConfigureResult)
}

// CheckHealth returns nil when the driver can serve calls now.
func (c *ExecClient) CheckHealth(ctx context.Context) error {
	h, err := execCall(ctx, c.run, MethodCheckHealth, struct{}{}, func(_ *conversion, h Health) Health { return h })
	if err != nil {
		return err
	}
	if !h.Healthy {
		return fmt.Errorf("unhealthy: %s", h.Reason)
	}
	return nil
}

// Challenge is the driver's challenge role.
func (c *ExecClient) Challenge() driver.Challenge { return execChallenge{c.run} }

// Capability is the driver's capability role.
func (c *ExecClient) Capability() driver.Capability { return execCapability{c.run} }

type execChallenge struct{ run runFunc }

func (c execChallenge) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	return validate.overExec(ctx, req, c.run)
}

func (c execChallenge) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	return advance.overExec(ctx, req, c.run)
}

type execCapability struct{ run runFunc }

func (c execCapability) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	return render.overExec(ctx, req, c.run)
}

func (c execCapability) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	return interpret.overExec(ctx, req, c.run)
}

// Preview makes execCapability a driver.Previewer.
func (c execCapability) Preview(ctx context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	return preview.overExec(ctx, req, c.run)
}

// execCall makes one call. check holds the reply to the rules of the wire.
func execCall[W, G any](
	ctx context.Context, run runFunc, method string, req any, check func(*conversion, W) G,
) (G, error) {
	var zero G
	request, err := marshalJSON(req)
	if err != nil {
		return zero, status.Errorf(codes.InvalidArgument, "the request of %s is not JSON: %v", method, err)
	}
	raw, err := run(ctx, method, request)
	if err != nil {
		return zero, err
	}
	var w W
	if err := unmarshalJSON(raw, &w); err != nil {
		return zero, status.Errorf(codes.Internal, "the reply to %s: %s", method, jsonProblem(err))
	}
	return converted(codes.Internal, w, check)
}

// jsonProblem says what is wrong with JSON in the words of its author.
func jsonProblem(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) && typed.Field != "" {
		return fmt.Sprintf("%s is a %s, want %s", typed.Field, typed.Value, typed.Type)
	}
	return err.Error()
}
