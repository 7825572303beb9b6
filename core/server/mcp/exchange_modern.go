package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/mark3labs/mcp-go/mcp"
)

// modern returns a question as an input_required result. The client repeats the call
// with the answer and the sealed state.
func (x *exchange) modern(ctx context.Context, req mcp.CallToolRequest, open opening) (*mcp.CallToolResult, error) {
	caller := x.callers.of(ctx, req)
	digest, err := argumentsDigest(req.Params.RawArguments)
	if err != nil {
		return nil, invalidParams(errors.New("the arguments are not JSON"))
	}
	st := sealedState{Binding: binding{Principal: caller.Principal, Tool: req.Params.Name, Arguments: digest}}
	c := x.call(ctx, req)
	round, err := x.modernRound(ctx, req, caller, &st, open)
	for range toolset.MaxCallRounds {
		if round, err = x.later(ctx, c, round, err); err != nil {
			return failed(ctx, x.log, req, err)
		}
		if round.Reply != nil {
			return x.reply(ctx, c, round, "")
		}
		refusal := refuse(caller.Client, round.Ask)
		if refusal == nil {
			res, err := x.inputRequired(ctx, st, round.Ask)
			if err != nil {
				return failed(ctx, x.log, req, err)
			}
			return res, nil
		}
		st.Expires = 0
		in := director.Continuation{Run: round.Ask.Run, Seq: round.Ask.Seq, Error: refusal}
		round, err = x.engine.Continue(ctx, caller, in)
	}
	return failed(ctx, x.log, req, fmt.Errorf("more than %d rounds in one call", toolset.MaxCallRounds))
}

// modernRound is the first round of this request: the call itself, the answer
// to the question of its state, or what follows when the answer is missing.
func (x *exchange) modernRound(
	ctx context.Context, req mcp.CallToolRequest, caller access.Caller, st *sealedState, open opening,
) (director.Round, error) {
	if req.Params.RequestState == "" {
		// Answers without their state do not belong to a question: this is a new
		// call.
		return open(ctx, caller)
	}
	sealed, err := x.seal.open(req.Params.RequestState, st.Binding)
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
		round, err := x.engine.Unanswered(ctx, caller, sealed.Run, sealed.Seq)
		if round.Ask != nil && round.Ask.Seq == sealed.Seq {
			st.Expires = sealed.Expires
		}
		return round, err
	}
	in := director.Continuation{Run: sealed.Run, Seq: sealed.Seq, Result: answer}
	round, err := x.engine.Continue(ctx, caller, in)
	if fault.CodeOf(err) == fault.Replayed {
		return director.Round{}, invalidParams(errors.New("this requestState was already used with another answer"))
	}
	return round, err
}

// answerTo returns the client's JSON for the question. Other keys are ignored.
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
func (x *exchange) inputRequired(ctx context.Context, st sealedState, a *director.Ask) (*mcp.CallToolResult, error) {
	st.Run, st.Seq = a.Run, a.Seq
	state, err := x.seal.seal(st)
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
