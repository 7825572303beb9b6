// Package audit keeps the audit log: who did what, as lines of JSON beside the database and
// independent of it. Use cases call it, so that no way to them passes by. It has no parameters,
// evidence or secrets.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Act is what somebody does.
type Act struct {
	Action Action
	// Space in which it is done, where there is one.
	Space string
	// Object is what it is done to: an id, an address or a name.
	Object string
	// Details say more in few words, such as a decision, and never what callers send.
	Details map[string]string
	// Anyway: it is done although it cannot be audited, because it stops something or takes a right
	// away.
	Anyway bool
}

// Phase tells what a line says of an act.
type Phase string

// The phases. An act has a line when it begins and one when it ends, both with its id. One that
// was refused before it began has the latter alone.
const (
	Begun   Phase = "begun"
	Done    Phase = "done"
	Failed  Phase = "failed"
	Refused Phase = "refused"
)

// Line is one line of the audit log.
type Line struct {
	Time   time.Time `json:"time"` // RFC 3339, UTC
	ID     string    `json:"id"`   // of the act
	Phase  Phase     `json:"phase"`
	Action Action    `json:"action"`
	// Principal who acts, what it has shown and how; none where it has not shown who it is.
	Principal  string        `json:"principal,omitempty"`
	Credential string        `json:"credential,omitempty"`
	Method     access.Method `json:"method,omitempty"`
	// Account of the operating system, for what is done on this machine.
	Account   string `json:"account,omitempty"`
	Client    string `json:"client,omitempty"` // the name that it gives itself
	Transport string `json:"transport,omitempty"`
	Address   string `json:"address,omitempty"` // of the network, where nobody has shown who it is
	Space     string `json:"space,omitempty"`
	Object    string `json:"object,omitempty"`
	// Code says why it failed or was refused, as callers see it.
	Code    fault.Code        `json:"code,omitempty"`
	Details map[string]string `json:"details,omitempty"`
	TraceID string            `json:"trace_id,omitempty"` // W3C, of the call
	// Suppressed counts the refusals before this one that have no line: there were too many.
	Suppressed int64 `json:"suppressed,omitempty"`
}

// Options say where the lines are written.
type Options struct {
	Sink Sink
	// Required: what cannot be audited is not done.
	Required bool
	// Account of the operating system that this process runs under.
	Account string
	Clock   *clock.Clock // nil: this machine's
	// Lost is called for each line that was not written; may be nil. It must return at once.
	Lost func()
}

// Limits of what waits to be written, and of what outsiders can have written.
const (
	waiting   = 1024 // lines
	patience  = 5 * time.Second
	maxField  = 400 // bytes
	warnEvery = time.Minute
)

// Log is an audit log; a nil *Log keeps none. Its methods may be called concurrently.
type Log struct {
	opt     Options
	log     *slog.Logger
	lines   chan pending
	done    chan struct{} // closed when the last line is written
	unknown *refusals     // of callers whom nobody knows

	mu      sync.Mutex           // guards the fields below
	refused map[string]*refusals // by principal
	stuck   bool                 // a line took longer than patience, and is not written yet
	closed  bool
	failed  error // of the latest line; nil: it was written
	warned  time.Time
}

// New returns a log, which opens its sink with the first line. The caller closes it.
func New(opt Options, log *slog.Logger) *Log {
	opt.Clock = cmp.Or(opt.Clock, clock.System())
	l := &Log{opt: opt, log: log, lines: make(chan pending, waiting), done: make(chan struct{}), refused: map[string]*refusals{}, unknown: newRefusals(1, 60)}
	go l.write()
	return l
}

// Doing is an act that has begun. A nil *Doing is not audited.
type Doing struct {
	log  *Log
	line Line // as it began
}

// Begin says that the caller begins something. Where auditing is required, an error that has the
// code fault.AuditUnavailable says that it must not be done.
func (l *Log) Begin(ctx context.Context, c access.Caller, a Act) (*Doing, error) {
	if l == nil {
		return nil, nil
	}
	d := &Doing{log: l, line: l.lineOf(ctx, c, a)}
	d.line.Phase = Begun
	if err := l.put(d.line, l.opt.Required); err != nil && l.opt.Required && !a.Anyway {
		return nil, fault.Wrap(err, fault.AuditUnavailable, "the audit log cannot be written, so nothing was done")
	}
	return d, nil
}

// On names what the act turned out to be about.
func (d *Doing) On(space, object string) {
	if d != nil {
		d.line.Space, d.line.Object = clip(cmp.Or(space, d.line.Space)), clip(cmp.Or(object, d.line.Object))
	}
}

// Add names something more that the act turned out to be about.
func (d *Doing) Add(object string) {
	if d != nil {
		d.line.Object = clip(strings.TrimSpace(d.line.Object + " " + object))
	}
}

// Note adds a detail.
func (d *Doing) Note(name, value string) {
	if d != nil {
		d.line.note(name, value)
	}
}

// note adds a detail to a copy of the details: the line that has them waits to be written.
func (l *Line) note(name, value string) {
	if value == "" {
		return
	}
	details := maps.Clone(l.Details)
	if details == nil {
		details = map[string]string{}
	}
	details[name] = clip(value)
	l.Details = details
}

// End says how the act ended; it is to be deferred with the address of the error that it
// returns. A panic counts as a failure and continues.
func (d *Doing) End(err *error) {
	p := recover()
	if d != nil {
		d.line.Time = d.log.now()
		d.line.Phase, d.line.Code = outcome(*err)
		if p != nil {
			d.line.Phase, d.line.Code = Failed, fault.Internal
		}
		_ = d.log.put(d.line, d.log.opt.Required) // it is done: put has counted what is lost
	}
	if p != nil {
		panic(p)
	}
}

// outcome is what a line says of an error.
func outcome(err error) (Phase, fault.Code) {
	switch code := fault.CodeOf(err); {
	case err == nil:
		return Done, ""
	case code == fault.Forbidden, code == fault.SpaceReadOnly:
		return Refused, code
	case code == "":
		return Failed, fault.Internal
	default:
		return Failed, code
	}
}

// Do does what is audited as the caller's act.
func (l *Log) Do(ctx context.Context, c access.Caller, a Act, do func(*Doing) error) (err error) {
	d, err := l.Begin(ctx, c, a)
	if err != nil {
		return err
	}
	defer d.End(&err)
	return do(d)
}

// Refused says that the caller may not do something, because of the error, and returns the error.
// Any other error is only returned. Where there are many refusals some have no line,
// and are counted in the next.
func (l *Log) Refused(ctx context.Context, c access.Caller, a Act, err error) error {
	if phase, code := outcome(err); l != nil && phase == Refused {
		l.refuse(ctx, l.refusalsOf(c.Principal), c, "", a, code)
	}
	return err
}

// Unknown says that somebody at an address was refused who has not shown who it is.
func (l *Log) Unknown(ctx context.Context, address string, a Act, code fault.Code) {
	if l != nil {
		l.refuse(ctx, l.unknown, access.Caller{}, address, a, code)
	}
}

// refusals bounds the lines of refusals.
type refusals struct {
	of     *rate.Limiter
	silent atomic.Int64 // refusals without a line since the last one that has one
}

// maxRefused is of how many principals refusals are counted; then all begin anew.
const maxRefused = 1000

// refusalsOf are those of a principal: nobody hides or pushes out those of others.
func (l *Log) refusalsOf(principal string) *refusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.refused[principal]
	if r == nil {
		if len(l.refused) >= maxRefused {
			clear(l.refused)
		}
		r = newRefusals(10, 100)
		l.refused[principal] = r
	}
	return r
}

func newRefusals(perSecond rate.Limit, burst int) *refusals {
	return &refusals{of: rate.NewLimiter(perSecond, burst)}
}

func (l *Log) refuse(ctx context.Context, all *refusals, c access.Caller, address string, a Act, code fault.Code) {
	if !all.of.Allow() {
		all.silent.Add(1)
		return
	}
	line := l.lineOf(ctx, c, a)
	line.Phase, line.Code, line.Address, line.Suppressed = Refused, code, address, all.silent.Swap(0)
	if address != "" {
		line.Account = ""
	}
	_ = l.put(line, false) // put counts what is lost
}

func (l *Log) now() time.Time { return l.opt.Clock.Now().UTC() }

// lineOf is the line of an act without its phase. Text of outsiders is clipped.
func (l *Log) lineOf(ctx context.Context, c access.Caller, a Act) Line {
	line := Line{
		Time: l.now(), ID: rand.Text(), Action: a.Action, Principal: clip(c.Principal), Credential: clip(c.Credential), Method: c.Method,
		Client: clip(c.Client.Name), Transport: clip(c.Client.Transport), Space: clip(a.Space), Object: clip(a.Object),
	}
	if c.Principal == "" || c.Client.Transport == local {
		line.Account = l.opt.Account
	}
	for name, value := range a.Details {
		line.note(name, value)
	}
	if t := driver.TraceOf(ctx); t != "" {
		line.TraceID = t[3:35]
	}
	return line
}

// local is the transport of commands of this machine.
const local = "cli"

// clip cuts a text, and takes out what may be the secret of an access token.
func clip(s string) string { return plain.Clip(secret.ReplaceAllString(s, "krs_…"), maxField) }

var secret = regexp.MustCompile(`krs_[0-9A-Za-z]+`)
