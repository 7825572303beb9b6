package main

import (
	"crypto/subtle"
	"errors"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// password is everybody's.
const password = "password"

// person has an account here. The subject is the user name.
type person struct {
	name   string
	groups []string
	roles  []string
}

var people = map[string]person{
	"ada":   {name: "Ada Lovelace", groups: []string{"eng", "sre"}},
	"bob":   {name: "Bob Kahn", groups: []string{"eng", "release"}},
	"carol": {name: "Carol Shaw", groups: []string{"release"}},
	"dan":   {name: "Dan Bricklin", roles: []string{"reader"}},
}

// claims are what tokens say of a subject besides the registered claims.
func (s *storage) claims(subject, client string) map[string]any {
	out := map[string]any{"azp": client}
	p, ok := people[subject]
	if !ok {
		return out
	}
	out["name"], out["preferred_username"] = p.name, subject
	if _, left := s.left.Load(subject); p.groups != nil && !left {
		out["groups"] = p.groups
	}
	if p.roles != nil {
		out["realm_access"] = map[string]any{"roles": p.roles}
	}
	return out
}

// client is a program that asks for tokens.
type client struct {
	id, secret string
	native     bool
	grants     []oidc.GrantType
	issuer     string
	keys       *keys
}

func newClients(issuer string, k *keys) map[string]*client {
	code := []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken}
	return map[string]*client{
		"kairos": {id: "kairos", secret: "kairos-secret", grants: code, issuer: issuer, keys: k},
		"agent":  {id: "agent", native: true, grants: code, issuer: issuer, keys: k},
		"robot":  {id: "robot", secret: "robot-secret", grants: []oidc.GrantType{oidc.GrantTypeClientCredentials}, issuer: issuer, keys: k},
	}
}

func (c *client) knows(secret string) error {
	if c.secret == "" || subtle.ConstantTimeCompare([]byte(c.secret), []byte(secret)) != 1 {
		return errors.New("wrong client or secret")
	}
	return nil
}

// The methods below implement op.HasRedirectGlobs.

func (c *client) GetID() string                        { return c.id }
func (c *client) RedirectURIs() []string               { return nil }
func (c *client) PostLogoutRedirectURIs() []string     { return nil }
func (c *client) RedirectURIGlobs() []string           { return loopback }
func (c *client) PostLogoutRedirectURIGlobs() []string { return loopback }
func (c *client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c *client) GrantTypes() []oidc.GrantType                             { return c.grants }
func (c *client) LoginURL(id string) string                                { return c.issuer + "/login?id=" + id }
func (c *client) AccessTokenType() op.AccessTokenType                      { return op.AccessTokenTypeJWT }
func (c *client) DevMode() bool                                            { return true }
func (c *client) IsScopeAllowed(string) bool                               { return true }
func (c *client) IDTokenUserinfoClaimsAssertion() bool                     { return true }
func (c *client) ClockSkew() time.Duration                                 { return -c.keys.skew() }
func (c *client) IDTokenLifetime() time.Duration                           { return lifetime + 2*c.keys.skew() }
func same(scopes []string) []string                                        { return scopes }
func (c *client) RestrictAdditionalIdTokenScopes() func([]string) []string { return same } //nolint:revive // the name is that of op.Client
func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return same
}

// loopback is where clients may be.
var loopback = []string{
	"http://127.0.0.1:*/**", "http://localhost:*/**", "https://127.0.0.1:*/**", "https://localhost:*/**", "http://[[]::1]:*/**",
}

func (c *client) ApplicationType() op.ApplicationType {
	if c.native {
		return op.ApplicationTypeNative
	}
	return op.ApplicationTypeWeb
}

func (c *client) AuthMethod() oidc.AuthMethod {
	if c.native {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}
