package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
)

const (
	// askTime limits a request to the provider.
	askTime = 5 * time.Second
	// keysFor is how long its keys are not fetched again unless a token has an unknown one, and
	// believedFor how long a token that counts is not checked again. A key that the provider
	// withdraws ends after both.
	keysFor     = 10 * time.Minute
	believedFor = 5 * time.Minute
	// Tokens with unknown keys make this server ask the provider no more often than this.
	askEvery = 10 * time.Second
	askBurst = 5
	// cacheBytes limits the tokens in memory that count.
	cacheBytes = 4 << 20
)

// Identity is whose a token is, as the provider says.
type Identity struct {
	Principal string   // user:<realm>:<subject>
	Name      string   // what people call the principal; may be empty
	Groups    []string // group:<realm>:<id or name>, as of when the token was issued
	// Application is the program that the token was issued to; empty: the provider does not say.
	Application string
	Credential  string // jwt:<hash of the token's id>
}

// Config says whose tokens count, and for whom they must be.
type Config struct {
	Issuer   string // as the provider writes itself
	Audience string // compared exactly (RFC 8707)
	Realm    string // Realm of the issuer
	Clock    *clock.Clock
}

// believed is a token that was checked.
type believed struct {
	Identity
	ends time.Time
	at   time.Time // with the monotonic clock
}

// Provider checks the tokens of an identity provider. Its methods may be called concurrently.
type Provider struct {
	cfg    Config
	log    *slog.Logger
	http   *http.Client
	tokens *cache.Cache[[sha256.Size]byte, believed]
	asking *rate.Limiter

	work    context.Context // of requests that outlive the call that began them
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex    // guards the fields below
	last   *published    // nil: nothing was fetched yet
	failed error         // why the last request failed; nil: it did not
	under  chan struct{} // closed when the request that is under way is over; nil: none is
	closed bool
}

// New returns a provider that was not asked yet. Close ends what it does in the background.
func New(cfg Config, log *slog.Logger) *Provider {
	p := &Provider{
		cfg: cfg, log: log, http: client(), tokens: cache.New[[sha256.Size]byte, believed](cacheBytes),
		asking: rate.NewLimiter(rate.Every(askEvery), askBurst),
	}
	p.work, p.stop = context.WithCancel(context.Background())
	return p
}

// Close cancels the requests to the provider and waits for their end. It may be called more
// than once.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.running.Wait()
	p.http.CloseIdleConnections()
	return nil
}

// Verify returns whose a token is. The error of a token that does not count has the code
// fault.InvalidToken, and one that cannot be checked because the provider does not answer
// fault.IdentityUnavailable. Keys that are known count on while it does not answer.
func (p *Provider) Verify(ctx context.Context, token string) (Identity, error) {
	hash, now := sha256.Sum256([]byte(token)), p.cfg.Clock.Now()
	if known, ok := p.tokens.Get(hash); ok && time.Since(known.at) < believedFor && now.Before(known.ends) {
		return known.Identity, nil
	}
	unverified, err := peek(token)
	if err != nil {
		return Identity{}, refused(err)
	}
	if unverified.text("iss") != p.cfg.Issuer { // its key would be looked for in vain
		return Identity{}, refused(errors.New("another identity provider has issued it: this server takes those of " + p.cfg.Issuer))
	}
	payload, err := p.signed(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	identity, ends, err := p.accept(payload, token, now)
	if err != nil {
		return Identity{}, refused(err)
	}
	size := len(hash) + len(identity.Principal) + len(identity.Name) + len(identity.Application) + len(identity.Credential)
	for _, g := range identity.Groups {
		size += 16 + len(g)
	}
	p.tokens.Put(hash, believed{identity, ends.Add(maxSkew), time.Now()}, size)
	return identity, nil
}

// accept decides about a token whose signature is right.
func (p *Provider) accept(payload claims, token string, now time.Time) (Identity, time.Time, error) {
	audience, err := payload.audience()
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	if !slices.Contains(audience, p.cfg.Audience) {
		return Identity{}, time.Time{}, errors.New("it is for another server: the audience of this one is exactly " + p.cfg.Audience)
	}
	ends, err := payload.current(now)
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	if err := payload.forPrograms(); err != nil {
		return Identity{}, time.Time{}, err
	}
	identity, err := payload.identity(p.cfg.Realm, token)
	return identity, ends, err
}

// signed checks the signature of a token and returns its claims.
func (p *Provider) signed(ctx context.Context, token string) (claims, error) {
	keys, err := p.keys(ctx)
	if err != nil {
		return nil, err
	}
	payload, err := p.verify(ctx, keys, token)
	if errors.Is(err, errUnknownKey) { // the provider may have a new one
		before := keys
		if keys, err = p.ask(ctx); err != nil {
			return nil, err
		}
		if err = errUnknownKey; keys != before {
			payload, err = p.verify(ctx, keys, token)
		}
	}
	if err != nil {
		return nil, refused(err)
	}
	return payload, nil
}

// verify has the library check algorithm, signature and issuer. The audience and the times are
// checked by accept, exactly and with messages of their own.
func (p *Provider) verify(ctx context.Context, keys *published, token string) (claims, error) {
	set := &noting{published: keys}
	algs := make([]string, len(keys.algs))
	for i, a := range keys.algs {
		algs[i] = string(a)
	}
	verified, err := oidc.NewVerifier(p.cfg.Issuer, set, &oidc.Config{SupportedSigningAlgs: algs, SkipClientIDCheck: true, SkipExpiryCheck: true}).Verify(ctx, token)
	if err != nil {
		if set.err != nil {
			return nil, set.err
		}
		return nil, errForm
	}
	var payload claims
	if err := verified.Claims(&payload); err != nil || payload == nil {
		return nil, errForm
	}
	return payload, nil
}

// noting keeps the error of the keys, of which the library keeps only the text.
type noting struct {
	*published
	err error
}

// VerifySignature implements oidc.KeySet.
func (n *noting) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	payload, n.err = n.published.VerifySignature(ctx, token)
	return payload, n.err
}

// keys returns what the provider has published, as of lately where it answers. Only the first
// call waits for one that does not.
func (p *Provider) keys(ctx context.Context) (*published, error) {
	last, use := p.current()
	if use {
		return last, nil
	}
	fresh, err := p.ask(ctx)
	if err == nil || last == nil || ctx.Err() != nil {
		return fresh, err
	}
	return last, nil // p.fetch has logged why
}

// current returns what was published last, or nil, and whether to use it as it is. While the
// provider does not answer it is asked again in the background.
func (p *Provider) current() (last *published, use bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || time.Since(p.last.at) < keysFor {
		return p.last, p.last != nil
	}
	if p.failed != nil {
		p.begin()
	}
	return p.last, p.failed != nil
}

// begin begins to ask the provider, unless that is under way or was done too often. p.mu is
// held.
func (p *Provider) begin() {
	if p.under != nil || p.closed || !p.asking.Allow() {
		return
	}
	done := make(chan struct{})
	p.under = done
	p.running.Go(func() { p.fetch(done) })
}

// ask asks the provider, unless that was done too often, and returns what was published last.
// Callers share one request.
func (p *Provider) ask(ctx context.Context) (*published, error) {
	p.mu.Lock()
	p.begin()
	under := p.under
	p.mu.Unlock()
	if under != nil {
		select {
		case <-ctx.Done():
			return nil, p.unavailable(ctx.Err())
		case <-under:
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil || p.last == nil {
		return nil, p.unavailable(p.failed)
	}
	return p.last, nil
}

// fetch asks the provider and closes done.
func (p *Provider) fetch(done chan struct{}) {
	ctx, cancel := context.WithTimeout(p.work, askTime)
	defer cancel()
	got, err := ask(ctx, p.http, p.cfg.Issuer)
	if err != nil && p.work.Err() == nil {
		p.log.WarnContext(ctx, "the identity provider could not be asked", "issuer", p.cfg.Issuer, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed = err; err == nil {
		p.last = got
	}
	p.under = nil
	close(done)
}

// Warm begins to ask the provider before the first token comes, so that a wrong setting shows in
// the log when a server starts.
func (p *Provider) Warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
}

func (p *Provider) unavailable(cause error) error {
	return fault.Wrap(cause, fault.IdentityUnavailable, "the identity provider %s does not answer as it should, so this token cannot be checked: try again later", p.cfg.Issuer)
}

func refused(err error) error {
	return fault.Wrap(err, fault.InvalidToken, "this token does not count: %v", err)
}
