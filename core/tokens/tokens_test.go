package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/tokens"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store that counts its calls. fails, if set, is the error of all of them.
type memory struct {
	mu           sync.Mutex // guards the fields below
	all          []tokens.Token
	of           map[tokens.Hash]int // place in all
	looks, notes int
	fails        error
}

func (m *memory) CreateToken(_ context.Context, t tokens.Token, secret tokens.Hash) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[secret] = len(m.all)
	m.all = append(m.all, t)
	return m.fails
}

func (m *memory) TokenOf(_ context.Context, secret tokens.Hash) (tokens.Token, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	i, ok := m.of[secret]
	if !ok || m.fails != nil {
		return tokens.Token{}, false, m.fails
	}
	return m.all[i], true, nil
}

func (m *memory) AllTokens(context.Context) ([]tokens.Token, error) { return m.all, m.fails }

func (m *memory) RevokeToken(_ context.Context, id string, at time.Time) (bool, error) {
	return m.change(id, func(t *tokens.Token) { t.Revoked = at }), m.fails
}

func (m *memory) UseToken(_ context.Context, id string, at time.Time) error {
	m.change(id, func(t *tokens.Token) { t.LastUsed = at; m.notes++ })
	return m.fails
}

func (m *memory) change(id string, do func(*tokens.Token)) (there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.all {
		if m.all[i].ID == id {
			do(&m.all[i])
			there = true
		}
	}
	return there
}

func (m *memory) looked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks
}

func newTokens(t *testing.T) (*tokens.Tokens, *memory) {
	t.Helper()
	m := &memory{of: map[tokens.Hash]int{}}
	all := tokens.New(m, nil, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return all, m
}

func mustCreate(t *testing.T, all *tokens.Tokens, edit ...func(*tokens.Wanted)) (tokens.Token, tokens.Secret) {
	t.Helper()
	in := tokens.Wanted{Owner: "user:acme:ada", Name: "ci"}
	for _, e := range edit {
		e(&in)
	}
	token, secret, err := all.Create(t.Context(), access.Caller{}, in)
	if err != nil {
		t.Fatalf("Create = %v", err)
	}
	return token, secret
}

func wantInvalid(t *testing.T, all *tokens.Tokens, secret tokens.Secret, message string) {
	t.Helper()
	_, err := all.Verify(t.Context(), secret)
	if fault.CodeOf(err) != fault.InvalidToken || !strings.Contains(fmt.Sprint(err), message) {
		t.Errorf("Verify = %v, want INVALID_TOKEN with %q", err, message)
	}
	if text := secret.Reveal(); len(text) > 12 && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), text[4:]) {
		t.Errorf("the error has the secret: %v", err)
	}
}

func TestATokenIsVerifiedByItsSecret(t *testing.T) {
	all, m := newTokens(t)
	token, secret := mustCreate(t, all)
	if got, err := all.Verify(t.Context(), secret); err != nil || got.ID != token.ID || got.Owner != "user:acme:ada" || len(got.Spaces) != 1 || got.Spaces[0] != "user:acme:ada" {
		t.Errorf("Verify = %+v, %v, want %+v", got, err, token)
	}
	if !regexp.MustCompile(`^krs_[0-9A-Za-z]{49}$`).MatchString(secret.Reveal()) {
		t.Error("the secret does not have the form that programs look for")
	}
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s %q", secret, secret, secret, secret, secret), slog.AnyValue(secret).Resolve().String()} {
		if strings.Contains(shown, secret.Reveal()) {
			t.Errorf("the secret shows itself: %s", shown)
		}
	}
	for hash := range m.of {
		if strings.Contains(string(hash[:]), secret.Reveal()[4:12]) {
			t.Error("the store has a part of the secret")
		}
	}
}

// digit replaces a character of a secret by another digit to the base of 62.
func digit(secret tokens.Secret, at int) tokens.Secret {
	b := []byte(secret)
	b[at] = map[bool]byte{true: 'a', false: 'b'}[b[at] == 'b']
	return tokens.Secret(b)
}

func TestATypingErrorShowsWithoutTheDatabase(t *testing.T) {
	all, m := newTokens(t)
	_, secret := mustCreate(t, all)
	text := secret.Reveal()
	for at := len(tokens.Prefix); at < len(text); at++ {
		wantInvalid(t, all, digit(secret, at), "not a token of KAIROS")
	}
	for name, other := range map[string]string{
		"empty": "", "the prefix": tokens.Prefix, "cut": text[:len(text)-1], "longer": text + "0", "a blank": text + " ", "in capitals": strings.ToUpper(text),
		"another prefix": "ghp_" + text[4:], "a JWT": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.", "large": strings.Repeat(text, 1000), "not ASCII": strings.Repeat("ü", 27)[:53],
	} {
		t.Run(name, func(t *testing.T) { wantInvalid(t, all, tokens.Secret(other), "not a token of KAIROS") })
	}
	if m.looked() != 0 {
		t.Errorf("the database was asked %d times, want never", m.looked())
	}
}

// forged is a secret of the right form that nobody has made.
func forged(n int64) tokens.Secret {
	text := tokens.Prefix + fmt.Sprintf("%043s", big.NewInt(n).Text(62))
	return tokens.Secret(text + fmt.Sprintf("%06s", big.NewInt(int64(crc32.ChecksumIEEE([]byte(text)))).Text(62)))
}

func TestARevokedTokenDoesNotCountAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, m := newTokens(t)
		token, secret := mustCreate(t, all)
		for range 1000 {
			if _, err := all.Verify(t.Context(), secret); err != nil {
				t.Fatalf("Verify = %v", err)
			}
			wantInvalid(t, all, forged(7), "no such token")
		}
		if m.looked() != 2 {
			t.Errorf("the database was asked %d times, want once for each secret", m.looked())
		}
		another := tokens.New(m, nil, nil, slog.New(slog.DiscardHandler)) // of another process
		defer func() { _ = another.Close() }()
		if _, err := another.Revoke(t.Context(), access.Caller{}, token.ID); err != nil {
			t.Fatalf("Revoke = %v", err)
		}
		time.Sleep(time.Second)
		wantInvalid(t, all, secret, "revoked")
		if _, err := another.Revoke(t.Context(), access.Caller{}, "nobody's"); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("Revoke of a token that does not exist = %v, want NOT_FOUND", err)
		}
	})
}

func TestATokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newTokens(t)
		_, secret := mustCreate(t, all, func(in *tokens.Wanted) { in.Expires = time.Now().Add(time.Hour) })
		time.Sleep(time.Hour - time.Second)
		if _, err := all.Verify(t.Context(), secret); err != nil {
			t.Errorf("Verify before it expires = %v", err)
		}
		time.Sleep(time.Second)
		wantInvalid(t, all, secret, "expired")
	})
}

func TestUsesAreRecordedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, m := newTokens(t)
		_, secret := mustCreate(t, all)
		for range 180 { // a second each
			if _, err := all.Verify(t.Context(), secret); err != nil {
				t.Fatalf("Verify = %v", err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if m.notes != 3 || time.Since(m.all[0].LastUsed) > 2*time.Minute {
			t.Errorf("%d uses were recorded in three minutes, the last %s ago, want 3", m.notes, time.Since(m.all[0].LastUsed))
		}
	})
}

func TestGuessingLeavesTheKnownTokensInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still
		all, m := newTokens(t)
		_, secret := mustCreate(t, all)
		if _, err := all.Verify(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		for n := range int64(20_000) { // more than are kept
			wantInvalid(t, all, forged(n), "no such token")
		}
		before := m.looked()
		if _, err := all.Verify(t.Context(), secret); err != nil || m.looked() != before {
			t.Errorf("Verify = %v after %d further looks at the database, want none", err, m.looked()-before)
		}
		if wantInvalid(t, all, forged(0), "no such token"); m.looked() == before {
			t.Error("all guesses are kept in memory")
		}
	})
}

func TestAStoreThatFailsLetsNobodyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, m := newTokens(t)
		_, secret := mustCreate(t, all)
		if _, err := all.Verify(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the use that is recorded
		m.fails = fault.New(fault.StoreUnavailable, "the disk is gone")
		time.Sleep(time.Second)
		for _, s := range []tokens.Secret{secret, forged(1)} {
			if _, err := all.Verify(t.Context(), s); !errors.Is(err, m.fails) {
				t.Errorf("Verify = %v, want the store's error", err)
			}
		}
	})
}

func TestTokensThatCannotBeMade(t *testing.T) {
	all, m := newTokens(t)
	for name, tc := range map[string]struct {
		edit func(*tokens.Wanted)
		want string
	}{
		"no owner":                 {func(in *tokens.Wanted) { in.Owner = "" }, "cannot own a token"},
		"the local principal":      {func(in *tokens.Wanted) { in.Owner = "local" }, "cannot own a token"},
		"a group as the owner":     {func(in *tokens.Wanted) { in.Owner = "group:acme:sre" }, "cannot own a token"},
		"an owner without a realm": {func(in *tokens.Wanted) { in.Owner = "user:ada" }, "cannot own a token"},
		"an owner of two lines":    {func(in *tokens.Wanted) { in.Owner = "user:acme:ada\nuser:acme:bob" }, "cannot own a token"},
		"an owner with a colon":    {func(in *tokens.Wanted) { in.Owner = "user:acme:ada:bob" }, "cannot own a token"},
		"a long owner":             {func(in *tokens.Wanted) { in.Owner = "user:acme:" + strings.Repeat("a", 640) }, "cannot own a token"},
		"no name":                  {func(in *tokens.Wanted) { in.Name = " " }, "the name of a token"},
		"a name of two lines":      {func(in *tokens.Wanted) { in.Name = "a\nb" }, "the name of a token"},
		"a long name":              {func(in *tokens.Wanted) { in.Name = strings.Repeat("a", 160) }, "the name of a token"},
		"the space of another":     {func(in *tokens.Wanted) { in.Spaces = []string{"user:acme:bob"} }, "cannot work in space"},
		"the space of the local":   {func(in *tokens.Wanted) { in.Spaces = []string{"user:local:operator"} }, "cannot work in space"},
		"the space of the program": {func(in *tokens.Wanted) { in.Spaces = []string{"space:kairos-app"} }, "none writes there"},
		"a space with a blank":     {func(in *tokens.Wanted) { in.Spaces = []string{"space:a space:b"} }, "cannot work in space"},
		"a space twice":            {func(in *tokens.Wanted) { in.Spaces = []string{"space:a", "space:a"} }, "named twice"},
		"many spaces":              {func(in *tokens.Wanted) { in.Spaces = make([]string, 64) }, "at most 32 spaces"},
		"a time that has passed":   {func(in *tokens.Wanted) { in.Expires = time.Now().Add(-time.Minute) }, "expired already"},
	} {
		t.Run(name, func(t *testing.T) {
			in := tokens.Wanted{Owner: "user:acme:ada", Name: "ci"}
			tc.edit(&in)
			_, secret, err := all.Create(t.Context(), access.Caller{}, in)
			if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(fmt.Sprint(err), tc.want) || secret != "" {
				t.Errorf("Create = %v, want INVALID_ARGUMENT with %q", err, tc.want)
			}
		})
	}
	if len(m.all) != 0 {
		t.Errorf("%d tokens were kept, want none", len(m.all))
	}
}

func BenchmarkVerify(b *testing.B) {
	m := &memory{of: map[tokens.Hash]int{}}
	all := tokens.New(m, nil, nil, slog.New(slog.DiscardHandler))
	defer func() { _ = all.Close() }()
	_, secret, err := all.Create(b.Context(), access.Caller{}, tokens.Wanted{Owner: "user:acme:ada", Name: "ci"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := all.Verify(b.Context(), secret); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzOnlyTheSecretItselfIsTaken(f *testing.F) {
	m := &memory{of: map[tokens.Hash]int{}}
	all := tokens.New(m, nil, nil, slog.New(slog.DiscardHandler))
	defer func() { _ = all.Close() }()
	_, secret, err := all.Create(context.Background(), access.Caller{}, tokens.Wanted{Owner: "user:acme:ada", Name: "ci"})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", tokens.Prefix, forged(1).Reveal(), secret.Reveal()[:20], "krs_\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, other string) {
		if _, err := all.Verify(t.Context(), tokens.Secret(other)); err == nil && other != secret.Reveal() || err != nil && fault.CodeOf(err) != fault.InvalidToken {
			t.Errorf("Verify(%q) = %v, want INVALID_TOKEN", other, err)
		}
	})
}
