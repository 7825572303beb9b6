package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// opening is the engine call that a tool call stands for.
type opening func(ctx context.Context, c access.Caller) (director.Round, error)

// exchange plays rounds with the client until the engine has a reply, in
// whichever era the request speaks.
func (s *Server) exchange(ctx context.Context, req mcp.CallToolRequest, open opening) (*mcp.CallToolResult, error) {
	if server.IsModernRequest(ctx) {
		return s.modern(ctx, req, open)
	}
	return s.legacy(ctx, req, open)
}

// legacy sends the engine's questions to the client within the call.
func (s *Server) legacy(ctx context.Context, req mcp.CallToolRequest, open opening) (*mcp.CallToolResult, error) {
	c := s.call(ctx, req)
	var opened string // the elicitation that sent the person to a page
	round, err := open(ctx, c.caller())
	for range director.MaxCallRounds {
		if round, err = s.later(ctx, c, round, err); err != nil {
			return s.failed(ctx, req, err)
		}
		if round.Reply != nil {
			return s.reply(ctx, c, round, opened)
		}
		opened, _ = director.ByURL(round.Ask.Method, round.Ask.Params)
		round, err = s.ask(ctx, c, round.Ask)
	}
	return s.failed(ctx, req, fmt.Errorf("more than %d rounds in one call", director.MaxCallRounds))
}

// reply gives the reply of a round, after waiting for a person who answers apart
// from the client, as long as the call may. Who opened an elicitation of the
// legacy era is told that it is over.
func (s *Server) reply(ctx context.Context, c call, round director.Round, opened string) (*mcp.CallToolResult, error) {
	reply := round.Reply
	if p := round.Pending; p != nil && s.settled(ctx, c, p) {
		now, err := s.engine.Resumed(ctx, c.caller(), *p)
		if err != nil {
			s.log.WarnContext(ctx, "the reply after a person's answer is the one before it", "run", p.Run, "error", err)
		} else {
			reply = &now
			s.complete(ctx, c, opened)
		}
	}
	noteCode(ctx, reply.ErrorCode)
	return replied(reply)
}

// later keeps a call open that waits for a driver, and asks the driver again when
// it is time, as long as the call may wait. The reply after that says how long the
// wait still is.
func (s *Server) later(ctx context.Context, c call, round director.Round, err error) (director.Round, error) {
	for err == nil && round.Later != nil && s.retryIn(ctx, c, *round.Later) {
		round, err = s.engine.Retried(ctx, c.caller(), *round.Later)
	}
	if err != nil || round.Later == nil {
		return round, err
	}
	if err := ctx.Err(); err != nil {
		return round, err // nobody is there for the reply
	}
	caller := c.caller()
	caller.Detached = true
	return s.engine.Retried(ctx, caller, *round.Later)
}

// retryIn waits until the driver is to be asked again and reports whether the
// call may still wait for that.
func (s *Server) retryIn(ctx context.Context, c call, l director.Later) bool {
	left := s.waitLeft(c)
	due := time.NewTimer(min(l.After, left))
	defer due.Stop()
	message := "waiting for driver " + l.Driver + ": " + l.Message
	if l.Progress != nil {
		message += fmt.Sprintf(" (%.0f %%)", *l.Progress*100)
	}
	s.note(ctx, c, message)
	keepAlive := time.NewTicker(s.cfg.ProgressEvery)
	defer keepAlive.Stop()
	for {
		select {
		case <-due.C:
			return l.After < left
		case <-ctx.Done():
			return false
		case <-keepAlive.C:
			s.note(ctx, c, message)
		}
	}
}

// waitLeft is how long the call may still wait.
func (s *Server) waitLeft(c call) time.Duration {
	if c.conn == nil {
		return min(c.caller().CanWait, s.cfg.PlainWait) // nothing keeps such a call alive
	}
	return c.caller().CanWait
}

// settled waits for the person's answer and reports whether it came in time.
func (s *Server) settled(ctx context.Context, c call, p *director.Pending) bool {
	waiting, stop := context.WithTimeout(ctx, s.waitLeft(c))
	defer stop()
	onPage, leave := s.watch(waiting, p.Run, p.Seq)
	defer leave()
	keepAlive := time.NewTicker(s.cfg.ProgressEvery)
	defer keepAlive.Stop()
	for {
		select {
		case <-onPage:
			return true
		case <-waiting.Done():
			return false
		case <-keepAlive.C:
			s.note(ctx, c, waitingForPerson)
		}
	}
}

// complete tells a client that an elicitation by address is over.
func (s *Server) complete(ctx context.Context, c call, id string) {
	if id == "" || c.peer == nil {
		return
	}
	if err := c.peer.notify("notifications/elicitation/complete", map[string]any{"elicitationId": id}); err != nil {
		s.log.DebugContext(ctx, "note that an elicitation is complete not sent", "error", err)
	}
}

// call is one tool call in progress.
type call struct {
	conn  *connection
	peer  peer
	token any // progress token; nil: none
	// caller is who calls, with what is left of the time a call may take.
	caller func() access.Caller
	ticks  *atomic.Int64 // progress notes that were sent
}

func (s *Server) call(ctx context.Context, req mcp.CallToolRequest) call {
	c := s.caller(ctx, req)
	deadline := time.Now().Add(c.CanWait)
	from := originOf(ctx)
	return call{conn: from.conn, peer: from.peer, token: progressToken(req), ticks: new(atomic.Int64), caller: func() access.Caller {
		now := c
		now.CanWait = max(time.Until(deadline), 0)
		return now
	}}
}

// ask sends a question to the client, or joins it if it is out already, and
// returns the round after it: the one its answer leads to, or, when the call
// may wait no longer, that the run waits.
func (s *Server) ask(ctx context.Context, c call, a *director.Ask) (director.Round, error) {
	if refusal := refuse(c.caller().Client, a); refusal != nil {
		if c.conn != nil {
			c.conn.questions.refused(questionKey{a.Run, a.Seq})
		}
		return s.engine.Continue(ctx, c.caller(), director.Continuation{Run: a.Run, Seq: a.Seq, Error: refusal})
	}
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	q, fresh, err := c.conn.questions.join(a, c.caller, cancel)
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
			s.resolve(driver.WithTrace(ctx, trace), waiting, c, q, a)
		})
	}
	select { // a call that may hardly wait asks all the same
	case <-q.out:
	case <-q.settled:
	case <-ctx.Done():
	}
	if !fresh {
		c.peer.rejoin(q.key)
	}
	inTime := s.await(ctx, c, q, a)
	c.conn.questions.leave(q)
	if inTime || q.isSettled() {
		return q.round, q.err
	}
	if err := ctx.Err(); err != nil {
		return director.Round{}, err
	}
	reply, err := s.engine.Waiting(ctx, c.caller(), a.Run, a.Seq)
	onPage := err == nil && a.Linked && reply.ErrorCode != string(fault.WaitingForUser)
	if onPage {
		opened, _ := director.ByURL(a.Method, a.Params)
		s.complete(ctx, c, opened)
	}
	if (!a.Human || onPage) && c.conn.questions.giveUp(q) { // as the engine has
		<-q.resolved // the withdrawal goes out before the reply
	}
	return director.Round{Reply: &reply}, err
}

// await reports whether the question was settled before the call could wait no longer.
func (s *Server) await(ctx context.Context, c call, q *question, a *director.Ask) bool {
	wait := c.caller().CanWait
	if a.Wait > 0 {
		wait = min(wait, a.Wait)
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	var onPage <-chan struct{} // without a page it stays open
	if a.Linked {
		settled, leave := s.watch(ctx, a.Run, a.Seq)
		defer leave()
		onPage = settled
	}
	keepAlive := time.NewTicker(s.cfg.ProgressEvery)
	defer keepAlive.Stop()
	for {
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
			s.note(ctx, c, message)
		}
	}
}

// watch returns a channel that is closed when the question is no longer open;
// leave ends the watch.
func (s *Server) watch(ctx context.Context, id run.ID, seq int64) (settled <-chan struct{}, leave func()) {
	closed := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		if s.engine.Settled(ctx, id, seq) == nil {
			close(closed)
		}
	})
	return closed, func() {
		stop()
		watching.Wait()
	}
}

const waitingForPerson = "waiting for a person to answer"

// note sends a progress note, which keeps a client from giving up on a call that
// waits.
func (s *Server) note(ctx context.Context, c call, message string) {
	if c.token == nil || c.conn == nil {
		return
	}
	err := c.peer.notify("notifications/progress", map[string]any{
		"progressToken": c.token, "progress": c.ticks.Add(1), "message": message,
	})
	if err != nil {
		s.log.DebugContext(ctx, "progress note not sent", "error", err)
	}
}

// resolve sends a question and hands its answer to the engine, however late it
// comes. ctx outlives the call that asked; waiting ends with the question.
func (s *Server) resolve(ctx, waiting context.Context, c call, q *question, a *director.Ask) {
	conn := c.conn
	defer conn.questions.settle(q, director.Round{}, errLost) // only a panic leaves it to this
	result, clientErr, err := c.peer.call(waiting, q, clientRequest{a.Method, a.Params})
	if errors.Is(err, errUnheard) {
		clientErr, err = &driver.ClientError{Code: mcp.METHOD_NOT_FOUND, Message: err.Error()}, nil
	}
	if err != nil {
		conn.questions.settle(q, director.Round{}, err)
		return
	}
	caller := conn.questions.answering(q)
	in := director.Continuation{Run: a.Run, Seq: a.Seq, Result: result, Error: clientErr}
	round, err := s.engine.Continue(ctx, caller, in)
	if err != nil && caller.Detached {
		s.log.WarnContext(ctx, "late answer not taken", "run", a.Run, "seq", a.Seq, "error", err)
	}
	conn.questions.settle(q, round, err)
}

// refuse answers in the client's place a request that it did not declare; nil:
// it did, and may be asked.
func refuse(client driver.Client, a *director.Ask) *driver.ClientError {
	if len(a.Needs) == 0 || slices.ContainsFunc(a.Needs, func(pointer string) bool { return !client.Declares(pointer) }) {
		return director.NotDeclared(a.Method)
	}
	return nil
}

// modern returns the engine's question as an input_required result; the client
// repeats the call with the answer and the sealed state.
func (s *Server) modern(ctx context.Context, req mcp.CallToolRequest, open opening) (*mcp.CallToolResult, error) {
	caller := s.caller(ctx, req)
	digest, err := argumentsDigest(req.Params.RawArguments)
	if err != nil {
		return nil, invalidParams(errors.New("the arguments are not JSON"))
	}
	st := sealedState{Binding: binding{Principal: caller.Principal, Tool: req.Params.Name, Arguments: digest}}
	c := s.call(ctx, req)
	round, err := s.modernRound(ctx, req, caller, &st, open)
	for range director.MaxCallRounds {
		if round, err = s.later(ctx, c, round, err); err != nil {
			return s.failed(ctx, req, err)
		}
		if round.Reply != nil {
			return s.reply(ctx, c, round, "")
		}
		refusal := refuse(caller.Client, round.Ask)
		if refusal == nil {
			res, err := s.inputRequired(ctx, st, round.Ask)
			if err != nil {
				return s.failed(ctx, req, err)
			}
			return res, nil
		}
		st.Expires = 0
		in := director.Continuation{Run: round.Ask.Run, Seq: round.Ask.Seq, Error: refusal}
		round, err = s.engine.Continue(ctx, caller, in)
	}
	return s.failed(ctx, req, fmt.Errorf("more than %d rounds in one call", director.MaxCallRounds))
}

// modernRound is the first round of this request: the call itself, the answer
// to the question of its state, or what follows when the answer is missing.
func (s *Server) modernRound(
	ctx context.Context, req mcp.CallToolRequest, caller access.Caller, st *sealedState, open opening,
) (director.Round, error) {
	if req.Params.RequestState == "" {
		// Answers that come without their state answer nothing that was asked:
		// the call is a new one, and its client is asked.
		return open(ctx, caller)
	}
	sealed, err := s.seal.open(req.Params.RequestState, st.Binding)
	switch {
	case errors.Is(err, errState):
		return director.Round{}, invalidParams(err)
	case err != nil:
		return director.Round{}, err
	}
	answer, ok, err := answerTo(sealed, req.Params.InputResponses)
	if err != nil {
		return director.Round{}, err
	}
	if !ok {
		round, err := s.engine.Unanswered(ctx, caller, sealed.Run, sealed.Seq)
		if round.Ask != nil && round.Ask.Seq == sealed.Seq {
			st.Expires = sealed.Expires
		}
		return round, err
	}
	in := director.Continuation{Run: sealed.Run, Seq: sealed.Seq, Result: answer}
	round, err := s.engine.Continue(ctx, caller, in)
	if fault.CodeOf(err) == fault.Replayed {
		return director.Round{}, invalidParams(errors.New("this requestState was already used with another answer"))
	}
	return round, err
}

// answerTo is the client's own JSON for the question; further keys mean nothing.
func answerTo(st sealedState, responses mcp.InputResponses) (json.RawMessage, bool, error) {
	response, ok := responses[answerKey(st.Seq)]
	if !ok {
		return nil, false, nil
	}
	raw, err := json.Marshal(response)
	if err != nil {
		return nil, false, fmt.Errorf("encode input response: %w", err)
	}
	return raw, string(raw) != "null", nil
}

// inputRequired asks the client in the modern way. The note holds the request as
// it was rendered. The result holds it typed as well, for any transport, if it is
// one that mcp-go has a type for.
func (s *Server) inputRequired(ctx context.Context, st sealedState, a *director.Ask) (*mcp.CallToolResult, error) {
	st.Run, st.Seq = a.Run, a.Seq
	state, err := s.seal.seal(st)
	if err != nil {
		return nil, err
	}
	verbatim := clientRequest{Method: a.Method, Params: a.Params}
	key := answerKey(a.Seq)
	res := &mcp.CallToolResult{
		Result:               mcp.Result{ResultType: mcp.ResultTypeInputRequired},
		MultiRoundTripResult: mcp.MultiRoundTripResult{RequestState: state},
	}
	n := noteFrom(ctx)
	if n != nil {
		n.requests = map[string]clientRequest{key: verbatim}
	}
	raw, err := json.Marshal(verbatim)
	if err != nil {
		return nil, fmt.Errorf("encode input request: %w", err)
	}
	var typed mcp.InputRequest
	switch err := json.Unmarshal(raw, &typed); {
	case err == nil:
		res.InputRequests = mcp.InputRequests{key: typed}
	case n == nil || driver.MCPDefines(a.Method):
		return nil, fmt.Errorf("the request cannot be sent: %w", err)
	}
	return res, nil
}
