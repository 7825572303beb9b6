package app

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
)

// Index is an index of the protocols on a Qdrant server, and what feeds it. A nil
// Index is that of a server without one.
type Index struct {
	Feeder   *index.Feeder
	server   *qdrant.Index
	database index.Outbox
}

// indexProbe bounds how long the server of the index may take to answer something
// small.
const indexProbe = 800 * time.Millisecond

// Release removes the index that is there, whatever database it was made from.
func (x *Index) Release(ctx context.Context) error { return x.server.Release(ctx) }

// Usable reports whether the index can be used, if there is one.
func (x *Index) Usable(ctx context.Context) error {
	if x == nil {
		return nil
	}
	// Opening the database can take longer than the probe, and is not its concern.
	if _, err := x.database.DatabaseID(ctx); err != nil {
		return err
	}
	return x.probe(ctx, (*index.Feeder).Check)
}

// answers reports why the index is not up to date or does not answer.
func (x *Index) answers(ctx context.Context) error { return x.probe(ctx, (*index.Feeder).Health) }

// probe asks within indexProbe. Without an index nothing is wrong.
func (x *Index) probe(ctx context.Context, ask func(*index.Feeder, context.Context) error) error {
	if x == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, indexProbe)
	defer cancel()
	return ask(x.Feeder, ctx)
}

// checkOwner refuses to start beside an index that belongs to something else: its
// protocols would seem to be gone. A server that does not answer is checked later.
func (x *Index) checkOwner(ctx context.Context) error {
	if err := x.Usable(ctx); fault.CodeOf(err) == fault.Conflict {
		return err
	}
	return nil
}
