package app

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/tokens"
)

// bearer says whose an access token is.
type bearer struct{ tokens *tokens.Tokens }

// Caller implements rest.Verifier. The calls of a token are those of its owner, in the spaces
// of the token.
func (b bearer) Caller(ctx context.Context, token string) (access.Caller, error) {
	t, err := b.tokens.Verify(ctx, tokens.Secret(token))
	if err != nil {
		return access.Caller{}, err
	}
	return access.Caller{Principal: t.Owner, Credential: "token:" + t.ID, Method: access.ByToken, Space: t.Spaces[0], Groups: t.Spaces[1:]}, nil
}

// identify says who makes a request of the main port; nil: everybody is LocalPrincipal.
func identify(a *App) func(*http.Request) (access.Caller, error) {
	if !a.Config.Auth.Enabled {
		return nil
	}
	return rest.Bearer(bearer{a.Tokens})
}

// identified is identify for the MCP endpoint, behind the guards of the main port.
func identified(a *App) func(*http.Request) (access.Caller, error) {
	if !a.Config.Auth.Enabled {
		return nil
	}
	return func(r *http.Request) (access.Caller, error) {
		c, ok := access.CallerOf(r.Context())
		if !ok {
			return access.Caller{}, errors.New("a request has come past the guards")
		}
		return c, nil
	}
}

// CreateToken makes an access token. Its spaces are named by their ids, and those that
// operators made also by their names.
func CreateToken(ctx context.Context, a *App, in tokens.Wanted) (tokens.Token, tokens.Secret, error) {
	made := a.made.all()
	for i, name := range in.Spaces {
		switch {
		case name == "personal":
			in.Spaces[i] = in.Owner
			continue
		case strings.Contains(name, ":") && !strings.HasPrefix(name, "space:"):
			continue
		}
		id, err := library.SpaceID(strings.TrimPrefix(name, "space:"))
		if err != nil {
			return tokens.Token{}, "", err
		}
		if !slices.Contains(made, id) {
			return tokens.Token{}, "", fault.New(fault.SpaceNotFound, "there is no space %s", id).
				WithHint("make it with `kairos spaces create %s`, or name one that `kairos spaces list` lists", strings.TrimPrefix(id, "space:"))
		}
		in.Spaces[i] = id
	}
	return a.Tokens.Create(ctx, in)
}
