// Package sqlite keeps protocols, their search index and runs in one SQLite
// file that several processes may use at once. It decides nothing about runs
// or protocols: it stores what the engine hands it, durably and all or nothing.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/runs"
)

var (
	_ library.Protocols       = (*Store)(nil)
	_ library.ProtocolWriter  = (*Store)(nil)
	_ library.ProtocolHistory = (*Store)(nil)
	_ library.Searcher        = (*Store)(nil)
	_ library.Vectors         = (*Store)(nil)
	_ library.Ratings         = (*Store)(nil)
	_ runs.Runs               = (*Store)(nil)
	_ runs.Index              = (*Store)(nil)
	_ archive.RunArchive      = (*Store)(nil)
	_ runs.History            = (*Store)(nil)
)

// errClosed is the cause of every error after Close.
var errClosed = errors.New("the store is closed")

// Store keeps everything in one file. It is safe for concurrent use, also by
// several processes. An error that is a context's error means that nothing
// was written.
type Store struct {
	path string // absolute, fixed at creation
	log  *slog.Logger
	pins pinCache
	room room

	known      knownWords
	vocabulary vocabulary
	segments   segmentCache
	signs      signIndex

	opening chan struct{}        // holds one token: who has it may open or close
	file    atomic.Pointer[file] // nil until first use
	closed  atomic.Bool

	background context.Context // of work that nobody waits for; ends with Close
	stop       context.CancelFunc
	work       sync.WaitGroup
}

// file is the opened database.
type file struct {
	readers *readers
	writer  *writer
}

// Open returns the store in the file at path. It touches nothing: directory,
// file and schema are made by the first call that needs them, so a server that
// is only probed leaves no trace. A nil log drops everything.
func Open(path string, log *slog.Logger) (*Store, error) { return OpenLimited(path, Limits{}, log) }

// OpenLimited is Open for a database that may not take all of the disk.
func OpenLimited(path string, limits Limits, log *slog.Logger) (*Store, error) {
	if path == "" {
		return nil, errors.New("the database has no path")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find database %s: %w", path, err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Store{path: absolute, log: log, opening: make(chan struct{}, 1), room: room{Limits: limits}}
	s.background, s.stop = context.WithCancel(context.Background())
	s.opening <- struct{}{}
	return s, nil
}

// Close finishes the writes that were accepted and releases the file. Calls
// after it fail. Closing twice, or before the first use, is fine.
func (s *Store) Close() error {
	<-s.opening
	defer func() { s.opening <- struct{}{} }()
	s.closed.Store(true)
	s.stop()
	s.work.Wait()
	f := s.file.Swap(nil)
	if f == nil {
		return nil
	}
	// Readers first: the last connection to close folds the log into the
	// database file, which a read-only one cannot do.
	err := errors.Join(f.readers.close(), f.writer.close())
	if err != nil {
		return fmt.Errorf("close database %s: %w", s.path, err)
	}
	return nil
}

// use returns the database, opening it when this is the first use. A failed
// opening is tried again by the next call.
func (s *Store) use(ctx context.Context) (*file, error) {
	if f := s.file.Load(); f != nil {
		return f, nil
	}
	select {
	case <-s.opening:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.opening <- struct{}{} }()
	if s.closed.Load() {
		return nil, s.explain(errClosed)
	}
	if f := s.file.Load(); f != nil {
		return f, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.openFile(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	s.file.Store(f)
	s.work.Go(func() { s.resumeScrub(s.background) })
	return f, nil
}

// write runs do in a transaction and returns when it is durable.
func (s *Store) write(ctx context.Context, do func(*transaction) error) error {
	f, err := s.use(ctx)
	if err != nil {
		return err
	}
	return s.explain(f.writer.run(ctx, do))
}
