package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/lazy"
	"github.com/kairos-mcp/kairos/core/store/record"
)

var (
	errNewer    = errors.New("its schema is newer than this program")
	errEarlier  = errors.New("an earlier build made it")
	errForeign  = errors.New("it has tables of another program")
	errReadOnly = errors.New("the server only reads")
	errSilent   = errors.New("the server does not answer")
)

// tooOldError reports a server of an unsupported version.
type tooOldError struct{ version string }

func (e *tooOldError) Error() string { return "the server has version " + e.version }

// outcomeError reports a write whose outcome is unknown.
type outcomeError struct{ err error }

func (e *outcomeError) Error() string {
	return "it is not known whether it was stored: " + e.err.Error()
}
func (e *outcomeError) Unwrap() error { return e.err }

// outcome marks the failure of a write that may have been stored: the server did not
// say that it failed.
func outcome(err error) error {
	var refused *pgconn.PgError
	if err == nil || pgconn.SafeToRetry(err) || errors.As(err, &refused) && !connectionEnded(refused) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return &outcomeError{err}
}

// connectionEnded reports whether the server ended the connection: it may have committed before.
func connectionEnded(err *pgconn.PgError) bool {
	return strings.HasPrefix(err.Code, "57P") || strings.HasPrefix(err.Code, "08")
}

// brokenError reports a read that failed after some of its rows were used.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// passes reports whether a later attempt may succeed.
func passes(err error) bool {
	var refused *pgconn.PgError
	var broken *brokenError
	var known *fault.Error
	var network net.Error
	switch {
	case errors.As(err, &broken), errors.As(err, &known), errors.Is(err, lazy.ErrClosed):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !isConnecting(err):
		return false
	case errors.As(err, &refused):
		switch refused.Code {
		case "40001", "40P01", "53300": // lost against another transaction; too many connections
			return true
		}
		return connectionEnded(refused)
	}
	return isConnecting(err) || pgconn.SafeToRetry(err) || errors.As(err, &network) || isBrokenPipe(err)
}

func isBrokenPipe(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func isConnecting(err error) bool {
	var connecting *pgconn.ConnectError
	return errors.As(err, &connecting)
}

// isUnstorable reports a text with characters that PostgreSQL cannot store.
func isUnstorable(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "22021" || refused.Code == "22P05")
}

// explain turns a failure of the database into a fault that names the database and
// the reason. It returns faults, context errors and pgx.ErrNoRows unchanged.
func (d *database) explain(err error) error {
	var known *fault.Error
	var unknown *outcomeError
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, pgx.ErrNoRows):
		return err
	case errors.As(err, &unknown):
		return fault.Wrap(err, fault.StoreUnavailable, "database %s: the connection was lost during the call, so it is not known whether the change is stored", d.name).
			WithRemedy("read it again before you repeat the change")
	case isUnstorable(err):
		return fault.Wrap(err, fault.InvalidArgument, "a text has a character that the database cannot store, such as NUL")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !isConnecting(err):
		return err
	}
	if errors.Is(err, errEarlier) {
		return record.EarlierBuild(d.name)
	}
	if d.pool.Closed() {
		err = errors.Join(err, lazy.ErrClosed)
	}
	why := d.reason(err)
	failed := fault.Wrap(errors.New(d.plain(err)), why.code, "database %s: %s", d.name, why.text)
	if why.remedy != "" {
		failed = failed.WithRemedy("%s", why.remedy)
	}
	return failed
}

// plain is the innermost text of an error, in one line and without the password,
// which it never has by the rules of pgx.
func (d *database) plain(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return "SQLSTATE " + refused.Code
	}
	// Of several addresses of a server the last one was tried last.
	text := strings.TrimSpace(err.Error())
	text = strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:])
	if password := d.config.ConnConfig.Password; password != "" {
		text = strings.ReplaceAll(text, password, "xxxxx")
	}
	return text
}

// why is a reason with what to do.
type why struct {
	code         fault.Code
	text, remedy string
}

func (d *database) reason(err error) why {
	var refused *pgconn.PgError
	var old *tooOldError
	server := place(&d.config.ConnConfig.Config)
	switch {
	case errors.Is(err, lazy.ErrClosed):
		return why{fault.StoreFailed, "it was closed", ""}
	case errors.Is(err, errNewer):
		return why{fault.StoreFailed, "it was written by a newer version of this program", "start that version"}
	case errors.Is(err, errForeign):
		return why{fault.StoreFailed, "it has tables of another program", "create a database for KAIROS alone and name it in database"}
	case errors.Is(err, errReadOnly):
		return why{fault.StoreUnavailable, fmt.Sprintf("the server at %s only reads; it may be a standby", server), "name the primary server in database, or add target_session_attrs=read-write to the address"}
	case errors.As(err, &old):
		return why{fault.StoreFailed, fmt.Sprintf("the server at %s has version %s", server, old.version), fmt.Sprintf("PostgreSQL %d or newer is required", leastVersion)}
	case errors.As(err, &refused):
		if found, ok := d.refusal(refused, server); ok {
			return found
		}
		return why{fault.StoreFailed, "the server refused the statement: " + refused.Message, ""}
	case errors.Is(err, errSilent):
		return why{fault.StoreUnavailable, fmt.Sprintf("the server at %s does not answer", server), "look whether it stands still or waits for a lock, then call again"}
	case isConnecting(err) || passes(err):
		return why{fault.StoreUnavailable, fmt.Sprintf("the server at %s cannot be reached", server), "start the server, or correct host and port in database"}
	}
	return why{fault.StoreFailed, "it cannot be used", ""}
}

// refusal explains what the server itself said, by the codes of its manual.
func (d *database) refusal(err *pgconn.PgError, server string) (why, bool) {
	user, name := d.config.ConnConfig.User, d.config.ConnConfig.Database
	switch err.Code {
	case "28P01", "28000":
		return why{fault.StoreFailed, fmt.Sprintf("the server at %s does not let user %q in: %s", server, user, err.Message), "correct user and password in database, or allow the user in pg_hba.conf"}, true
	case "3D000":
		return why{fault.StoreFailed, fmt.Sprintf("the server at %s has no database %q", server, name), fmt.Sprintf("create it: createdb --owner %s %s", user, name)}, true
	case "42501":
		return why{fault.StoreFailed, fmt.Sprintf("user %q may not do that: %s", user, err.Message), "make that user the owner of the database"}, true
	case "42P07":
		return why{fault.StoreFailed, "it has tables of another program: " + err.Message, "create a database for KAIROS alone and name it in database"}, true
	case "26000", "42P05":
		return why{fault.StoreFailed, "a pooler in between does not keep prepared statements", "remove default_query_exec_mode from the address"}, true
	case "53100":
		return why{fault.StoreFailed, "the disk of the server is full", "the operator has to make room there; then call again, nothing of this call was stored"}, true
	case "53300":
		return why{fault.StoreUnavailable, fmt.Sprintf("the server at %s has no connection left", server), "lower pool_max_conns in the address, or raise max_connections of the server"}, true
	case "25006":
		return why{fault.StoreUnavailable, fmt.Sprintf("the server at %s only reads; it may be a standby", server), "name the primary server in database, or add target_session_attrs=read-write to the address"}, true
	}
	if connectionEnded(err) {
		return why{fault.StoreUnavailable, fmt.Sprintf("the server at %s is stopping or starting", server), "call again"}, true
	}
	return why{}, false
}
