package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// errClosed is the cause of every error after Close.
var errClosed = errors.New("the store is closed")

// database is the connection to one file, which the first call opens.
type database struct {
	path string // absolute, fixed at creation
	log  *slog.Logger
	room room

	opening chan struct{}        // holds one token: its owner may open or close
	file    atomic.Pointer[file] // nil until first use
	closed  atomic.Bool

	background context.Context // of background work; ends with close
	stop       context.CancelFunc
	work       sync.WaitGroup
}

// file is the opened database.
type file struct {
	readers *readers
	writer  *writer
}

func newDatabase(path string, limits Limits, log *slog.Logger) *database {
	d := &database{path: path, log: log, opening: make(chan struct{}, 1), room: room{Limits: limits}}
	d.background, d.stop = context.WithCancel(context.Background())
	d.opening <- struct{}{}
	return d
}

func (d *database) close() error {
	d.closed.Store(true)
	d.stop()
	<-d.opening
	defer func() { d.opening <- struct{}{} }()
	d.work.Wait()
	f := d.file.Swap(nil)
	if f == nil {
		return nil
	}
	// Readers first: the last connection to close writes the log into the database
	// file, which a read-only one cannot do.
	err := errors.Join(f.readers.close(), f.writer.close())
	if err != nil {
		return fmt.Errorf("close database %s: %w", d.path, err)
	}
	return nil
}

// use returns the database, and opens it at the first use. A failed opening is
// retried by the next call. A caller that gives up does not end the opening: an update
// of the schema can take longer than any call.
func (d *database) use(ctx context.Context) (*file, error) {
	if f := d.file.Load(); f != nil {
		return f, nil
	}
	select {
	case <-d.opening:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f, err := d.file.Load(), ctx.Err(); f != nil || err != nil || d.closed.Load() {
		d.opening <- struct{}{}
		if err == nil && f == nil {
			err = d.explain(errClosed)
		}
		return f, err
	}
	opened := make(chan error, 1)
	d.work.Go(func() {
		defer func() { d.opening <- struct{}{} }()
		f, err := d.openFile(d.background)
		if err == nil {
			d.file.Store(f)
			d.work.Go(func() { resumeScrub(d.background, &Runs{db: d}) })
		}
		opened <- err
	})
	select {
	case err := <-opened:
		if err != nil && d.closed.Load() {
			err = errClosed
		}
		return d.file.Load(), d.explain(err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// write runs do in a transaction and returns when it is durable.
func (d *database) write(ctx context.Context, do func(*transaction) error) error {
	f, err := d.use(ctx)
	if err != nil {
		return err
	}
	return d.explain(f.writer.run(ctx, do))
}
