package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// opening is the engine call with which a tool call begins.
type opening func(ctx context.Context, c access.Caller) (director.Round, error)

// exchange puts what the director wants to know to clients: as a request within the
// call in the eras up to 2025-11-25, as an input_required result from 2026-07-28 on.
type exchange struct {
	engine        Questions
	callers       callers
	seal          sealer
	progressEvery time.Duration
	askAgain      time.Duration
	log           *slog.Logger
}

// run asks the client until the director has a reply, in the era of the request.
func (x *exchange) run(ctx context.Context, req mcp.CallToolRequest, open opening) (*mcp.CallToolResult, error) {
	if server.IsModernRequest(ctx) {
		return x.modern(ctx, req, open)
	}
	return x.legacy(ctx, req, open)
}

// reply gives the reply of a round. If a person answers on a page, it waits for
// the answer as long as the call may, and then tells a client of the legacy era
// that the elicitation it opened is complete.
func (x *exchange) reply(ctx context.Context, c *call, round director.Round, opened string) (*mcp.CallToolResult, error) {
	reply, encoded := round.Reply, round.Encoded
	if p := round.Pending; p != nil && x.settled(ctx, c, p) {
		now, err := x.engine.Resumed(ctx, c.caller(), *p)
		if err != nil {
			x.log.WarnContext(ctx, "the reply after a person's answer is the one before it", "run", p.Run, "error", err)
		} else {
			reply, encoded = &now, nil
			x.complete(ctx, c, opened)
		}
	}
	noteCode(ctx, reply.ErrorCode)
	if encoded != nil {
		return carrying(encoded), nil
	}
	return result(reply)
}

// later keeps a call open that waits for a driver, and retries when the driver asked
// for it, as long as the call may wait. The last reply says when to call again.
func (x *exchange) later(ctx context.Context, c *call, round director.Round, err error) (director.Round, error) {
	for err == nil && round.Later != nil && x.retryIn(ctx, c, *round.Later) {
		round, err = x.engine.Retried(ctx, c.caller(), *round.Later)
	}
	if err != nil || round.Later == nil {
		return round, err
	}
	if err := ctx.Err(); err != nil {
		return round, err // the caller is gone
	}
	caller := c.caller()
	caller.Detached = true
	return x.engine.Retried(ctx, caller, *round.Later)
}

// retryIn waits until the next retry of the driver, and reports whether the call may
// wait that long.
func (x *exchange) retryIn(ctx context.Context, c *call, l director.Later) bool {
	left := x.waitLeft(c)
	due := time.NewTimer(min(l.After, left))
	defer due.Stop()
	message := "waiting for driver " + l.Driver + ": " + l.Message
	if l.Progress != nil {
		message += fmt.Sprintf(" (%.0f %%)", *l.Progress*100)
	}
	x.note(ctx, c, message)
	keepAlive := time.NewTicker(x.progressEvery)
	defer keepAlive.Stop()
	for {
		select {
		case <-due.C:
			return l.After < left
		case <-c.gone():
			return false
		case <-ctx.Done():
			return false
		case <-keepAlive.C:
			x.note(ctx, c, message)
		}
	}
}

// waitLeft returns how long the call may still wait.
func (x *exchange) waitLeft(c *call) time.Duration {
	if c.conn == nil {
		return min(c.caller().CanWait, x.callers.plainWait) // nothing keeps such a call alive
	}
	return c.caller().CanWait
}

// settled waits for the person's answer and reports whether it arrived in time.
func (x *exchange) settled(ctx context.Context, c *call, p *director.Pending) bool {
	waiting, stop := context.WithTimeout(ctx, x.waitLeft(c))
	defer stop()
	onPage, leave := x.watch(waiting, p.Run, p.Seq)
	defer leave()
	keepAlive := time.NewTicker(x.progressEvery)
	defer keepAlive.Stop()
	for {
		select {
		case <-onPage:
			return true
		case <-c.gone():
			return false
		case <-waiting.Done():
			return false
		case <-keepAlive.C:
			x.note(ctx, c, waitingForPerson)
		}
	}
}

// watch returns a channel that is closed when the question is no longer open;
// leave ends the watch.
func (x *exchange) watch(ctx context.Context, id run.ID, seq int64) (settled <-chan struct{}, leave func()) {
	closed := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		if x.engine.Settled(ctx, id, seq) == nil {
			close(closed)
		}
	})
	return closed, func() {
		stop()
		watching.Wait()
	}
}

// complete notifies the client that an elicitation by URL is complete.
func (x *exchange) complete(ctx context.Context, c *call, id string) {
	if id == "" || c.peer == nil {
		return
	}
	if err := c.peer.notify("notifications/elicitation/complete", map[string]any{"elicitationId": id}); err != nil {
		x.log.DebugContext(ctx, "note that an elicitation is complete not sent", "error", err)
	}
}

// call is one tool call in progress.
type call struct {
	conn  *connection
	peer  peer
	token any // progress token; nil: none
	// caller returns the caller with the time that is left to wait.
	caller func() access.Caller
	ticks  atomic.Int64 // progress notes that were sent
}

func (x *exchange) call(ctx context.Context, req mcp.CallToolRequest) *call {
	c := x.callers.of(ctx, req)
	deadline := time.Now().Add(c.CanWait)
	from := originOf(ctx)
	return &call{conn: from.conn, peer: from.peer, token: progressToken(req), caller: func() access.Caller {
		now := c
		now.CanWait = max(time.Until(deadline), 0)
		return now
	}}
}

// gone is closed when nobody is left to whom the call could reply. A call without a connection
// ends with its context.
func (c *call) gone() <-chan struct{} {
	if c.conn == nil {
		return nil
	}
	return c.conn.gone
}

const waitingForPerson = "waiting for a person to answer"

// note sends a progress notification, so that the client does not give up a call that
// waits.
func (x *exchange) note(ctx context.Context, c *call, message string) {
	if c.token == nil || c.conn == nil {
		return
	}
	err := c.peer.notify("notifications/progress", map[string]any{
		"progressToken": c.token, "progress": c.ticks.Add(1), "message": message,
	})
	if err != nil {
		x.log.DebugContext(ctx, "progress note not sent", "error", err)
	}
}

// refuse returns the error of a request that the client has not declared, or nil if it
// may be sent.
func refuse(client driver.Client, a *director.Ask) *driver.ClientError {
	if len(a.Needs) == 0 || slices.ContainsFunc(a.Needs, func(pointer string) bool { return !client.Declares(pointer) }) {
		return toolset.NotDeclared(a.Method)
	}
	return nil
}
