package qdrant

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/core/fault"
)

const (
	backoffFirst = 25 * time.Millisecond
	backoffMost  = time.Second
	// reasonLength bounds the quoted part of a message of the server, in bytes.
	reasonLength = 300
)

// call sends one request. A failure becomes a fault that names the server. While
// the server is unavailable, call retries until the timeout. Every request of this
// package may be repeated: writes set a state, with a condition where another
// writer could interfere.
func call[T any](ctx context.Context, s *server, request func(context.Context) (T, error)) (T, error) {
	return callWithin(ctx, s, s.options.Timeout, request)
}

// callWithin is call with its own timeout.
func callWithin[T any](ctx context.Context, s *server, limit time.Duration, request func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := backoffFirst; ; wait = min(2*wait, backoffMost) {
		if s.closing.Err() != nil {
			var none T
			return none, s.explain(ctx, s.closing.Err())
		}
		v, err := request(bounded)
		if err == nil || !passing(err) || !s.pause(bounded, wait) {
			return v, s.explain(ctx, err)
		}
	}
}

// passing reports whether a retry may succeed. Unknown is the status of a request
// whose handler ended without an answer, for example because the server was
// stopped.
func passing(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Unknown
}

// pause waits with jitter, and reports whether there is time for another attempt.
func (s *server) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait/2 + rand.N(wait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-s.closing.Done():
		return false
	case <-ctx.Done():
		return false
	}
}

// explain turns a failed request into a fault that says what the operator can do.
// If the caller cancelled the request, the error of its context is returned
// unchanged.
func (s *server) explain(ctx context.Context, err error) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	code := status.Code(err)
	if s.closing.Err() != nil {
		return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s: the store was closed", s.at)
	}
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.Canceled):
		return fmt.Errorf("wait for Qdrant at %s: %w", s.at, cause)
	case cause != nil && !passing(err): // the server hangs, whoever set the deadline
		return fault.Wrap(fmt.Errorf("%w: %w", cause, err), fault.StoreUnavailable, "Qdrant at %s did not answer in time", s.at).WithRemedy("%s", nextReach)
	}
	switch code {
	case codes.Unavailable, codes.Unknown:
		// The message contains the whole cause; wrapping would print it twice.
		return fault.New(fault.StoreUnavailable, "Qdrant at %s cannot be reached: %s", s.at, reason(err)).WithRemedy("%s", nextReach)
	case codes.DeadlineExceeded, codes.Canceled:
		return fault.Wrap(err, fault.StoreUnavailable, "Qdrant at %s did not answer within %s", s.at, s.options.Timeout).WithRemedy("%s", nextReach)
	case codes.Unauthenticated, codes.PermissionDenied:
		return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s refuses the API key, or wants one: set QDRANT_API_KEY", s.at)
	case codes.Unimplemented:
		return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s does not know a request of this program: is it version %s or newer?", s.at, oldestServer)
	}
	if code == codes.NotFound {
		s.forgetSchema()
	}
	return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s: %s", s.at, reason(err))
}

const nextReach = "what was not reported as stored is not stored; repeat the call later; if it stays so, the operator has to start Qdrant, or to correct QDRANT_URL (qdrant.url)"

// dialFailure is the client's prefix of the reason why there is no connection.
var dialFailure = regexp.MustCompile(`^connection error: desc = "(?:transport: )?(.*)"$`)

// reason is the message of the server or of the connection.
func reason(err error) string {
	text := err.Error()
	var known interface{ GRPCStatus() *status.Status }
	if errors.As(err, &known) {
		text = known.GRPCStatus().Message()
	}
	if inner := dialFailure.FindStringSubmatch(text); inner != nil {
		text = inner[1]
	}
	if len(text) > reasonLength {
		text = text[:reasonLength] + "…"
	}
	return text
}
