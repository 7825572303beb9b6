package config

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

type logConfig struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
}

func (l logConfig) level() (slog.Level, error) {
	var level slog.Level
	if l.Level == "" {
		return level, nil
	}
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return level, fmt.Errorf("log.level is %q: must be debug, info, warn or error", l.Level)
	}
	return level, nil
}

// Logger writes as configured to stderr, because stdout carries MCP frames, and the
// same as JSON to records, with one call for each.
func (l logConfig) Logger(stderr, records io.Writer) (*slog.Logger, error) {
	level, err := l.level()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	var shown slog.Handler = slog.NewTextHandler(stderr, options)
	if l.Format == "json" {
		shown = slog.NewJSONHandler(stderr, options)
	}
	return slog.New(traceHandler{slog.NewMultiHandler(shown, slog.NewJSONHandler(records, options))}), nil
}

// traceHandler adds the trace of the context to each record. It is for handlers
// that are not grouped.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if t := driver.TraceOf(ctx); t != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", t[3:35]))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
