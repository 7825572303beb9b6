package app

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/oidc"
	"github.com/kairos-mcp/kairos/core/seal"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// signOn is the identity provider at which people log in with a browser.
type signOn struct {
	provider *oidc.Provider
	client   oidc.Client
	browsers browsers
	// sealer seals what a browser keeps meanwhile: any server with the keys can end the login.
	sealer seal.Sealer
	public string // address of the server; empty: as the browser calls it
}

// signOnLabel separates this use of the state keys from any other.
const signOnLabel = "kairos login at a provider 1"

// signOnOf is where people log in; nil: not at an identity provider.
func signOnOf(a *App) (rest.SignOn, error) {
	if a.Provider == nil || a.Config.OIDC.ClientID == "" {
		return nil, nil
	}
	client, err := a.Config.OIDC.Client()
	if err != nil {
		return nil, err
	}
	return signOn{a.Provider, client, browsersOf(a), seal.New(signOnLabel, a.stateKeys), strings.TrimRight(a.Config.HTTP.PublicURL, "/")}, nil
}

// Begin implements rest.SignOn.
func (s signOn) Begin(ctx context.Context, base string) (to, kept string, err error) {
	to, begun, err := s.provider.Begin(ctx, s.client, cmp.Or(s.public, base)+rest.CallbackPath)
	if err != nil {
		return "", "", err
	}
	text, err := json.Marshal(begun)
	if err != nil {
		return "", "", err
	}
	kept, err = s.sealer.Seal(text)
	return to, kept, err
}

// Finish implements rest.SignOn.
func (s signOn) Finish(ctx context.Context, kept string, answer url.Values) (rest.Session, error) {
	var begun oidc.Begun
	text, err := s.sealer.Open(kept)
	if err == nil {
		err = json.Unmarshal(text, &begun)
	}
	if err != nil {
		return rest.Session{}, fault.Wrap(err, fault.InvalidToken, "This login was not begun with this server. Open the page again that asked for it.")
	}
	who, err := s.provider.Finish(ctx, s.client, begun, answer)
	if err != nil {
		return rest.Session{}, err
	}
	return s.browsers.begun(s.browsers.logins.Start(ctx, logins.Person{Principal: who.Principal, Name: who.Name, Groups: who.Groups}))
}
