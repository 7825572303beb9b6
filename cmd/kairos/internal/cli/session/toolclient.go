package session

import (
	"context"
	"os"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/director"
)

// Tools are the nine calls, answered by this process or by a server.
type Tools interface {
	Search(ctx context.Context, in api.SearchRequest) (api.SearchReply, error)
	Begin(ctx context.Context, in api.BeginRequest) (api.StepReply, error)
	Next(ctx context.Context, in api.NextRequest) (api.StepReply, error)
	Attest(ctx context.Context, in api.AttestRequest) (api.AttestReply, error)
	Mint(ctx context.Context, in api.MintRequest) (api.MintReply, error)
	Update(ctx context.Context, in api.UpdateRequest) (api.UpdateReply, error)
	Delete(ctx context.Context, in api.DeleteRequest) (api.DeleteReply, error)
	Dump(ctx context.Context, in api.DumpRequest) (api.DumpReply, error)
	Spaces(ctx context.Context, in api.SpacesRequest) (api.SpacesReply, error)
}

// WithTools runs do on the nine calls of the server, else of the local database.
func (s Session) WithTools(ctx context.Context, do func(context.Context, Tools) error) error {
	if address := s.Server(); address != "" {
		client, err := client.New(address, client.Token(os.Getenv(TokenEnv)), nil)
		if err != nil {
			return err
		}
		return do(ctx, client)
	}
	return s.With(ctx, func(ctx context.Context, a *app.App) error { return do(ctx, local{app: a}) })
}

// local answers the nine calls in this process.
type local struct{ app *app.App }

func (l local) Search(ctx context.Context, in api.SearchRequest) (api.SearchReply, error) {
	return l.app.Engine.Search(ctx, l.app.Caller(), in)
}

func (l local) Begin(ctx context.Context, in api.BeginRequest) (api.StepReply, error) {
	return l.played(ctx, func() (director.Round, error) { return l.app.Engine.Begin(ctx, l.app.Caller(), in) })
}

func (l local) Next(ctx context.Context, in api.NextRequest) (api.StepReply, error) {
	return l.played(ctx, func() (director.Round, error) { return l.app.Engine.Next(ctx, l.app.Caller(), in) })
}

func (l local) Attest(ctx context.Context, in api.AttestRequest) (api.AttestReply, error) {
	return l.app.Engine.Attest(ctx, l.app.Caller(), in)
}

func (l local) Mint(ctx context.Context, in api.MintRequest) (api.MintReply, error) {
	return l.app.Engine.Mint(ctx, l.app.Caller(), in)
}

func (l local) Update(ctx context.Context, in api.UpdateRequest) (api.UpdateReply, error) {
	return l.app.Engine.Update(ctx, l.app.Caller(), in)
}

func (l local) Delete(ctx context.Context, in api.DeleteRequest) (api.DeleteReply, error) {
	return l.app.Engine.Delete(ctx, l.app.Caller(), in)
}

func (l local) Dump(ctx context.Context, in api.DumpRequest) (api.DumpReply, error) {
	return l.app.Engine.Dump(ctx, l.app.Caller(), in)
}

func (l local) Spaces(ctx context.Context, in api.SpacesRequest) (api.SpacesReply, error) {
	return l.app.Engine.Spaces(ctx, l.app.Caller(), in)
}

// played is the reply of a call. A command declares no capability of a client.
func (l local) played(ctx context.Context, open func() (director.Round, error)) (api.StepReply, error) {
	reply, err := director.Unasked(ctx, l.app.Engine, l.app.Caller(), open)
	if err != nil {
		return api.StepReply{}, err
	}
	return *reply, nil
}
