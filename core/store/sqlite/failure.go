package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"syscall"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/lazy"
	"github.com/kairos-mcp/kairos/core/store/record"
)

var (
	errNewer       = errors.New("the schema is newer than this program")
	errEarlier     = errors.New("an earlier build made the database")
	errForeign     = errors.New("the database belongs to another program")
	errLocked      = errors.New("the write lock was not free in time")
	errNotDatabase = errors.New("not a database")
	errNoLog       = errors.New("no write-ahead log")
)

// explain turns a failure of the database into a fault that names the file and the
// reason. It returns faults, context errors and sql.ErrNoRows unchanged.
func (d *database) explain(err error) error {
	var known *fault.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, sql.ErrNoRows):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if d.file.Closed() {
		// A call in progress then fails with an arbitrary error.
		err = errors.Join(err, lazy.ErrClosed)
	}
	var gone *goneError
	if errors.As(err, &gone) {
		return fault.Wrap(err, fault.StoreUnavailable, "database %s: %v; nothing is stored until the server is started again", d.path, gone).
			WithRemedy("the operator has to stop every process that uses this database, check it with `kairos doctor --deep`, restore it from a backup where it is missing or damaged, and start the server; nothing of this call is kept")
	}
	if errors.Is(err, errEarlier) {
		return record.EarlierBuild(d.path)
	}
	var lost *logError
	if errors.As(err, &lost) {
		return fault.Wrap(err, fault.StoreFailed, "database %s: %v", d.path, lost).
			WithRemedy("the operator has to stop every process that uses this database, keep a copy of it, check it with `kairos doctor`, and restore the last backup")
	}
	why := reason(err)
	failed := fault.Wrap(err, fault.StoreFailed, "database %s: %s", d.path, why)
	if why == diskFull {
		// A save is a transaction: if it did not fit, nothing of it is left.
		return failed.WithRemedy("the operator has to make room on that disk; then call again, nothing of this call was stored")
	}
	return failed
}

const diskFull = "the disk is full"

func reason(err error) string {
	var failure *driver.Error
	if errors.As(err, &failure) {
		return sqliteReason(failure)
	}
	for _, known := range []struct {
		is  error
		why string
	}{
		{lazy.ErrClosed, "it was closed"},
		{errNewer, "it was written by a newer version of this program; use that version"},
		{errForeign, "it is a database of another program"},
		{errNotDatabase, "it is not a database"},
		{errNoLog, "its file system cannot share memory between processes; use a local disk"},
		{errLocked, "another process has been writing for too long"},
		{fs.ErrPermission, "no permission to write there"},
		{syscall.EROFS, "the file system is read-only"},
		{syscall.ENOSPC, diskFull},
		{syscall.ENOTDIR, "a part of its directory is a file"},
		{syscall.EISDIR, "it is a directory"},
	} {
		if errors.Is(err, known.is) {
			return known.why
		}
	}
	return "it cannot be used"
}

func sqliteReason(failure *driver.Error) string {
	if failure.Code() == codes.SQLITE_IOERR_SHMSIZE {
		return diskFull // no space for the shared-memory file
	}
	switch failure.Code() & 0xff { // the low byte is the primary code
	case codes.SQLITE_NOTADB:
		return "it is not a database"
	case codes.SQLITE_CORRUPT:
		return "it is damaged"
	case codes.SQLITE_CANTOPEN:
		return "it cannot be opened; is it a directory, or no permission?"
	case codes.SQLITE_READONLY, codes.SQLITE_PERM:
		return "it is read-only"
	case codes.SQLITE_FULL:
		return diskFull
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return "another process has been writing for too long"
	case codes.SQLITE_IOERR:
		return "reading or writing it failed"
	}
	return "it cannot be used"
}
