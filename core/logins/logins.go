// Package logins keeps who is logged in with a browser, and the links with which operators let
// people log in. A login says who the person is. Nothing here decides about their rights, and
// nothing knows of cookies.
package logins

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/principal"
	"github.com/kairos-mcp/kairos/internal/hidden"
)

// Login is a login of a person, or the link that makes one. Its secret is not kept.
type Login struct {
	ID string `json:"id"` // UUIDv7
	Person

	Created time.Time `json:"created"`
	// Begun is when the person logged in; zero: the link was not used.
	Begun time.Time `json:"begun,omitzero"`
	// Expires is when the login ends, or the link.
	Expires time.Time `json:"expires"`
	// LastUsed is the time of the last page, give or take a minute; zero: there was none.
	LastUsed time.Time `json:"last_used,omitzero"`
	// Revoked is when the person logged out, or the operator ended it; zero: neither.
	Revoked time.Time `json:"revoked,omitzero"`
}

// Person is somebody who logs in.
type Person struct {
	Principal string `json:"principal"` // user:<realm>:<name>
	// Name is what people call the person. It identifies nobody.
	Name string `json:"name"`
	// Groups are those that the person belonged to when the login was begun: group:<realm>:<name>.
	Groups []string `json:"groups"`
}

// Ended says why the login does not count any more; empty: it counts.
func (l Login) Ended(now time.Time) string {
	switch {
	case !l.Revoked.IsZero():
		return "revoked"
	case !now.Before(l.Expires):
		return "expired"
	}
	return ""
}

// Hash is the SHA-256 of a secret.
type Hash = [sha256.Size]byte

// Store keeps logins. Every method may block, honours its context, and is called concurrently,
// also by several processes. Times are kept to the millisecond.
type Store interface {
	// CreateLogin keeps a new login under the hash of its secret, and forgets those that
	// expired before a time.
	CreateLogin(ctx context.Context, l Login, secret Hash, forget time.Time) error
	// LoginOf returns the login whose secret has the hash; false: there is none.
	LoginOf(ctx context.Context, secret Hash) (Login, bool, error)
	// BeginLogin begins the login whose link has the hash, if it was not begun or revoked and
	// has not expired: from then on it has another secret. One of many callers gets true.
	BeginLogin(ctx context.Context, link, secret Hash, at, expires time.Time) (bool, error)
	// AllLogins lists all logins, the newest first.
	AllLogins(ctx context.Context) ([]Login, error)
	// RevokeLogin revokes a login and reports whether it exists. The time of an earlier
	// revocation stays.
	RevokeLogin(ctx context.Context, id string, at time.Time) (bool, error)
	// UseLogin records a use of a login unless a later one is recorded.
	UseLogin(ctx context.Context, id string, at time.Time) error
}

const (
	// linkTime is how long a link can be used.
	linkTime = 10 * time.Minute
	// Time is how long a login by a link counts.
	Time = 12 * time.Hour
	// ProviderTime is how long a login counts that an identity provider vouches for: until then
	// the groups of the person are those of the login.
	ProviderTime = 15 * time.Minute
	// keptFor is how long a login is listed after its end.
	keptFor = 30 * 24 * time.Hour
	// useEvery is how often a use is recorded at most.
	useEvery = time.Minute
)

// Limits of a person, in bytes and in groups. Identity providers may send many groups.
const (
	maxName      = 80
	maxGroups    = 1000
	maxGroupText = 64 << 10
)

// Secret is what a browser shows, or the last part of a link.
type Secret = hidden.Text

// secretLength is that of 256 bits in the alphabet of base64 for addresses.
const secretLength = 43

func newSecret() Secret {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	return Secret(base64.RawURLEncoding.EncodeToString(random[:]))
}

func hashOf(s Secret) Hash { return sha256.Sum256([]byte(s)) }

// Logins makes, checks and ends logins. Its methods may be called concurrently. It looks at the
// store each time, so a revocation counts at once.
type Logins struct {
	store Store
	audit *audit.Log
	clock *clock.Clock
	log   *slog.Logger
}

// New returns the logins of a store. Logins that begin and end are audited; nil clock: this machine's.
func New(store Store, audited *audit.Log, c *clock.Clock, log *slog.Logger) *Logins {
	return &Logins{store: store, audit: audited, clock: cmp.Or(c, clock.System()), log: log}
}

// Link makes a link with which a person logs in, once.
func (s *Logins) Link(ctx context.Context, c access.Caller, p Person) (Login, Secret, error) {
	act := audit.Act{Action: audit.LoginLink, Details: map[string]string{"person": p.Principal, "groups": strings.Join(p.Groups, " ")}}
	return s.create(ctx, c, act, p, func(now time.Time) Login { return Login{Created: now, Expires: now.Add(linkTime)} })
}

// Start logs in a person whom an identity provider has identified, for ProviderTime.
func (s *Logins) Start(ctx context.Context, p Person) (Login, Secret, error) {
	return s.create(ctx, callerOf(p), audit.Act{Action: audit.LoginStart, Details: map[string]string{"how": "provider"}}, p, func(now time.Time) Login { return Login{Created: now, Begun: now, Expires: now.Add(ProviderTime)} })
}

// callerOf is the person as the one who logs in.
func callerOf(p Person) access.Caller {
	return access.Caller{Principal: p.Principal, Method: access.ByLogin}
}

func (s *Logins) create(ctx context.Context, c access.Caller, act audit.Act, p Person, as func(now time.Time) Login) (_ Login, _ Secret, err error) {
	doing, err := s.audit.Begin(ctx, c, act)
	if err != nil {
		return Login{}, "", err
	}
	defer doing.End(&err)
	p.Name = strings.TrimSpace(p.Name)
	if err := p.check(); err != nil {
		return Login{}, "", err
	}
	now := s.now()
	made := as(now)
	made.ID, made.Person = s.clock.NewID(), p
	doing.On("", made.ID)
	secret := newSecret()
	if err := s.store.CreateLogin(ctx, made, hashOf(secret), now.Add(-keptFor)); err != nil {
		return Login{}, "", fmt.Errorf("keep a new login: %w", err)
	}
	return made, secret, nil
}

func (s *Logins) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

var (
	named = regexp.MustCompile(`^[^[:cntrl:]]+$`)
)

func (p Person) check() error {
	switch {
	case !principal.IsUser(p.Principal):
		return fault.New(fault.InvalidArgument, "%.80q cannot log in", p.Principal).
			WithHint("name a person as user:REALM:NAME, such as user:local:ada")
	case len(p.Name) > maxName || !named.MatchString(p.Name):
		return fault.New(fault.InvalidArgument, "the name of a person must be 1 to %d bytes in one line", maxName)
	case len(p.Groups) > maxGroups || len(strings.Join(p.Groups, "\n")) > maxGroupText:
		return fault.New(fault.InvalidArgument, "a person may be in %d groups, whose names have %d bytes at most: there are %d groups", maxGroups, maxGroupText, len(p.Groups))
	}
	for _, g := range p.Groups {
		if !principal.IsGroup(g) {
			return fault.New(fault.InvalidArgument, "%.80q is not a group", g).WithHint("name a group as group:REALM:NAME, such as group:local:release")
		}
	}
	return nil
}

// Linked returns whom a link logs in. It does not use the link up. The error of a link that
// does not count has the code fault.InvalidToken.
func (s *Logins) Linked(ctx context.Context, link Secret) (Login, error) {
	found, err := s.lookUp(ctx, link)
	switch {
	case err != nil:
		return Login{}, err
	case !found.Begun.IsZero(): // a login is not a link
		return Login{}, wrong()
	}
	return found, nil
}

// Begin logs the person in whose link it is, once.
func (s *Logins) Begin(ctx context.Context, link Secret) (_ Login, _ Secret, err error) {
	linked, err := s.Linked(ctx, link)
	if err != nil {
		return Login{}, "", err
	}
	doing, err := s.audit.Begin(ctx, callerOf(linked.Person), audit.Act{Action: audit.LoginStart, Object: linked.ID, Details: map[string]string{"how": "link"}})
	if err != nil {
		return Login{}, "", err
	}
	defer doing.End(&err)
	secret, now := newSecret(), s.now()
	begun, err := s.store.BeginLogin(ctx, hashOf(link), hashOf(secret), now, now.Add(Time))
	if err != nil {
		return Login{}, "", fmt.Errorf("begin a login: %w", err)
	}
	if !begun { // by another call meanwhile
		return Login{}, "", wrong()
	}
	found, err := s.Verify(ctx, secret)
	return found, secret, err
}

// wrong is the same for every secret that does not count: it tells nothing of what there was.
func wrong() *fault.Error {
	return fault.New(fault.InvalidToken, "this was used, has ended, or never was")
}

// Verify returns the login with the secret. The error of one that does not count has the code
// fault.InvalidToken.
func (s *Logins) Verify(ctx context.Context, secret Secret) (Login, error) {
	found, err := s.lookUp(ctx, secret)
	switch {
	case err != nil:
		return Login{}, err
	case found.Begun.IsZero(): // a link is not a login
		return Login{}, wrong()
	}
	if now := s.now(); now.Sub(found.LastUsed) >= useEvery {
		if err := s.store.UseLogin(ctx, found.ID, now); err != nil {
			s.log.WarnContext(ctx, "the use of a login was not recorded", "login", found.ID, "error", err)
		}
	}
	return found, nil
}

// lookUp returns the login with the secret if it has not ended.
func (s *Logins) lookUp(ctx context.Context, secret Secret) (Login, error) {
	if len(secret) != secretLength {
		return Login{}, wrong()
	}
	found, ok, err := s.store.LoginOf(ctx, hashOf(secret))
	if err != nil {
		return Login{}, fmt.Errorf("look up a login: %w", err)
	}
	if !ok || found.Ended(s.now()) != "" {
		return Login{}, wrong()
	}
	return found, nil
}

// List lists all logins and links, the newest first. Those that have ended long ago are not
// kept.
func (s *Logins) List(ctx context.Context) ([]Login, error) {
	all, err := s.store.AllLogins(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the logins: %w", err)
	}
	return all, nil
}

// Revoke ends a login, or a link, for ever.
func (s *Logins) Revoke(ctx context.Context, c access.Caller, id string) (_ Login, err error) {
	doing, err := s.audit.Begin(ctx, c, audit.Act{Action: audit.LoginRevoke, Object: id, Anyway: true})
	if err != nil {
		return Login{}, err
	}
	defer doing.End(&err)
	there, err := s.store.RevokeLogin(ctx, id, s.now())
	if err != nil {
		return Login{}, fmt.Errorf("revoke login %s: %w", id, err)
	}
	all, err := s.List(ctx)
	if err != nil {
		return Login{}, err
	}
	i := slices.IndexFunc(all, func(other Login) bool { return other.ID == id })
	if !there || i < 0 {
		return Login{}, fault.New(fault.NotFound, "there is no login %q", id).WithHint("`kairos logins list --all` lists the logins")
	}
	return all[i], nil
}
