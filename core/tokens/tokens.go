// Package tokens makes and checks the access tokens of agents and scripts. A token says whose
// it is and in which spaces it works. Nothing here decides about the rights of its owner.
package tokens

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
)

// Token is what is kept of an access token. Its secret is not.
type Token struct {
	ID string `json:"id"` // UUIDv7
	// Owner is the principal that the token's calls are made for: user:<realm>:<name>.
	Owner string `json:"owner"`
	// Name says what the token is for.
	Name string `json:"name"`
	// Spaces are the ids of the spaces in which the token works. It writes to the first one
	// unless a call names another.
	Spaces []string `json:"spaces"`
	// May are the verbs that it has there, besides reading; nil: all.
	May     []access.Verb `json:"may,omitempty"`
	Created time.Time     `json:"created"`
	Expires time.Time     `json:"expires,omitzero"` // zero: never
	// LastUsed is the time of the last call, give or take a minute; zero: there was none.
	LastUsed time.Time `json:"last_used,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"` // zero: it was not
}

// Ended says why the token does not count any more; empty: it counts.
func (t Token) Ended(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	}
	return ""
}

// Hash is the SHA-256 of a secret.
type Hash = [sha256.Size]byte

// Store keeps tokens. Every method may block, honours its context, and is called
// concurrently, also by several processes. Times are kept to the millisecond.
type Store interface {
	// CreateToken keeps a new token under the hash of its secret.
	CreateToken(ctx context.Context, t Token, secret Hash) error
	// TokenOf returns the token whose secret has the hash; false: there is none.
	TokenOf(ctx context.Context, secret Hash) (Token, bool, error)
	// AllTokens lists all tokens, the newest first.
	AllTokens(ctx context.Context) ([]Token, error)
	// RevokeToken revokes a token and reports whether it exists. The time of an earlier
	// revocation stays.
	RevokeToken(ctx context.Context, id string, at time.Time) (bool, error)
	// UseToken records a use of a token unless a later one is recorded.
	UseToken(ctx context.Context, id string, at time.Time) error
}

const (
	// believedFor is how long a token is not looked up again, known or not. Calls that last
	// look at theirs in an interval of their own, and both together take less than a second.
	believedFor = 500 * time.Millisecond
	// cacheBytes limits the known tokens in memory, and the unknown ones apart from them:
	// guessing must not evict the known ones.
	cacheBytes = 1 << 20
	// useEvery is how often a use of a token is recorded at most, and useTime how long
	// recording it may take.
	useEvery = time.Minute
	useTime  = 5 * time.Second
)

// looked is what a look at the store has found.
type looked struct {
	token Token
	at    time.Time // with the monotonic clock
}

// Tokens makes, checks and revokes tokens. Its methods may be called concurrently.
type Tokens struct {
	store          Store
	audit          *audit.Log
	clock          *clock.Clock
	log            *slog.Logger
	known, unknown *cache.Cache[Hash, looked]

	work    context.Context // of uses that are being recorded
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex           // guards the fields below
	uses   map[string]time.Time // when a use was last recorded here, by id
	closed bool
}

// New returns the tokens of a store. What is made and revoked is audited; nil clock: this
// machine's. Close ends what it records in the background.
func New(store Store, audited *audit.Log, c *clock.Clock, log *slog.Logger) *Tokens {
	t := &Tokens{
		store: store, audit: audited, clock: cmp.Or(c, clock.System()), log: log, uses: map[string]time.Time{},
		known: cache.New[Hash, looked](cacheBytes), unknown: cache.New[Hash, looked](cacheBytes),
	}
	t.work, t.stop = context.WithCancel(context.Background())
	return t
}

// Close cancels what is recorded in the background and waits for its end. It may be called
// more than once.
func (t *Tokens) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	t.running.Wait()
	return nil
}

// Verify returns the token with the secret. An error of a token that does not count has the
// code fault.InvalidToken. A revocation counts within half a second. A secret with the right
// form always takes the same way, known or not: the database finds it by its hash, from whose
// comparison nothing of the secret can be learned.
func (t *Tokens) Verify(ctx context.Context, secret Secret) (Token, error) {
	if !wellFormed(secret) {
		return Token{}, fault.New(fault.InvalidToken, "this is not a token of KAIROS: it begins with %s and has %d characters, of which the last %d are a checksum",
			Prefix, secretLength, checksumLength)
	}
	found, ok, err := t.lookUp(ctx, hashOf(secret))
	if err != nil {
		return Token{}, fmt.Errorf("look up a token: %w", err)
	}
	now := t.clock.Now()
	switch ended := found.Ended(now); {
	case !ok:
		return Token{}, fault.New(fault.InvalidToken, "this server has no such token")
	case ended != "":
		return Token{}, fault.New(fault.InvalidToken, "this token was %s", ended)
	}
	t.noteUse(found, now)
	return found, nil
}

func (t *Tokens) lookUp(ctx context.Context, secret Hash) (found Token, ok bool, err error) {
	if was, fresh := current(t.known, secret); fresh {
		return was.token, true, nil
	}
	if _, fresh := current(t.unknown, secret); fresh {
		return Token{}, false, nil
	}
	at := time.Now() // before the look: what is revoked meanwhile counts from here
	found, ok, err = t.store.TokenOf(ctx, secret)
	switch {
	case err != nil:
		return Token{}, false, err
	case ok:
		t.known.Put(secret, looked{found, at}, len(secret)+found.size())
	default:
		t.unknown.Put(secret, looked{at: at}, len(secret))
	}
	return found, ok, nil
}

func current(c *cache.Cache[Hash, looked], secret Hash) (looked, bool) {
	was, ok := c.Get(secret)
	return was, ok && time.Since(was.at) < believedFor
}

// size is about how many bytes a token takes.
func (t Token) size() int {
	size := 200 + len(t.ID) + len(t.Owner) + len(t.Name)
	for _, s := range t.Spaces {
		size += 16 + len(s)
	}
	return size
}

// noteUse records a use in the background.
func (t *Tokens) noteUse(used Token, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || now.Sub(used.LastUsed) < useEvery || now.Sub(t.uses[used.ID]) < useEvery {
		return
	}
	t.uses[used.ID] = now
	t.running.Go(func() {
		ctx, cancel := context.WithTimeout(t.work, useTime)
		defer cancel()
		if err := t.store.UseToken(ctx, used.ID, now); err != nil && t.work.Err() == nil {
			t.log.WarnContext(ctx, "the use of a token was not recorded", "token", used.ID, "error", err)
		}
	})
}

// List lists all tokens, the newest first, also those that do not count any more.
func (t *Tokens) List(ctx context.Context) ([]Token, error) {
	all, err := t.store.AllTokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the tokens: %w", err)
	}
	return all, nil
}

// Revoke revokes a token for ever.
func (t *Tokens) Revoke(ctx context.Context, c access.Caller, id string) (_ Token, err error) {
	doing, err := t.audit.Begin(ctx, c, audit.Act{Action: audit.TokenRevoke, Object: id, Anyway: true})
	if err != nil {
		return Token{}, err
	}
	defer doing.End(&err)
	there, err := t.store.RevokeToken(ctx, id, t.clock.Now())
	if err != nil {
		return Token{}, fmt.Errorf("revoke token %s: %w", id, err)
	}
	all, err := t.List(ctx)
	if err != nil {
		return Token{}, err
	}
	i := slices.IndexFunc(all, func(other Token) bool { return other.ID == id })
	if !there || i < 0 {
		return Token{}, fault.New(fault.NotFound, "there is no token %q", id).WithHint("`kairos token list --all` lists the tokens")
	}
	return all[i], nil
}
