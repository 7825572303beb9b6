package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

const (
	backoffFirst = 25 * time.Millisecond
	backoffMost  = time.Second
	// reasonLength bounds the quoted part of a message of the server, in bytes.
	reasonLength = 300
)

// Call sends one request. A failure becomes a fault that names the server. While
// the server is unavailable, Call retries until the timeout, so every request must
// be one that may be repeated.
func Call[T any](ctx context.Context, c *Client, request func(context.Context, *pb.Client) (T, error)) (T, error) {
	return CallWithin(ctx, c, c.timeout, request)
}

// CallWithin is Call with its own timeout.
func CallWithin[T any](ctx context.Context, c *Client, limit time.Duration, request func(context.Context, *pb.Client) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := backoffFirst; ; wait = min(2*wait, backoffMost) {
		if c.closing.Err() != nil {
			var none T
			return none, c.explain(ctx, c.closing.Err())
		}
		v, err := request(bounded, c.points)
		if err == nil || !passing(err) || !c.pause(bounded, wait) {
			return v, c.explain(ctx, err)
		}
	}
}

// passing reports whether a retry may succeed. Unknown is the status of a request
// whose handler ended without an answer, for example because the server was
// stopped. A collection that another server is making has no shards yet.
func passing(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Unknown || code == codes.Internal && strings.Contains(err.Error(), noShards)
}

const noShards = "0 of 0 read operations failed"

// pause waits with jitter, and reports whether there is time for another attempt.
func (c *Client) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait/2 + rand.N(wait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-c.closing.Done():
		return false
	case <-ctx.Done():
		return false
	}
}

// explain turns a failed request into a fault that says what the operator can do.
// If the caller cancelled the request, the error of its context is returned
// unchanged.
func (c *Client) explain(ctx context.Context, err error) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if c.closing.Err() != nil {
		return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s: the connection was closed", c.at)
	}
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.Canceled):
		return fmt.Errorf("wait for Qdrant at %s: %w", c.at, cause)
	case cause != nil && !passing(err): // the server hangs, whoever set the deadline
		return fault.Wrap(fmt.Errorf("%w: %w", cause, err), fault.StoreUnavailable, "Qdrant at %s did not answer in time", c.at).WithHint("%s", nextReach)
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Unknown:
		// The message contains the whole cause; wrapping would print it twice.
		return fault.New(fault.StoreUnavailable, "Qdrant at %s cannot be reached: %s", c.at, reason(err)).WithHint("%s", nextReach)
	case codes.DeadlineExceeded, codes.Canceled:
		return fault.Wrap(err, fault.StoreUnavailable, "Qdrant at %s did not answer within %s", c.at, c.timeout).WithHint("%s", nextReach)
	case codes.Unauthenticated, codes.PermissionDenied:
		return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s refuses the API key, or wants one: set QDRANT_API_KEY", c.at)
	case codes.Unimplemented:
		return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s does not know a request of this program: is it version %s or newer?", c.at, oldestServer)
	case codes.InvalidArgument:
		return fault.Wrap(err, fault.InvalidArgument, "Qdrant at %s: %s", c.at, reason(err))
	case codes.NotFound:
		return fault.Wrap(err, fault.NotFound, "Qdrant at %s: %s", c.at, reason(err))
	}
	return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s: %s", c.at, reason(err))
}

const nextReach = "start Qdrant, or correct QDRANT_URL (qdrant.url); nothing is lost meanwhile, the database has everything"

// dialFailure is the client's prefix of the reason why there is no connection.
var dialFailure = regexp.MustCompile(`^connection error: desc = "(?:transport: )?(.*)"$`)

// reason is what the server said, or why it was not reached, without gRPC's words around it.
func reason(err error) string {
	text := err.Error()
	var known interface{ GRPCStatus() *status.Status }
	if errors.As(err, &known) {
		text = known.GRPCStatus().Message()
	}
	if inner := dialFailure.FindStringSubmatch(text); inner != nil {
		text = inner[1]
	}
	return plain.Clip(text, reasonLength)
}
