package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// lingerTime is how long the page stays after an answer at the end of the server: the browser
// asks for what was decided after the agent has continued, and perhaps ended, with it.
const lingerTime = 300 * time.Millisecond

// approvalPage knows below which address the approval page is reached. A server over stdin and
// stdout opens the page for its first link; the main port has it from the start. It is safe
// for concurrent use.
type approvalPage struct {
	at address

	wanted chan struct{} // closed when the first link is made; nil: nobody opens the page
	want   func()        // closes wanted
	opened chan struct{} // closed once the page is open, or cannot be
	open   func()        // closes opened
}

// offer says that the page is opened when it is wanted. It is called before anybody asks for
// links.
func (p *approvalPage) offer() {
	p.wanted, p.opened = make(chan struct{}), make(chan struct{})
	p.want = sync.OnceFunc(func() { close(p.wanted) })
	p.open = sync.OnceFunc(func() { close(p.opened) })
}

// offered reports whether the page is open, or opens when it is wanted.
func (p *approvalPage) offered() bool {
	if p.at.String() != "" || p.wanted == nil {
		return p.at.String() != ""
	}
	select {
	case <-p.opened:
		return p.at.String() != "" // else it could not be opened
	default:
		return true
	}
}

// url returns the link of an approval, or "" if the page is not served. It waits until the
// page is open.
func (p *approvalPage) url(id run.ID, secret string) string {
	if p.wanted != nil {
		p.want()
		<-p.opened
	}
	base := strings.TrimRight(p.at.String(), "/")
	if base == "" {
		return ""
	}
	return base + rest.ApprovalPath(id, secret)
}

// servePage serves the approval page alone from the first link on, for a server without HTTP,
// until ctx ends. Hosts start servers twice, so one that cannot listen continues without the
// page.
func (a *App) servePage(ctx context.Context, version string) error {
	defer a.page.open()
	select {
	case <-ctx.Done():
		return nil
	case <-a.page.wanted:
	}
	api, err := rest.New(rest.Config{
		Version: version, Approvals: a.Engine.Runs, Principal: LocalPrincipal, Space: a.space,
		Access: rest.Access{Local: true}, Limits: rest.Limits{Concurrent: 16, Waiting: 16, PerMinute: 600, Burst: 100},
	}, a.log)
	if err != nil {
		return fmt.Errorf("make the approval page: %w", err)
	}
	last := &lastAnswer{handler: api, shown: make(chan struct{}, 1)}
	lingering, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		last.linger()
		end()
	})()
	listening := false
	err = rest.Serve(lingering, rest.Listen{
		Address: a.Config.Approval.Listen, Connections: 64, Shutdown: time.Second,
		Started: func(at net.Addr) {
			listening = true
			a.page.at.is(reachedAt("http", at))
			a.page.open()
			a.log.InfoContext(ctx, "approval page", "address", at.String())
		},
		Draining: api.Drain,
	}, last, a.log)
	if err != nil && !listening {
		a.log.WarnContext(ctx, "there is no approval page: set approval.listen to 127.0.0.1:0 for any free port", slog.Any("error", err))
		a.page.open()
		<-ctx.Done()
		return nil
	}
	return err
}

// lastAnswer notes when somebody answered last, and has not seen yet what came of it.
type lastAnswer struct {
	handler http.Handler
	shown   chan struct{} // has an element after a page was shown

	mu sync.Mutex // guards the field below
	at time.Time  // zero: the page was shown since
}

func (l *lastAnswer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		l.is(time.Now()) // before the agent continues
	}
	l.handler.ServeHTTP(w, r)
	if r.Method != http.MethodPost {
		l.is(time.Time{})
		select {
		case l.shown <- struct{}{}:
		default:
		}
	}
}

func (l *lastAnswer) is(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = at
}

// linger waits until the page after the last answer was shown, for lingerTime at most.
func (l *lastAnswer) linger() {
	select {
	case <-l.shown: // of an earlier page
	default:
	}
	l.mu.Lock()
	at := l.at
	l.mu.Unlock()
	if at.IsZero() {
		return
	}
	select {
	case <-l.shown:
	case <-time.After(time.Until(at.Add(lingerTime))):
	}
}
