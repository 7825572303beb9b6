package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/mark3labs/mcp-go/mcp"
)

// legacy sends questions to the client within the call.
func (x *exchange) legacy(ctx context.Context, req mcp.CallToolRequest, open opening) (*mcp.CallToolResult, error) {
	c := x.call(ctx, req)
	var opened string // id of the elicitation that sent the person to a page
	round, err := open(ctx, c.caller())
	for range toolset.MaxCallRounds {
		if round, err = x.later(ctx, c, round, err); err != nil {
			return failed(ctx, x.log, req, err)
		}
		if round.Reply != nil {
			return x.reply(ctx, c, round, opened)
		}
		opened = round.Ask.Elicitation()
		round, err = x.ask(ctx, c, round.Ask)
	}
	return failed(ctx, x.log, req, fmt.Errorf("more than %d rounds in one call", toolset.MaxCallRounds))
}

// ask sends a question to the client, or joins it if it was sent before, and returns
// the next round: after the answer, or, if the call may wait no longer, that the run
// waits.
func (x *exchange) ask(ctx context.Context, c *call, a *director.Ask) (director.Round, error) {
	if refusal := refuse(c.caller().Client, a); refusal != nil {
		if c.conn != nil {
			c.conn.questions.refused(questionKey{a.Run, a.Seq})
		}
		return x.engine.Continue(ctx, c.caller(), director.Continuation{Run: a.Run, Seq: a.Seq, Error: refusal})
	}
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	q, fresh, err := c.conn.questions.join(a, c, cancel)
	if err != nil || !fresh {
		cancel()
	}
	if err != nil {
		return director.Round{}, err
	}
	if fresh {
		trace := driver.TraceOf(ctx)
		c.conn.background(func(ctx context.Context) {
			defer cancel()
			defer close(q.resolved)
			x.resolve(driver.WithTrace(ctx, trace), waiting, c, q, a)
		})
	}
	select { // the question is sent even if the call can hardly wait
	case <-q.out:
	case <-q.settled:
	case <-ctx.Done():
	}
	inTime := x.await(ctx, c, q, a)
	c.conn.questions.stopWaiting(q, c, ctx.Err() != nil)
	if inTime || q.isSettled() {
		return q.round, q.err
	}
	if err := ctx.Err(); err != nil {
		return director.Round{}, err
	}
	reply, err := x.engine.Waiting(ctx, c.caller(), a.Run, a.Seq)
	onPage := err == nil && a.Linked && reply.ErrorCode != string(fault.WaitingForUser)
	if onPage {
		x.complete(ctx, c, a.Elicitation())
	}
	if (!a.Human || onPage) && c.conn.questions.giveUp(q) { // as the director does
		<-q.resolved // the cancellation is sent before the reply
	}
	return director.Round{Reply: &reply}, err
}

// await reports whether the question was settled before the call could wait no longer.
func (x *exchange) await(ctx context.Context, c *call, q *question, a *director.Ask) bool {
	wait := c.caller().CanWait
	if a.Wait > 0 {
		wait = min(wait, a.Wait)
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	var onPage <-chan struct{} // nil: never
	if a.Linked {
		settled, leave := x.watch(ctx, a.Run, a.Seq)
		defer leave()
		onPage = settled
	}
	keepAlive := time.NewTicker(x.progressEvery)
	defer keepAlive.Stop()
	for {
		x.again(ctx, c, q)
		select {
		case <-q.settled:
			return true
		case <-ctx.Done():
			return false
		case <-timeout.C:
			return false
		case <-onPage:
			return false
		case <-keepAlive.C:
			message := waitingForPerson
			if !a.Human {
				message = "waiting for the client to answer " + a.Method
			}
			x.note(ctx, c, message)
		}
	}
}

// again asks the question once more by this call if its answer may have been lost, with
// a call that is over. What was asked before can still be answered, because a person
// may be about to.
func (x *exchange) again(ctx context.Context, c *call, q *question) {
	select {
	case <-q.out:
	default:
		return // it was not asked yet
	}
	qs := c.conn.questions
	if c.peer.again(q, qs.takeOver(q, c, x.askAgain)) {
		qs.asks(q, c)
		x.log.InfoContext(ctx, "question asked again: no answer came to the call that asked it", "run", q.key.run, "seq", q.key.seq)
	}
}

// resolve sends a question and passes its answer to the director, however late it
// arrives. ctx outlives the call that asked; waiting ends with the question.
func (x *exchange) resolve(ctx, waiting context.Context, c *call, q *question, a *director.Ask) {
	conn := c.conn
	defer conn.questions.settle(q, director.Round{}, errLost) // only after a panic
	result, clientErr, err := c.peer.call(waiting, q, clientRequest{a.Method, a.Params})
	if errors.Is(err, errUnreachable) {
		clientErr, err = &driver.ClientError{Code: mcp.METHOD_NOT_FOUND, Message: err.Error()}, nil
	}
	if err != nil {
		conn.questions.settle(q, director.Round{}, err)
		return
	}
	caller := conn.questions.answering(q)
	in := director.Continuation{Run: a.Run, Seq: a.Seq, Result: result, Error: clientErr, Delay: conn.delayed(q, a.Human)}
	round, err := x.engine.Continue(ctx, caller, in)
	if err != nil && caller.Detached {
		x.log.WarnContext(ctx, "late answer not taken", "run", a.Run, "seq", a.Seq, "error", err)
	}
	conn.questions.settle(q, round, err)
}
