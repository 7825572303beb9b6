package driverrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// workers is how many goroutines of a driver's server take one call after the other: a new
// one would grow its stack again for each. Calls beyond so many at once get one of their own.
const workers = 4

// serverOptions are the limits, the trace and the panic net of every driver server.
func serverOptions(log *slog.Logger) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.NumStreamWorkers(workers),
		grpc.UnaryInterceptor(intercept(log)),
	}
}

// intercept is what calls pass on their way to a handler.
func intercept(log *slog.Logger) grpc.UnaryServerInterceptor {
	guard := recoverPanic(log)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return receiveTrace(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return guard(ctx, req, info, next)
		})
	}
}

// recoverPanic turns a panic of one call into an error of that call, so that
// one bad request does not end the others.
func recoverPanic(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				resp, err = nil, panicked(ctx, log, info.FullMethod, p)
			}
		}()
		return next(ctx, req)
	}
}

// panicked logs a panic with its stack and gives the error of the call.
func panicked(ctx context.Context, log *slog.Logger, call string, p any) error {
	log.ErrorContext(ctx, "driver panicked", "call", call, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Errorf(codes.Internal, "driver panicked in %s: %v", call, p)
}

// newServer is a gRPC server with the limits of a driver. It serves the driver.
func newServer(d driver.Driver, log *slog.Logger, options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(options, serverOptions(log)...)...)
	if d.Challenge != nil {
		driverpb.RegisterChallengeServiceServer(server, challengeServer{impl: d.Challenge})
	}
	if d.Capability != nil {
		driverpb.RegisterCapabilityServiceServer(server, capabilityServer{impl: d.Capability})
	}
	driverpb.RegisterDriverServiceServer(server, &driverServer{descriptor: d.Descriptor, configurer: configurerOf(d)})
	return server
}

type driverServer struct {
	driverpb.UnimplementedDriverServiceServer
	descriptor driver.Descriptor
	configurer driver.Configurer // nil: takes no configuration, always healthy

	mu sync.Mutex // Configure is never concurrent
}

func (s *driverServer) Describe(context.Context, *driverpb.DescribeRequest) (*driverpb.DescribeResponse, error) {
	return converted(codes.Internal, s.descriptor, toDescriptor)
}

func (s *driverServer) Configure(
	ctx context.Context, req *driverpb.ConfigureRequest,
) (*driverpb.ConfigureResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := configure(ctx, s.configurer, fromBytes(req.GetConfigJson()), req.GetDryRun())
	if err != nil {
		return nil, callError(ctx, err)
	}
	return converted(codes.Internal, found, func(c *conversion, all []driver.Diagnostic) *driverpb.ConfigureResponse {
		return &driverpb.ConfigureResponse{Diagnostics: toDiagnostics(c, all)}
	})
}

func configure(
	ctx context.Context, to driver.Configurer, config json.RawMessage, dryRun bool,
) ([]driver.Diagnostic, error) {
	if to != nil {
		return to.Configure(ctx, config, dryRun)
	}
	switch string(bytes.TrimSpace(config)) {
	case "", "null", "{}":
		return nil, nil
	}
	return []driver.Diagnostic{driver.Problem("", "this driver takes no configuration")}, nil
}

// configurerOf returns the driver's Configurer, or nil if it takes no configuration
// and is always healthy.
func configurerOf(d driver.Driver) driver.Configurer {
	var role any = d.Challenge
	if d.Capability != nil {
		role = d.Capability
	}
	c, _ := role.(driver.Configurer)
	return c
}

func (s *driverServer) CheckHealth(
	ctx context.Context, _ *driverpb.CheckHealthRequest,
) (*driverpb.CheckHealthResponse, error) {
	h := health(ctx, s.configurer)
	return &driverpb.CheckHealthResponse{Healthy: h.Healthy, Reason: h.Reason}, nil
}

type challengeServer struct {
	driverpb.UnimplementedChallengeServiceServer
	impl driver.Challenge
}

func (s challengeServer) Validate(ctx context.Context, req *driverpb.ValidateRequest) (*driverpb.ValidateResponse, error) {
	return validate.serve(ctx, req, s.impl.Validate)
}

func (s challengeServer) Advance(ctx context.Context, req *driverpb.AdvanceRequest) (*driverpb.AdvanceResponse, error) {
	return advance.serve(ctx, req, s.impl.Advance)
}

type capabilityServer struct {
	driverpb.UnimplementedCapabilityServiceServer
	impl driver.Capability
}

func (s capabilityServer) Render(ctx context.Context, req *driverpb.RenderRequest) (*driverpb.RenderResponse, error) {
	return render.serve(ctx, req, s.impl.Render)
}

func (s capabilityServer) Interpret(ctx context.Context, req *driverpb.InterpretRequest) (*driverpb.InterpretResponse, error) {
	return interpret.serve(ctx, req, s.impl.Interpret)
}

func (s capabilityServer) Preview(ctx context.Context, req *driverpb.PreviewRequest) (*driverpb.PreviewResponse, error) {
	return preview.serve(ctx, req, previewer(s.impl))
}

// previewer is the driver's Preview. A driver without one does nothing that it
// could preview.
func previewer(impl driver.Capability) func(context.Context, driver.PreviewRequest) (driver.PreviewResult, error) {
	if p, ok := impl.(driver.Previewer); ok {
		return p.Preview
	}
	return func(context.Context, driver.PreviewRequest) (driver.PreviewResult, error) {
		return driver.CannotPreview("this driver has no plans to show"), nil
	}
}

// callError gives an error of the driver a status. Never Unavailable, whatever
// the error carries: to the host that means that the process is gone.
func callError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return status.Error(codes.DeadlineExceeded, err.Error())
	default:
		return status.Error(codes.Unknown, err.Error())
	}
}
