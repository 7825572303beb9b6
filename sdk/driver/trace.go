package driver

import (
	"context"
	"strings"
)

// Layout of a W3C traceparent: version, trace id, parent id, flags.
const (
	traceparentLen = 55
	traceIDAt      = 3
	parentIDAt     = 36
	flagsAt        = 53
)

type traceKey struct{}

// WithTrace returns a context that carries a W3C traceparent, which the host
// and the driver put into their logs and hand on. A broken one is ignored: ctx
// is returned as it is. One of a later version of the standard becomes
// version 00, as the standard asks.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	t, ok := parseTraceparent(traceparent)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the traceparent of a context, always a sound one of version
// 00, or "".
func TraceOf(ctx context.Context) string {
	t, _ := ctx.Value(traceKey{}).(string)
	return t
}

func parseTraceparent(s string) (string, bool) {
	if len(s) < traceparentLen || s[2] != '-' || s[parentIDAt-1] != '-' || s[flagsAt-1] != '-' {
		return "", false
	}
	version, traceID := s[:2], s[traceIDAt:parentIDAt-1]
	parentID, flags := s[parentIDAt:flagsAt-1], s[flagsAt:traceparentLen]
	for _, field := range []string{version, traceID, parentID, flags} {
		if strings.Trim(field, "0123456789abcdef") != "" {
			return "", false
		}
	}
	if version == "ff" || strings.Trim(traceID, "0") == "" || strings.Trim(parentID, "0") == "" {
		return "", false
	}
	if version == "00" {
		return s, len(s) == traceparentLen
	}
	if len(s) > traceparentLen && s[traceparentLen] != '-' {
		return "", false
	}
	// Of a later version only the sampled flag is known.
	sampled := "00"
	if strings.IndexByte("13579bdf", flags[1]) >= 0 {
		sampled = "01"
	}
	return "00-" + traceID + "-" + parentID + "-" + sampled, true
}
