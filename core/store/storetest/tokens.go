package storetest

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/tokens"
)

var tokenCases = map[string]func(*testing.T, Runs){
	"a token is found by the hash of its secret": tokensAreFound,
	"a token is revoked once":                    tokensAreRevoked,
	"the last use of a token never goes back":    usesOfTokens,
}

// NewToken returns a token with every field set.
func NewToken(id string) tokens.Token {
	return tokens.Token{
		May: []access.Verb{access.Read, access.Run},
		ID:  id, Owner: "user:acme:zoë@example.org", Name: "nightly \"build\" 🐙", Spaces: []string{mine, "space:production"},
		Created: epoch.Truncate(time.Millisecond), Expires: epoch.Add(24 * time.Hour).Truncate(time.Millisecond),
	}
}

func mustCreateToken(t *testing.T, s tokens.Store, token tokens.Token, secret byte) {
	t.Helper()
	if err := s.CreateToken(t.Context(), token, tokens.Hash{secret}); err != nil {
		t.Fatalf("CreateToken(%s) = %v, want nil", token.ID, err)
	}
}

func wantToken(t *testing.T, s tokens.Store, secret byte, want tokens.Token) {
	t.Helper()
	got, ok, err := s.TokenOf(t.Context(), tokens.Hash{secret})
	if err != nil || !ok {
		t.Fatalf("TokenOf(%d) = %t, %v, want token %s", secret, ok, err, want.ID)
	}
	wantSame(t, "TokenOf", want, got)
}

func tokensAreFound(t *testing.T, s Runs) {
	wantRead(t, "AllTokens", []tokens.Token(nil))(s.AllTokens(t.Context()))
	first, second := NewToken("a"), NewToken("b")
	second.Expires = time.Time{}
	mustCreateToken(t, s, first, 1)
	mustCreateToken(t, s, second, 2)
	wantToken(t, s, 1, first)
	wantToken(t, s, 2, second)
	if _, ok, err := s.TokenOf(t.Context(), tokens.Hash{3}); ok || err != nil {
		t.Errorf("TokenOf of another secret = %t, %v, want false, nil", ok, err)
	}
	wantRead(t, "AllTokens", []tokens.Token{second, first})(s.AllTokens(t.Context()))
	if err := s.CreateToken(t.Context(), NewToken("c"), tokens.Hash{1}); err == nil {
		t.Error("CreateToken with the secret of another = nil, want an error")
	}
	wantCancelled(t, "CreateToken", s.CreateToken(cancelled(t), NewToken("d"), tokens.Hash{4}))
	_, _, err := s.TokenOf(cancelled(t), tokens.Hash{1})
	wantCancelled(t, "TokenOf", err)
	wantRead(t, "AllTokens", []tokens.Token{second, first})(s.AllTokens(t.Context()))
}

func tokensAreRevoked(t *testing.T, s Runs) {
	token, other := NewToken("a"), NewToken("b")
	mustCreateToken(t, s, token, 1)
	mustCreateToken(t, s, other, 2)
	wantRead(t, "RevokeToken(c)", false)(s.RevokeToken(t.Context(), "c", epoch))
	for hour := range 2 { // the second time it was revoked already
		wantRead(t, "RevokeToken(a)", true)(s.RevokeToken(t.Context(), "a", epoch.Add(time.Duration(hour)*time.Hour)))
	}
	token.Revoked = epoch.Truncate(time.Millisecond)
	wantToken(t, s, 1, token)
	wantToken(t, s, 2, other)
}

func usesOfTokens(t *testing.T, s Runs) {
	token := NewToken("a")
	mustCreateToken(t, s, token, 1)
	for _, minute := range []int{1, 3, 2} {
		if err := s.UseToken(t.Context(), "a", epoch.Add(time.Duration(minute)*time.Minute)); err != nil {
			t.Fatalf("UseToken = %v, want nil", err)
		}
	}
	token.LastUsed = epoch.Add(3 * time.Minute).Truncate(time.Millisecond)
	wantToken(t, s, 1, token)
	if err := s.UseToken(t.Context(), "b", epoch); err != nil {
		t.Errorf("UseToken of a token that was never made = %v, want nil", err)
	}
}
