package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/logins"
)

var loginCases = map[string]func(*testing.T, Runs){
	"a login is found by the hash of its secret": loginsAreFound,
	"a link begins one login":                    linksBeginOnce,
	"a link that has ended begins no login":      endedLinks,
	"a login is revoked once":                    loginsAreRevoked,
	"the last use of a login never goes back":    usesOfLogins,
	"logins of long ago are forgotten":           loginsAreForgotten,
}

// newLink returns a login that was not begun.
func newLink(id string) logins.Login {
	created := epoch.Truncate(time.Millisecond)
	return logins.Login{
		ID: id, Person: logins.Person{Principal: "user:local:zoë", Name: "Zoë \"🐙\"", Groups: []string{"group:acme:platform team", "group:acme:/eng"}},
		Created: created, Expires: created.Add(10 * time.Minute),
	}
}

func mustCreateLogin(t *testing.T, s logins.Store, l logins.Login, secret byte) {
	t.Helper()
	if err := s.CreateLogin(t.Context(), l, logins.Hash{secret}, time.Time{}); err != nil {
		t.Fatalf("CreateLogin(%s) = %v, want nil", l.ID, err)
	}
}

func wantLogin(t *testing.T, s logins.Store, secret byte, want logins.Login) {
	t.Helper()
	got, ok, err := s.LoginOf(t.Context(), logins.Hash{secret})
	if err != nil || !ok {
		t.Fatalf("LoginOf(%d) = %t, %v, want login %s", secret, ok, err, want.ID)
	}
	wantSame(t, "LoginOf", want, got)
}

func wantNoLogin(t *testing.T, s logins.Store, secret byte) {
	t.Helper()
	if _, ok, err := s.LoginOf(t.Context(), logins.Hash{secret}); ok || err != nil {
		t.Errorf("LoginOf(%d) = %t, %v, want false, nil", secret, ok, err)
	}
}

func loginsAreFound(t *testing.T, s Runs) {
	wantRead(t, "AllLogins", []logins.Login(nil))(s.AllLogins(t.Context()))
	first, second := newLink("a"), newLink("b")
	second.Groups, second.Begun = nil, second.Created
	mustCreateLogin(t, s, first, 1)
	mustCreateLogin(t, s, second, 2)
	wantLogin(t, s, 1, first)
	wantLogin(t, s, 2, second)
	wantNoLogin(t, s, 3)
	if err := s.CreateLogin(t.Context(), newLink("c"), logins.Hash{1}, time.Time{}); err == nil {
		t.Error("CreateLogin with the secret of another = nil, want an error")
	}
	wantCancelled(t, "CreateLogin", s.CreateLogin(cancelled(t), newLink("d"), logins.Hash{4}, time.Time{}))
	_, _, err := s.LoginOf(cancelled(t), logins.Hash{1})
	wantCancelled(t, "LoginOf", err)
	wantRead(t, "AllLogins", []logins.Login{second, first})(s.AllLogins(t.Context()))
}

func linksBeginOnce(t *testing.T, s Runs) {
	const callers = 8
	link := newLink("a")
	mustCreateLogin(t, s, link, 1)
	mustCreateLogin(t, s, newLink("b"), 2)
	at, until := link.Created.Add(time.Minute), link.Created.Add(12*time.Hour)
	var begun atomic.Int64
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			ok, err := s.BeginLogin(t.Context(), logins.Hash{1}, logins.Hash{10 + byte(n)}, at, until)
			switch {
			case err != nil:
				t.Errorf("BeginLogin = %v, want nil", err)
			case ok:
				begun.Add(1)
			}
		})
	}
	all.Wait()
	if begun.Load() != 1 {
		t.Errorf("%d of %d callers have begun the login, want one", begun.Load(), callers)
	}
	wantNoLogin(t, s, 1)
	wantLogin(t, s, 2, newLink("b"))
	link.Begun, link.Expires = at, until
	wantRead(t, "AllLogins", []logins.Login{newLink("b"), link})(s.AllLogins(t.Context()))
}

func endedLinks(t *testing.T, s Runs) {
	revoked, expired := newLink("a"), newLink("b")
	mustCreateLogin(t, s, revoked, 1)
	mustCreateLogin(t, s, expired, 2)
	wantRead(t, "RevokeLogin", true)(s.RevokeLogin(t.Context(), "a", revoked.Created))
	until := revoked.Created.Add(12 * time.Hour)
	wantRead(t, "BeginLogin of a revoked link", false)(s.BeginLogin(t.Context(), logins.Hash{1}, logins.Hash{3}, revoked.Created, until))
	wantRead(t, "BeginLogin of an expired link", false)(s.BeginLogin(t.Context(), logins.Hash{2}, logins.Hash{3}, expired.Expires, until))
	wantRead(t, "BeginLogin of no link", false)(s.BeginLogin(t.Context(), logins.Hash{9}, logins.Hash{3}, revoked.Created, until))
	wantNoLogin(t, s, 3)
}

func loginsAreRevoked(t *testing.T, s Runs) {
	login, other := newLink("a"), newLink("b")
	mustCreateLogin(t, s, login, 1)
	mustCreateLogin(t, s, other, 2)
	wantRead(t, "RevokeLogin(c)", false)(s.RevokeLogin(t.Context(), "c", epoch))
	for hour := range 2 { // the second time it was revoked already
		wantRead(t, "RevokeLogin(a)", true)(s.RevokeLogin(t.Context(), "a", epoch.Add(time.Duration(hour)*time.Hour)))
	}
	login.Revoked = epoch.Truncate(time.Millisecond)
	wantLogin(t, s, 1, login)
	wantLogin(t, s, 2, other)
}

func usesOfLogins(t *testing.T, s Runs) {
	login := newLink("a")
	mustCreateLogin(t, s, login, 1)
	for _, minute := range []int{1, 3, 2} {
		if err := s.UseLogin(t.Context(), "a", epoch.Add(time.Duration(minute)*time.Minute)); err != nil {
			t.Fatalf("UseLogin = %v, want nil", err)
		}
	}
	login.LastUsed = epoch.Add(3 * time.Minute).Truncate(time.Millisecond)
	wantLogin(t, s, 1, login)
}

func loginsAreForgotten(t *testing.T, s Runs) {
	old, kept, added := newLink("a"), newLink("b"), newLink("c")
	kept.Expires = kept.Expires.Add(time.Hour)
	mustCreateLogin(t, s, old, 1)
	mustCreateLogin(t, s, kept, 2)
	if err := s.CreateLogin(t.Context(), added, logins.Hash{3}, old.Expires.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	wantRead(t, "AllLogins", []logins.Login{added, kept})(s.AllLogins(t.Context()))
}
