package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/oidc"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/tokens"
)

// bearer says whose an access token is.
type bearer struct{ tokens *tokens.Tokens }

// Caller implements rest.Verifier. The calls of a token are those of its owner, in the spaces
// of the token. A token of an operator is not an operator: an agent has it.
func (b bearer) Caller(ctx context.Context, token string) (access.Caller, error) {
	t, err := b.tokens.Verify(ctx, tokens.Secret(token))
	if err != nil {
		return access.Caller{}, err
	}
	c := access.Caller{Principal: t.Owner, Credential: "token:" + t.ID, Method: access.ByToken, Space: t.Spaces[0], Groups: t.Spaces[1:]}
	if t.May != nil {
		c.Narrowed = &access.Verbs{Run: slices.Contains(t.May, access.Run), Write: slices.Contains(t.May, access.Write)}
	}
	return c, nil
}

// ofProvider says whose a token of the identity provider is.
type ofProvider struct{ provider *oidc.Provider }

// Caller implements rest.Verifier.
func (o ofProvider) Caller(ctx context.Context, token string) (access.Caller, error) {
	who, err := o.provider.Verify(ctx, token)
	if err != nil {
		return access.Caller{}, err
	}
	return access.Caller{
		Principal: who.Principal, Credential: who.Credential, Method: access.ByProvider, Name: who.Name, Application: who.Application,
		MemberOf: who.Groups,
	}, nil
}

// byForm has tokens checked by who issues tokens of their form: access tokens have a prefix, and
// others are of the identity provider.
type byForm struct{ access, provider rest.Verifier }

// Caller implements rest.Verifier.
func (b byForm) Caller(ctx context.Context, token string) (access.Caller, error) {
	if strings.HasPrefix(token, tokens.Prefix) {
		return b.access.Caller(ctx, token)
	}
	return b.provider.Caller(ctx, token)
}

// identify says who makes a request of the main port; nil: everybody is LocalPrincipal.
func identify(a *App) func(*http.Request) (access.Caller, error) {
	if !a.Config.Auth.Enabled {
		return nil
	}
	var v rest.Verifier = bearer{a.Tokens}
	if a.Provider != nil {
		v = byForm{v, ofProvider{a.Provider}}
	}
	by, policy := rest.Bearer(v), config.Policy(a.Config)
	return func(r *http.Request) (access.Caller, error) {
		c, err := by(r)
		if err == nil && c.Method != access.ByToken { // the operator has said of a token what it may
			c = policy.Admit(c)
		}
		return c, err
	}
}

// newProvider returns the identity provider of the configuration, or nil.
func newProvider(c config.Config, at *clock.Clock, log *slog.Logger) (*oidc.Provider, error) {
	if !c.OIDC.On() {
		return nil, nil
	}
	realm, err := oidc.Realm(c.OIDC.Issuer)
	if err != nil {
		return nil, fmt.Errorf("oidc.issuer: %w", err)
	}
	return oidc.New(oidc.Config{Issuer: c.OIDC.Issuer, Audience: c.OIDC.Audience, Realm: realm, Clock: at}, log), nil
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
	if in.Owner == localSpace {
		return tokens.Token{}, "", fault.New(fault.InvalidArgument, "%s is the space of this machine's operator, and nobody calls as it", localSpace).
			WithHint("name a person, such as user:acme:ada")
	}
	for i, name := range in.Spaces {
		switch {
		case name == "personal":
			in.Spaces[i] = in.Owner
			continue
		case strings.Contains(name, ":") && !strings.HasPrefix(name, "space:"):
			continue
		}
		id, err := a.made.named(strings.TrimPrefix(name, "space:"))
		if err != nil {
			return tokens.Token{}, "", err
		}
		in.Spaces[i] = id
	}
	return a.Tokens.Create(ctx, a.Caller(), in)
}
