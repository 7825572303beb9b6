package logins_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
)

var ada = logins.Person{Principal: "user:local:ada", Name: "Ada", Groups: []string{"group:local:release"}}

// open returns logins in a database of their own.
func open(t *testing.T) *logins.Logins {
	t.Helper()
	s := sqlitetest.New(t)
	return logins.New(s.Logins, nil, nil, slog.New(slog.DiscardHandler))
}

func mustLink(t *testing.T, l *logins.Logins) (logins.Login, logins.Secret) {
	t.Helper()
	made, link, err := l.Link(t.Context(), access.Caller{}, ada)
	if err != nil {
		t.Fatal(err)
	}
	return made, link
}

func wantWrong(t *testing.T, what string, err error) {
	t.Helper()
	if fault.CodeOf(err) != fault.InvalidToken {
		t.Errorf("%s = %v, want %s", what, err, fault.InvalidToken)
	}
}

func TestALinkLogsInOnce(t *testing.T) {
	l := open(t)
	made, link := mustLink(t, l)
	for range 2 { // programs that preview links use nothing up
		if linked, err := l.Linked(t.Context(), link); err != nil || linked.Principal != ada.Principal {
			t.Fatalf("Linked = %+v, %v, want the link of ada", linked, err)
		}
	}
	_, err := l.Verify(t.Context(), link)
	wantWrong(t, "Verify of a link", err)
	login, secret, err := l.Begin(t.Context(), link)
	if err != nil || login.ID != made.ID || login.Begun.IsZero() || len(login.Groups) != 1 {
		t.Fatalf("Begin = %+v, %v, want the login of ada", login, err)
	}
	if secret == link {
		t.Error("the secret of the login is that of the link")
	}
	if lasts := login.Expires.Sub(login.Begun); lasts != logins.Time {
		t.Errorf("the login lasts %s, want %s", lasts, logins.Time)
	}
	if found, err := l.Verify(t.Context(), secret); err != nil || found.Name != "Ada" {
		t.Errorf("Verify = %+v, %v, want Ada", found, err)
	}
	_, err = l.Linked(t.Context(), link)
	wantWrong(t, "Linked of a link that was used", err)
	_, _, err = l.Begin(t.Context(), link)
	wantWrong(t, "Begin with a link that was used", err)
	_, _, err = l.Begin(t.Context(), secret)
	wantWrong(t, "Begin with the secret of a login", err)
}

func TestOneOfManyBeginsTheLogin(t *testing.T) {
	l := open(t)
	_, link := mustLink(t, l)
	var mu sync.Mutex
	var begun int
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, _, err := l.Begin(t.Context(), link); err == nil {
				mu.Lock()
				defer mu.Unlock()
				begun++
			} else {
				wantWrong(t, "Begin", err)
			}
		})
	}
	all.Wait()
	if begun != 1 {
		t.Errorf("the link was used %d times, want once", begun)
	}
}

func TestALoginEnds(t *testing.T) {
	l := open(t)
	_, first := mustLink(t, l)
	login, secret, err := l.Begin(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Revoke(t.Context(), access.Caller{}, login.ID); err != nil {
		t.Fatal(err)
	}
	_, err = l.Verify(t.Context(), secret)
	wantWrong(t, "Verify of a login that was revoked", err)
	made, link := mustLink(t, l)
	if _, err := l.Revoke(t.Context(), access.Caller{}, made.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = l.Begin(t.Context(), link)
	wantWrong(t, "Begin with a link that was revoked", err)
	if _, err := l.Revoke(t.Context(), access.Caller{}, "none"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Revoke of no login = %v, want %s", err, fault.NotFound)
	}
	all, err := l.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Ended(time.Now()) != "revoked" {
		t.Errorf("List = %+v, %v, want two that were revoked", all, err)
	}
}

func TestLinksAndLoginsExpire(t *testing.T) {
	login := logins.Login{Expires: time.Unix(100, 0)}
	for at, want := range map[int64]string{99: "", 100: "expired", 101: "expired"} {
		if got := login.Ended(time.Unix(at, 0)); got != want {
			t.Errorf("Ended(%d) = %q, want %q", at, got, want)
		}
	}
}

// Nobody asks the provider about the groups of a person while a login lasts.
func TestALoginOfAProviderLastsAsLongAsItsGroupsMay(t *testing.T) {
	s := sqlitetest.New(t)
	machine := clocktest.New(time.Now())
	l := logins.New(s.Logins, nil, clock.New(machine), slog.New(slog.DiscardHandler))
	_, secret, err := l.Start(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	machine.Pass(14 * time.Minute)
	if _, err := l.Verify(t.Context(), secret); err != nil {
		t.Errorf("Verify after 14 minutes = %v, want the login", err)
	}
	machine.Pass(time.Minute)
	_, err = l.Verify(t.Context(), secret)
	wantWrong(t, "Verify after 15 minutes", err)
}

func TestStrangeNamesAreRefused(t *testing.T) {
	l := open(t)
	long := strings.Repeat("x", 64<<10)
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("group:local:%d", i)
	}
	for name, p := range map[string]logins.Person{
		"no realm":                      {Principal: "user:ada", Name: "Ada"},
		"another kind":                  {Principal: "group:local:ada", Name: "Ada"},
		"a line feed":                   {Principal: "user:local:ada\r\nSet-Cookie: a=b", Name: "Ada"},
		"a line feed in the name":       {Principal: "user:local:ada", Name: "Ada\r\nSet-Cookie: a=b"},
		"no name":                       {Principal: "user:local:ada", Name: "  "},
		"a long principal":              {Principal: "user:local:" + long, Name: "Ada"},
		"a long name":                   {Principal: "user:local:ada", Name: long},
		"many groups":                   {Principal: "user:local:ada", Name: "Ada", Groups: many},
		"a long group":                  {Principal: "user:local:ada", Name: "Ada", Groups: []string{"group:local:" + long}},
		"a group that no list can name": {Principal: "user:local:ada", Name: "Ada", Groups: []string{"group:local:on call"}},
		"a line feed in a group":        {Principal: "user:local:ada", Name: "Ada", Groups: []string{"group:local:a\nb"}},
		"a space as a group":            {Principal: "user:local:ada", Name: "Ada", Groups: []string{"space:production"}},
	} {
		if _, _, err := l.Link(t.Context(), access.Caller{}, p); fault.CodeOf(err) != fault.InvalidArgument || len(err.Error()) > 400 {
			t.Errorf("Link with %s = %.500v, want %s in few words", name, err, fault.InvalidArgument)
		}
	}
	for _, secret := range []logins.Secret{"", "short", logins.Secret(long)} {
		_, err := l.Verify(t.Context(), secret)
		wantWrong(t, fmt.Sprintf("Verify of %d bytes", len(secret)), err)
	}
}

func TestSecretsDoNotShow(t *testing.T) {
	_, link := mustLink(t, open(t))
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", link)
	for how, text := range map[string]string{"%v": fmt.Sprintf("%v", link), "%#v": fmt.Sprintf("%#v", link), "slog": log.String()} {
		if strings.Contains(text, link.Reveal()) {
			t.Errorf("%s shows the secret", how)
		}
	}
}
