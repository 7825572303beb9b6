package session

import (
	"context"
	"encoding/json"
	"os"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// WithTools runs do with what replies to calls of tools and operations: the
// server, else the local database.
func (s Session) WithTools(ctx context.Context, do func(context.Context, api.Transport) error) error {
	if address := s.Server(); address != "" {
		client, err := client.New(address, client.Token(os.Getenv(TokenEnv)), nil)
		if err != nil {
			return err
		}
		return do(ctx, server{client, address, s})
	}
	return s.With(ctx, func(ctx context.Context, a *app.App) error { return do(ctx, Local(a)) })
}

// Local replies to calls from the local database.
func Local(a *app.App) api.Transport { return local{app: a} }

// server replies to calls over REST.
type server struct {
	*client.Client
	address string
	session Session
}

// Call implements api.Transport. The call of an operator goes through the socket of a server
// of this machine, unless the environment has a token.
func (s server) Call(ctx context.Context, tool api.Declaration, arguments json.RawMessage) (json.RawMessage, error) {
	if _, ok := operations.Named(tool.Name); ok && os.Getenv(TokenEnv) == "" {
		own, ok, err := s.session.operator(ctx, s.address)
		if err != nil {
			return nil, err
		}
		if ok {
			defer own.Close()
			return own.Call(ctx, tool, arguments)
		}
	}
	return s.Client.Call(ctx, tool, arguments)
}

// local replies to calls in this process.
type local struct{ app *app.App }

// Call implements api.Transport. A command declares no capability of a client.
func (l local) Call(ctx context.Context, tool api.Declaration, arguments json.RawMessage) (json.RawMessage, error) {
	caller := l.app.Caller()
	if operation, ok := operations.Named(tool.Name); ok {
		if operation.OfRuns {
			caller = l.app.RunCaller()
		}
		reply, err := operation.Reply(ctx, l.app.Operations(), caller, arguments)
		if err != nil {
			return nil, err
		}
		return api.Encode(reply, "")
	}
	row, err := toolset.Named(tool.Name)
	if err != nil {
		return nil, err
	}
	var named struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(arguments, &named) == nil && named.URI != "" {
		caller = l.app.RunCaller() // a step of a run
	}
	reply, err := row.Unasked(ctx, toolset.UseCases{Runs: l.app.Engine, Library: l.app.Engine.Library}, caller, arguments)
	if err != nil {
		return nil, err
	}
	return api.Encode(reply, "")
}
