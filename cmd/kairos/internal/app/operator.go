package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/statement"
)

// operator is the use cases behind the calls of operators.
type operator struct {
	operations.Runs
	operations.Records
	operations.Versions

	app    *App
	health func(context.Context) rest.Health
	// turn has room for one diagnosis: each asks the drivers about all that is stored.
	turn chan struct{}
}

// Operations is the use cases behind the calls of operators.
func (a *App) Operations() operations.Engine { return a.operations(a.health()) }

func (a *App) operations(health func(context.Context) rest.Health) operator {
	return operator{
		Runs: a.Engine, Records: a.Engine.Archive, Versions: a.Engine.Library,
		app: a, health: health, turn: make(chan struct{}, 1),
	}
}

// Page implements operations.Pages.
func (o operator) Page(ctx context.Context, c access.Caller, id run.ID) ([]byte, error) {
	setup, release := o.app.setup.Hold()
	defer release()
	return o.app.Page(ctx, c, id, setup.Tree.Outline())
}

// Statement implements operations.Statements.
func (o operator) Statement(ctx context.Context, c access.Caller, id run.ID, withoutEvidence bool) ([]byte, error) {
	return o.app.Statement(ctx, c, id, withoutEvidence)
}

// PublicKey implements operations.Statements.
func (o operator) PublicKey() (statement.PublicKey, error) {
	key, err := o.app.Config.SigningKey()
	if err != nil {
		return statement.PublicKey{}, err
	}
	return key.Public(), nil
}

// Diagnose implements operations.Diagnosis.
func (o operator) Diagnose(ctx context.Context, c access.Caller) (operations.Report, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return operations.Report{}, ctx.Err()
	}
	h := o.health(ctx)
	r := operations.Report{
		Version:   o.app.Version,
		Store:     operations.Part{Detail: "SQLite", Problem: o.problem(ctx, "store", h.Store)},
		Embedding: operations.Part{Detail: h.Provider, Problem: o.problem(ctx, "embedding", h.Embedding)},
		Readiness: operations.Part{Problem: o.problem(ctx, "readiness", o.app.ready(ctx))},
		Drivers:   []operations.DriverState{},
		Unserved:  archive.Unserved{Steps: []archive.UnservedStep{}, Runs: []archive.UnservedRun{}},
	}
	if h.Indexed {
		r.Index = &operations.Part{Detail: "Qdrant", Problem: o.problem(ctx, "index", h.Index)}
	}
	if h.Store == nil {
		var err error
		if r.Unserved, err = o.app.Engine.Archive.Unserved(ctx, c); err != nil {
			return operations.Report{}, fmt.Errorf("ask the drivers about what is stored: %w", err)
		}
	}
	for _, d := range o.app.host.Status() { // after they were asked
		failing := d.State == driverhost.Backoff || d.State == driverhost.BreakerOpen || d.State == driverhost.HalfOpen
		r.Drivers = append(r.Drivers, operations.DriverState{Name: d.Name, Version: d.Version, State: string(d.State), Failing: failing})
	}
	return r, nil
}

// problem is what of an error callers may see; the log has the rest.
func (o operator) problem(ctx context.Context, part string, err error) string {
	if err == nil {
		return ""
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	o.app.log.WarnContext(ctx, "a part of the server has a problem", "part", part, "error", err)
	return "it does not work; the log of the server has the cause"
}
