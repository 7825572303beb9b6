package app

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// approvalPage knows by which address people reach the approval page. Its zero
// value is a server without one. It is safe for concurrent use.
type approvalPage struct{ base atomic.Pointer[string] }

// is says that the page is served below this address.
func (p *approvalPage) is(base string) {
	base = strings.TrimRight(base, "/")
	p.base.Store(&base)
}

// url returns the link of an approval, or "" if the page is not served.
func (p *approvalPage) url(id run.ID, secret string) string {
	base := p.base.Load()
	if base == nil {
		return ""
	}
	return *base + rest.ApprovalPath(id, secret)
}

// reachedAt is the address of a listener as people of this machine write it.
func reachedAt(scheme string, at net.Addr) string {
	host, port, err := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + "://" + net.JoinHostPort("localhost", port)
	}
	return scheme + "://" + at.String()
}

// serveApprovals serves the approval page alone, for a server without HTTP,
// until ctx ends. Hosts start servers twice, so one that cannot listen continues
// without the page.
func (a *App) serveApprovals(ctx context.Context, version string) error {
	api, err := rest.New(rest.Config{
		Version: version, Approvals: a.Engine, Principal: LocalPrincipal, Space: a.space,
		Access: rest.Access{Local: true}, Limits: rest.Limits{Concurrent: 16, Waiting: 16, PerMinute: 600, Burst: 100},
	}, a.log)
	if err != nil {
		return err
	}
	listening := false
	err = rest.Serve(ctx, rest.Listen{
		Address: a.Config.Approval.Listen, Connections: 64, Shutdown: time.Second,
		Started: func(at net.Addr) {
			listening = true
			a.page.is(reachedAt("http", at))
			a.log.InfoContext(ctx, "approval page", "address", at.String())
		},
		Draining: api.Drain,
	}, api, a.log)
	if err != nil && !listening {
		a.log.WarnContext(ctx, "there is no approval page: set approval.listen to 127.0.0.1:0 for any free port", slog.Any("error", err))
		<-ctx.Done()
		return nil
	}
	return err
}
