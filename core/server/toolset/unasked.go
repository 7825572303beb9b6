package toolset

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// MaxCallRounds bounds one call of a client: an engine that asks more often is out
// of order.
const MaxCallRounds = 32

// NotDeclared is the answer of a client that must not be asked, because
// it has not declared the method. -32601 is what JSON-RPC 2.0 has for a method
// that is not known.
func NotDeclared(method string) *driver.ClientError {
	return &driver.ClientError{Code: -32601, Message: "the client has not declared " + method}
}

// Continuer takes what becomes of a question, as Engine does.
type Continuer interface {
	Continue(ctx context.Context, c access.Caller, in director.Continuation) (director.Round, error)
}

// Unasked plays the rounds of a call for a client that can be asked nothing: a
// question that comes nevertheless is answered as such a client would.
func Unasked(ctx context.Context, e Continuer, c access.Caller, open func() (director.Round, error)) (*api.StepReply, error) {
	round, err := open()
	for range MaxCallRounds {
		if err != nil {
			return nil, err
		}
		if round.Reply != nil {
			return round.Reply, nil
		}
		round, err = e.Continue(ctx, c, director.Continuation{
			Run: round.Ask.Run, Seq: round.Ask.Seq, Error: NotDeclared(round.Ask.Method),
		})
	}
	return nil, fmt.Errorf("more than %d rounds in one call", MaxCallRounds)
}
