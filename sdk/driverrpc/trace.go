package driverrpc

import (
	"context"
	"log/slog"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// traceKey is the gRPC metadata that carries a W3C traceparent.
const traceKey = "traceparent"

// sendTrace is a connection whose calls carry the trace of their context.
type sendTrace struct{ grpc.ClientConnInterface }

func (s sendTrace) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if t := driver.TraceOf(ctx); t != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, traceKey, t)
	}
	return s.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// receiveTrace puts the trace that came with a call into its context.
func receiveTrace(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if sent := metadata.ValueFromIncomingContext(ctx, traceKey); len(sent) == 1 {
		ctx = driver.WithTrace(ctx, sent[0])
	}
	return next(ctx, req)
}

// traceHandler adds trace_id and span_id to records logged with the context
// of a call. They stay at the top level, so it keeps the handler from before
// the first group and repeats what was asked of it since.
type traceHandler struct {
	next  slog.Handler
	root  slog.Handler
	since []func(slog.Handler) slog.Handler
}

func newTraceHandler(next slog.Handler) *traceHandler { return &traceHandler{next: next, root: next} }

func (h *traceHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *traceHandler) Handle(ctx context.Context, r slog.Record) error {
	t := driver.TraceOf(ctx)
	if t == "" {
		return h.next.Handle(ctx, r)
	}
	// WithTrace lets only sound traceparents in, so the fields are where they belong.
	traced := h.root.WithAttrs([]slog.Attr{slog.String("trace_id", t[3:35]), slog.String("span_id", t[36:52])})
	for _, again := range h.since {
		traced = again(traced)
	}
	return traced.Handle(ctx, r)
}

func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(n slog.Handler) slog.Handler { return n.WithAttrs(attrs) })
}

func (h *traceHandler) WithGroup(name string) slog.Handler {
	return h.with(func(n slog.Handler) slog.Handler { return n.WithGroup(name) })
}

func (h *traceHandler) with(change func(slog.Handler) slog.Handler) *traceHandler {
	return &traceHandler{next: change(h.next), root: h.root, since: append(slices.Clip(h.since), change)}
}
