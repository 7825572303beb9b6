package driverhost

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// invocation is one call as the driver's methods describe it.
type invocation struct {
	method string
	// memo is the request if it is likely to come again: the answer of a pure
	// driver to it is kept.
	memo any
	// timeout of the call. The default is the driver's own.
	timeout time.Duration
	// roots that the driver has to see.
	roots []string
}

// notCalledError is the reason why a driver was not reached, so that it cannot
// have acted.
type notCalledError struct{ error }

func (e notCalledError) Unwrap() error { return e.error }

// NotCalled distinguishes it from a call that was lost.
func (notCalledError) NotCalled() bool { return true }

// call makes one call. If the process dies during the call, the call is repeated once on
// a fresh process, unless the driver has effects.
func call[Res any](
	ctx context.Context, s *slot, in invocation, sound func(Res, func(string) string) (Res, error),
	do func(context.Context, driverrpc.Calls) (Res, error),
) (Res, error) {
	began := time.Now()
	res, lost, err := attempt(ctx, s, in, do)
	again := lost && s.spec.entry.Descriptor.Effect != driver.EffectChanges
	if again {
		s.journal.repeated()
		res, lost, err = attempt(ctx, s, in, do)
	}
	if lost {
		err = fmt.Errorf("driver %s: its process died during the call: %w", s.spec.entry.Name, err)
	}
	if err == nil {
		if res, err = sound(res, s.secret.shown); err != nil {
			err = fmt.Errorf("driver %s: %w", s.spec.entry.Name, err)
		}
	}
	took := time.Since(began)
	if lost {
		s.journal.lost(in.method, took) // why has been recorded with the crash
	} else {
		s.journal.called(in.method, took, err)
	}
	s.host.observer.Called(Call{Driver: s.spec.entry.Name, Method: in.method, Took: took, Err: err, Repeated: again})
	return res, err
}

// attempt makes the call on the present process, or on one that it waits for.
// If lost, the process died during the call and its outcome is unknown.
func attempt[Res any](
	ctx context.Context, s *slot, in invocation, do func(context.Context, driverrpc.Calls) (Res, error),
) (res Res, lost bool, err error) {
	g, err := s.enter(ctx, in.roots)
	if err != nil {
		return res, false, notCalledError{err}
	}
	if key, ok := s.spec.memoKey(in); ok {
		if res, ok := recall[Res](g.memory, key); ok {
			g.endCall(false)
			s.journal.remembered()
			return res, false, nil
		}
		defer func() {
			if err == nil {
				g.memory.keep(key, res)
			}
		}()
	}
	began, timeout := time.Now(), cmp.Or(in.timeout, s.timeouts().call)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err = do(bounded, g.rpc)
	// The driver has the same deadline and may report it first.
	late := err != nil && ctx.Err() == nil && (bounded.Err() != nil || status.Code(err) == codes.DeadlineExceeded)
	lost = err != nil && !late && bounded.Err() == nil && g.processGone(err)
	gone := err != nil && ctx.Err() != nil // the caller left; the driver is not to blame
	raw := s.secret.hideIn(err)
	if lost && g.transport.lasting() {
		raw = s.secret.hideIn(g.lostBy())
	}
	err = plainError(raw, lost, late, timeout)
	g.endCall(!lost && !late && !gone)
	switch {
	case lost && g.transport.lasting():
		s.recordCrash(g, raw)
		return res, true, err
	case lost && !gone:
		s.recordCallCrash(g, raw)
		return res, true, err
	case late:
		s.recordTimeout(ctx, g)
	case gone && time.Since(began) > probeTime:
		s.host.work.Go(func() { s.probe(s.ctx, g) })
	case !gone:
		s.recordSuccess(g)
	}
	if err != nil {
		err = fmt.Errorf("driver %s: %w", s.spec.entry.Name, err)
	}
	return res, false, err
}

// toldError is an error whose text may be shown to people and agents.
type toldError struct {
	text  string
	cause error
}

func (e *toldError) Error() string { return e.text }

func (e *toldError) Unwrap() error { return e.cause }

// plainError leaves out what only concerns the transport: status codes and the paths of
// sockets.
func plainError(err error, lost, late bool, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case late:
		return &toldError{fmt.Sprintf("it did not answer within %v", timeout), err}
	case lost:
		return &toldError{oneLine(withoutLines(err)), err}
	}
	return &toldError{oneLine(status.Convert(err).Message()), err}
}

// statusText is what gRPC puts in front of an error's own words. Drivers pass it on with errors
// of services that they call.
var statusText = regexp.MustCompile(`rpc error: code = \w+ desc = `)

// oneLine makes a driver's error fit for a log line, a terminal and an agent.
func oneLine(text string) string {
	text = statusText.ReplaceAllString(text, "")
	return strings.Join(strings.FieldsFunc(plain.TextWithin(text, maxText), func(r rune) bool { return r == '\n' }), "; ")
}
