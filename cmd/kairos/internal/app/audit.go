package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strconv"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/metrics"
)

// auditSize is from which size the file of the audit log becomes an earlier one, in bytes.
const auditSize = 100 << 20

// OpenAudit returns the audit log of the configuration; nil: there is none. The caller closes it.
// stdout is where a log goes that is written there; measures may be nil.
func OpenAudit(c config.Config, stdout io.Writer, measures *metrics.Metrics, log *slog.Logger) *audit.Log {
	o := audit.Options{Required: c.Audit.Required}
	if measures != nil {
		o.Lost = metrics.AuditLost(measures)
	}
	switch c.Audit.To {
	case config.AuditFile:
		o.Sink = &audit.File{Path: c.Audit.File, Size: auditSize, Keep: *c.Audit.Keep, Sync: c.Audit.Required}
	case config.AuditStdout:
		o.Sink = audit.Stream{Writer: stdout, Name: config.AuditStdout}
	case config.AuditSyslog:
		o.Sink = new(audit.Syslog)
	default:
		return nil
	}
	o.Account = account()
	return audit.New(o, log)
}

// Audited has audited what a command does besides the database, such as to the drivers.
func Audited(ctx context.Context, c config.Config, version string, act audit.Act, do func() error) (err error) {
	log := OpenAudit(c, os.Stderr, nil, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	defer func() { err = errors.Join(err, log.Close()) }()
	return log.Do(ctx, operatorOf(version), act, func(*audit.Doing) error { return do() })
}

// account of the operating system that runs this process.
func account() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

func auditsToStdout(c config.Config) bool { return c.Audit.To == config.AuditStdout }

// checkAudit refuses to write the audit log where MCP frames go.
func checkAudit(c config.Config, by Transports) error {
	if by.Stdio && auditsToStdout(c) {
		return fmt.Errorf("audit.to is stdout, where a server over stdin and stdout writes MCP frames: set it to file or syslog, or serve with --http alone")
	}
	return nil
}
