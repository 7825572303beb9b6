package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/internal/hidden"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// LoginTime is how long a person may take at the provider.
const LoginTime = 10 * time.Minute

// Client is this server as the provider knows it, where people log in with a browser.
type Client struct {
	ID     string
	Secret hidden.Text // empty: a public client, which has PKCE alone
}

// Begun is a login that is under way at the provider. Only the browser that has begun it may
// have it: it is the proof that an answer is its own.
type Begun struct {
	State, Nonce, Verifier string
	Callback               string // where the provider sends the browser back
	At                     time.Time
}

// Begin begins a login. The browser goes to the address that it returns.
func (p *Provider) Begin(ctx context.Context, c Client, callback string) (to string, b Begun, err error) {
	known, err := p.keys(ctx)
	if err != nil {
		return "", Begun{}, p.cannotLogIn(err)
	}
	b = Begun{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Callback: callback, At: p.cfg.Clock.Now()}
	return flow(known, c, callback).AuthCodeURL(b.State, oauth2.S256ChallengeOption(b.Verifier), oidc.Nonce(b.Nonce)), b, nil
}

// flow is the code flow of OAuth 2 for one login.
func flow(known *published, c Client, callback string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret.Reveal(), Endpoint: known.endpoint, RedirectURL: callback,
		Scopes: []string{oidc.ScopeOpenID, "profile"},
	}
}

// maxAnswer limits what is shown of an error that the provider names, in bytes.
const maxAnswer = 200

// Finish returns who has logged in, by the answer with which the provider has sent the browser
// back. The error of an answer that does not count has the code fault.InvalidToken, and
// fault.IdentityUnavailable if the provider does not answer.
func (p *Provider) Finish(ctx context.Context, c Client, b Begun, answer url.Values) (Identity, error) {
	code := answer.Get("code")
	switch {
	case p.cfg.Clock.Now().Sub(b.At) > LoginTime:
		return Identity{}, notLoggedIn(errors.New("it took more than ten minutes"))
	case subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(b.State)) != 1 || b.State == "":
		return Identity{}, notLoggedIn(errors.New("the answer is of another login"))
	case answer.Has("iss") && answer.Get("iss") != p.cfg.Issuer: // RFC 9207
		return Identity{}, notLoggedIn(errors.New("the answer is of another identity provider"))
	case answer.Get("error") != "":
		return Identity{}, notLoggedIn(errors.New("the identity provider says " +
			plain.LineWithin(strings.TrimSuffix(answer.Get("error")+": "+answer.Get("error_description"), ": "), maxAnswer)))
	case code == "":
		return Identity{}, notLoggedIn(errors.New("the answer has no code"))
	}
	known, err := p.keys(ctx)
	if err != nil {
		return Identity{}, p.cannotLogIn(err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	got, err := flow(known, c, b.Callback).Exchange(context.WithValue(ctx, oauth2.HTTPClient, p.http), code, oauth2.VerifierOption(b.Verifier))
	if err != nil {
		return Identity{}, p.exchanged(ctx, err)
	}
	token, _ := got.Extra("id_token").(string)
	if token == "" {
		return Identity{}, notLoggedIn(errors.New("the identity provider does not say who has logged in: let this client have the scope openid"))
	}
	return p.identified(ctx, c, b, token)
}

// exchanged is the error of a code that the provider does not exchange. Its reply goes to the log, for
// the operator, because it may name the client.
func (p *Provider) exchanged(ctx context.Context, err error) error {
	var replied *oauth2.RetrieveError
	if !errors.As(err, &replied) || replied.Response.StatusCode >= http.StatusInternalServerError {
		return p.cannotLogIn(err)
	}
	p.log.WarnContext(ctx, "the identity provider refused a login", "issuer", p.cfg.Issuer, "status", replied.Response.StatusCode, "code", replied.ErrorCode)
	return notLoggedIn(errors.New("the identity provider did not take its own code from this server; the server's log has its answer"))
}

// identified decides about the token that says who has logged in, by the rules of OpenID Connect
// (section 3.1.3.7).
func (p *Provider) identified(ctx context.Context, c Client, b Begun, token string) (Identity, error) {
	if len(token) > maxDocument {
		return Identity{}, notLoggedIn(errors.New("the identity provider says more than is read"))
	}
	payload, err := p.signed(ctx, token)
	switch {
	case fault.CodeOf(err) == fault.InvalidToken:
		return Identity{}, notLoggedIn(err)
	case err != nil:
		return Identity{}, err
	}
	audience, err := payload.audience()
	if err != nil {
		return Identity{}, notLoggedIn(err)
	}
	party := payload.text("azp")
	if !slices.Contains(audience, c.ID) || len(audience) > 1 && party == "" || party != "" && party != c.ID {
		return Identity{}, notLoggedIn(errors.New("the token that says who has logged in is for another client"))
	}
	if _, err := payload.current(p.cfg.Clock.Now()); err != nil {
		return Identity{}, notLoggedIn(err)
	}
	if subtle.ConstantTimeCompare([]byte(payload.text("nonce")), []byte(b.Nonce)) != 1 {
		return Identity{}, notLoggedIn(errors.New("the token that says who has logged in is of another login"))
	}
	who, err := payload.identity(p.cfg.Realm, token)
	if err != nil {
		return Identity{}, notLoggedIn(err)
	}
	who.Name = cmp.Or(who.Name, who.Principal[strings.LastIndexByte(who.Principal, ':')+1:])
	return who, nil
}

func notLoggedIn(err error) error {
	return fault.Wrap(err, fault.InvalidToken, "Nobody was logged in: %v. Open the page again that asked for the login.", err)
}

func (p *Provider) cannotLogIn(cause error) error {
	return fault.Wrap(cause, fault.IdentityUnavailable, "The identity provider %s does not answer as it should, so nobody can log in now. Try again later.", p.cfg.Issuer)
}
