package director

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/budget"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/director/secrets"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Parts are the use cases and stores that an engine works with.
type Parts struct {
	Library     *library.Library
	Protocols   library.Protocols
	Runs        *runs.Keeper
	History     runs.History
	Archive     *archive.Archive
	Acceptances *acceptances.Acceptances
	Offers      *offers.Offers
	Declines    *declines.Declines
	Setups      drivers.Setups
}

// Options tune an engine. The zero value is the documented default.
type Options struct {
	// ApprovalTTL is how long an approval may be used. The default is 1 hour.
	ApprovalTTL time.Duration
	// RequireComplete makes attest refuse a run with unsolved steps.
	RequireComplete bool
	// Budgets bound what language models are asked. By default nothing does.
	Budgets budget.Limits
	// Observer is notified of completed operations; may be nil.
	Observer observe.Observer
	// SolutionFields are the challenge types whose evidence has a field of its
	// own in the solutions that clients are told of; any other is evidence.
	SolutionFields []string
	// ApprovalURL is the address of an approval page by run and secret, empty
	// while there is none; nil: approvals have no page. Called concurrently. It may open the page.
	ApprovalURL func(id run.ID, secret string) string
	// HasPage reports whether there is a page, and opens none; nil: ApprovalURL is asked.
	HasPage func() bool
	// Names: records say what people call the principals who answer on the page after login.
	Names bool
	// Keys returns the server's keys: the first one makes idempotency keys of drivers' calls
	// and secrets of approval links, and links of the others still work; nil: a
	// random one. Called once, unless it fails.
	Keys func() ([][32]byte, error)
	// Audit is told who decides what about runs; nil: nobody is.
	Audit *audit.Log
	// Clock is the time by which runs are recorded. The default is this machine's.
	Clock *clock.Clock
}

// Engine drives runs. Its methods may be called concurrently.
type Engine struct {
	parts    Parts
	opt      Options
	log      *slog.Logger
	secrets  secrets.Secrets
	hourly   budget.Hourly
	answers  answers
	contents *cache.Cache[string, string] // content digests of protocols by their pins
	reflexes *cache.Cache[reflex, run.Delay]
}

// maxReflexes is how many bytes are kept of what connections answered themselves.
const maxReflexes = 1 << 20

// maxContents is how many bytes of content digests are kept.
const maxContents = 1 << 20

// New returns an engine. It touches none of its parts until called.
func New(parts Parts, opt Options, log *slog.Logger) *Engine {
	opt.ApprovalTTL, opt.Clock = cmp.Or(opt.ApprovalTTL, time.Hour), cmp.Or(opt.Clock, clock.System())
	if opt.Observer == nil {
		opt.Observer = observe.Silence{}
	}
	return &Engine{
		parts: parts, opt: opt, log: log, secrets: secrets.New(opt.Keys, opt.ApprovalURL),
		contents: cache.New[string, string](maxContents), reflexes: cache.New[reflex, run.Delay](maxReflexes),
	}
}

func newNonce(id run.ID) string {
	var random [12]byte
	// crypto/rand.Read never fails (Go 1.24).
	_, _ = rand.Read(random[:])
	return run.Nonce(id, random)
}

func newSalt() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// shown is the error as a reply shows it; nil: it is not for a reply. One of the store is
// not: a reply would tell of a run that is not stored.
func shown(err error) *fault.Error {
	switch f := new(fault.Error); {
	case !errors.As(err, &f), f.Code == fault.Conflict, f.Code == fault.StoreFailed, f.Code == fault.StoreUnavailable, f.Code == fault.AuditUnavailable:
		return nil
	default:
		return f
	}
}

// impossible turns a refusal of the state machine into what the caller may see.
func impossible(err error) error {
	switch {
	case errors.Is(err, run.ErrDeclined):
		return fault.Wrap(err, fault.UserDeclined, "a person declined this step; only the person can change that, in the way they were asked")
	case errors.Is(err, run.ErrUnapproved):
		return fault.Wrap(err, fault.ApprovalUnavailable, "this step needs a person's approval first")
	case errors.Is(err, run.ErrStale):
		return fault.Wrap(err, fault.Conflict, "the question was answered or asked again meanwhile")
	}
	return err
}
