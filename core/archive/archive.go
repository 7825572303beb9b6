package archive

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Store holds what a database provides for the archive.
type Store struct {
	Protocols library.Protocols
	Runs      runs.Runs
	History   runs.History
	Archive   RunArchive
	Eraser    Eraser // without it runs cannot be redacted
	Files     Files  // nil if the database returns free space by itself
}

// Options tune an archive. The zero value is the documented default.
type Options struct {
	// RunKeep is how long ended runs are kept. Zero means forever.
	RunKeep time.Duration
	// Audit is told who ends, erases and removes runs; nil: nobody is.
	Audit *audit.Log
	// Clock decides when runs expire. The default is the clock of this machine.
	Clock *clock.Clock
}

// Archive keeps runs as records: it lists, explains, redacts and removes them. Its
// methods may be called concurrently.
type Archive struct {
	store   Store
	runs    *runs.Keeper
	library *library.Library
	setups  drivers.Setups
	opt     Options
}

// New returns an archive. It does not use store and setups before the first call.
func New(store Store, keeper *runs.Keeper, lib *library.Library, setups drivers.Setups, opt Options) *Archive {
	if opt.Clock == nil {
		opt.Clock = clock.System()
	}
	return &Archive{store: store, runs: keeper, library: lib, setups: setups, opt: opt}
}

// Standing returns the standing of any run, for the server itself. An expired run
// counts as ended.
func (a *Archive) Standing(ctx context.Context, id run.ID) (runs.Standing, error) {
	return a.runs.Standing(ctx, id)
}
