package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// lifetime is that of access tokens.
const lifetime = 10 * time.Minute

var errUnknown = errors.New("not known here")

// grant is what a client was granted, or asks for: a login that is under way, and later what a
// refresh token continues.
type grant struct {
	id, client, subject string
	resource            string
	scopes              []string
	authTime            time.Time
	asked               *oidc.AuthRequest
	done                bool
	forAccess           bool // an access token is made, whose audience is the resource
}

func (g *grant) GetID() string          { return g.id }
func (g *grant) GetACR() string         { return "" }
func (g *grant) GetAMR() []string       { return []string{"pwd"} }
func (g *grant) GetAuthTime() time.Time { return g.authTime }
func (g *grant) GetClientID() string    { return g.client }
func (g *grant) GetSubject() string     { return g.subject }
func (g *grant) GetScopes() []string    { return g.scopes }

func (g *grant) GetAudience() []string {
	if g.forAccess && g.resource != "" {
		return []string{g.resource}
	}
	return []string{g.client}
}

// login is a grant that somebody is about to log in for.
type login struct{ *grant }

func (l login) GetNonce() string                   { return l.asked.Nonce }
func (l login) GetRedirectURI() string             { return l.asked.RedirectURI }
func (l login) GetResponseType() oidc.ResponseType { return l.asked.ResponseType }
func (l login) GetResponseMode() oidc.ResponseMode { return l.asked.ResponseMode }
func (l login) GetState() string                   { return l.asked.State }
func (l login) Done() bool                         { return l.done }

func (l login) GetCodeChallenge() *oidc.CodeChallenge {
	if l.asked.CodeChallenge == "" {
		return nil
	}
	return &oidc.CodeChallenge{Challenge: l.asked.CodeChallenge, Method: l.asked.CodeChallengeMethod}
}

// refresh is a grant that a refresh token continues.
type refresh struct{ *grant }

func (r refresh) SetCurrentScopes(scopes []string) { r.scopes = scopes }

// storage implements op.Storage in memory.
type storage struct {
	*keys
	clients map[string]*client
	left    sync.Map // people who belong to no group any more

	mu        sync.Mutex // guards the fields below
	logins    map[string]*grant
	codes     map[string]string // id of a login by code
	refreshes map[string]*grant
	subjects  map[string]*grant // by the id of an access token, for the userinfo endpoint
}

func newStorage(issuer string) *storage {
	k := new(keys)
	return &storage{
		keys: k, clients: newClients(issuer, k), logins: map[string]*grant{}, codes: map[string]string{}, refreshes: map[string]*grant{}, subjects: map[string]*grant{},
	}
}

type resourceKey struct{}

// resourceOf is the resource of RFC 8707 that a request names, which op does not read.
func resourceOf(ctx context.Context) string {
	r, _ := ctx.Value(resourceKey{}).(string)
	return r
}

func (s *storage) CreateAuthRequest(ctx context.Context, asked *oidc.AuthRequest, subject string) (op.AuthRequest, error) {
	g := &grant{id: rand.Text(), client: asked.ClientID, subject: subject, resource: resourceOf(ctx), scopes: asked.Scopes, asked: asked}
	if !slices.Contains(g.scopes, oidc.ScopeOfflineAccess) { // refresh tokens for everybody, as Keycloak
		g.scopes = append(slices.Clone(g.scopes), oidc.ScopeOfflineAccess)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins[g.id] = g
	return login{g}, nil
}

// logIn ends a login, with the right password.
func (s *storage) logIn(id, subject, given string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.logins[id]
	if _, known := people[subject]; !ok || !known || given != password {
		return errors.New("wrong name or password, or this login is over")
	}
	g.subject, g.done, g.authTime = subject, true, s.now()
	return nil
}

func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.logins[id]; ok {
		return login{g}, nil
	}
	return nil, errUnknown
}

func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	id := s.codes[code]
	delete(s.codes, code) // it counts once
	s.mu.Unlock()
	return s.AuthRequestByID(ctx, id)
}

func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = id
	return nil
}

func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.logins, id)
	return nil
}

func grantOf(request op.TokenRequest) *grant {
	switch r := request.(type) {
	case login:
		return r.grant
	case refresh:
		return r.grant
	case *grant:
		return r
	}
	return nil
}

func (s *storage) CreateAccessToken(_ context.Context, request op.TokenRequest) (string, time.Time, error) {
	g := grantOf(request)
	if g == nil {
		return "", time.Time{}, errUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.forAccess = true
	id := rand.Text()
	s.subjects[id] = g
	return id, s.now().Add(lifetime), nil
}

func (s *storage) CreateAccessAndRefreshTokens(ctx context.Context, request op.TokenRequest, current string) (string, string, time.Time, error) {
	id, until, err := s.CreateAccessToken(ctx, request)
	if err != nil {
		return "", "", time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refreshes, current)
	next := rand.Text()
	s.refreshes[next] = grantOf(request)
	return id, next, until, nil
}

func (s *storage) TokenRequestByRefreshToken(_ context.Context, token string) (op.RefreshTokenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.refreshes[token]; ok {
		return refresh{g}, nil
	}
	return nil, op.ErrInvalidRefreshToken
}

func (s *storage) TerminateSession(_ context.Context, subject, client string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, g := range s.refreshes {
		if g.subject == subject && g.client == client {
			delete(s.refreshes, token)
		}
	}
	return nil
}

func (s *storage) RevokeToken(_ context.Context, token, _, _ string) *oidc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refreshes, token)
	delete(s.subjects, token)
	return nil
}

func (s *storage) GetRefreshTokenInfo(_ context.Context, _, token string) (string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.refreshes[token]; ok {
		return g.subject, token, nil
	}
	return "", "", op.ErrInvalidRefreshToken
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if c, ok := s.clients[id]; ok {
		return c, nil
	}
	return nil, errUnknown
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	c, ok := s.clients[id]
	if !ok {
		return errUnknown
	}
	return c.knows(secret)
}

func (s *storage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	if err := s.AuthorizeClientIDSecret(ctx, id, secret); err != nil {
		return nil, err
	}
	return s.clients[id], nil
}

func (s *storage) ClientCredentialsTokenRequest(ctx context.Context, id string, scopes []string) (op.TokenRequest, error) { //nolint:unparam // the interface has an error
	return &grant{client: id, subject: id, resource: resourceOf(ctx), scopes: scopes}, nil
}

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

func (s *storage) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string) error { //nolint:unparam // the interface has an error
	s.setInfo(info, r.GetSubject(), r.GetClientID())
	return nil
}

func (s *storage) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, id, subject, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.subjects[id]
	if !ok {
		return errUnknown
	}
	s.setInfo(info, subject, g.client)
	return nil
}

func (s *storage) setInfo(info *oidc.UserInfo, subject, client string) {
	info.Subject = subject
	for name, value := range s.claims(subject, client) {
		info.AppendClaims(name, value)
	}
}

func (s *storage) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errUnknown
}

// GetPrivateClaimsFromRequest is called once the claims of an access token are made, so that
// what is signed afterwards with the same grant is for the client.
func (s *storage) GetPrivateClaimsFromRequest(_ context.Context, request op.TokenRequest, _ []string) (map[string]any, error) {
	g := grantOf(request)
	if g == nil {
		return nil, errUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.forAccess = false
	return s.claims(g.subject, g.client), nil
}

func (s *storage) GetPrivateClaimsFromScopes(_ context.Context, subject, client string, _ []string) (map[string]any, error) {
	return s.claims(subject, client), nil
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errUnknown
}

func (s *storage) ValidateJWTProfileScopes(_ context.Context, _ string, scopes []string) ([]string, error) {
	return scopes, nil
}

func (s *storage) Health(context.Context) error { return nil }
