package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Config names the folders of the files.
type Config struct {
	// Dir is the folder of the one file; empty: see Allowed.
	Dir string
	// Allowed lists the folders below which files may be written if Dir is empty. A
	// run's file is in its first root if that is below one of them, else in the
	// first of them. If there is none, the run has no file.
	Allowed []string
	// AnyRoot accepts every root. It is for servers that only the user's own client
	// can reach.
	AnyRoot bool
}

const (
	maxPending = 4096             // runs that wait to be written, while a disk hangs
	retryAfter = 10 * time.Second // until a failed write is tried again
	closeWait  = 3 * time.Second  // for a disk that hangs
)

// Writer writes the files in the background: Moved never waits, and the latest
// standing of a run wins. It is safe for concurrent use, and several processes of
// one database may write the same file.
type Writer struct {
	config Config
	log    *slog.Logger

	wake   chan struct{}   // holds one element while there is something to write
	done   chan struct{}   // closed when the goroutine has ended
	ctx    context.Context // of the writing; ends when Close has waited long enough
	cancel context.CancelFunc

	mu      sync.Mutex // guards the fields below
	pending map[place]change
	folders map[string]bool // all written so far; true: the last write failed
	running bool
	closed  bool
}

// place is a run in the file of a folder.
type place struct {
	dir string
	id  run.ID
}

// change is a standing that is to be written.
type change struct {
	runs.Standing
	// checked standings were read from the database after the block was read, so
	// they replace even a block that claims to be later.
	checked bool
}

// New returns a writer. It touches nothing until a run moves.
func New(config Config, log *slog.Logger) *Writer {
	if config.Dir != "" {
		config.Dir = filepath.Clean(config.Dir)
	}
	w := &Writer{
		config: config, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}),
		pending: map[place]change{}, folders: map[string]bool{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Moved implements runs.Handover.
func (w *Writer) Moved(s runs.Standing) {
	if dir := w.folderOf(s); dir != "" {
		w.put(dir, change{Standing: s})
	}
}

// folderOf returns the folder of the run's file; empty: it has none.
func (w *Writer) folderOf(s runs.Standing) string {
	switch {
	case w.config.Dir != "":
		return w.config.Dir
	case len(s.Roots) > 0 && (w.config.AnyRoot || w.allowed(s.Roots[0])):
		return filepath.Clean(s.Roots[0])
	case len(w.config.Allowed) > 0:
		return filepath.Clean(w.config.Allowed[0])
	}
	return ""
}

func (w *Writer) allowed(root string) bool {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(w.config.Allowed, func(dir string) bool {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return false
		}
		within, err := filepath.Rel(dir, real)
		return err == nil && filepath.IsLocal(within)
	})
}

// put queues the change unless a later one is queued.
func (w *Writer) put(dir string, s change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := place{dir, s.Run.ID}
	queued, known := w.pending[at]
	switch {
	case w.closed || known && queued.Run.UpdatedAt.After(s.Run.UpdatedAt):
		return
	case !known && len(w.pending) >= maxPending:
		w.log.Warn("a run is missing from the handover file: too many wait to be written", "run", s.Run.ID, "folder", dir)
		return
	}
	w.pending[at] = s
	if !w.running {
		w.running = true
		go w.write()
	}
	w.poke()
}

func (w *Writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close writes the queued changes and ends. It may be called twice.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	running := w.running
	w.mu.Unlock()
	defer w.cancel()
	if !running {
		return nil
	}
	w.poke()
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-w.done:
		return nil
	case <-late.C:
		return errors.New("the handover file could not be written in time; the runs themselves are stored")
	}
}

// write writes until Close.
func (w *Writer) write() {
	defer close(w.done)
	var retry <-chan time.Time
	for {
		select {
		case <-w.wake:
		case <-retry:
		}
		w.mu.Lock()
		closed, queued := w.closed, w.pending
		w.pending = map[place]change{}
		w.mu.Unlock()
		byFolder := map[string]map[run.ID]change{}
		for at, s := range queued {
			if byFolder[at.dir] == nil {
				byFolder[at.dir] = map[run.ID]change{}
			}
			byFolder[at.dir][at.id] = s
		}
		retry = nil
		for dir, changes := range byFolder {
			if err := w.update(dir, changes); !w.finish(dir, changes, err) {
				retry = time.After(retryAfter)
			}
		}
		if closed {
			return
		}
	}
}

// finish reports whether the changes were written. It logs when writing begins
// to fail and when it works again, and queues what was not written.
func (w *Writer) finish(dir string, changes map[run.ID]change, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	failedBefore := w.folders[dir]
	w.folders[dir] = err != nil
	if err == nil {
		if failedBefore {
			w.log.Info("the handover file is written again", "folder", dir)
		}
		return true
	}
	if !failedBefore {
		w.log.Warn("the handover file is not written; the runs continue without it", "folder", dir, "error", err)
	}
	for id, s := range changes {
		if _, newer := w.pending[place{dir, id}]; !newer {
			w.pending[place{dir, id}] = s
		}
	}
	return false
}

// update applies the changes to the file of a folder.
func (w *Writer) update(dir string, changes map[run.ID]change) (err error) {
	if dir == w.config.Dir {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("create the folder: %w", err)
		}
	}
	f, err := openFolder(w.ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	old, file, err := f.read()
	if err != nil {
		return err
	}
	return f.write(old, merge(file.Blocks, changes))
}

// merge replaces the blocks of runs that moved, unless another process of the
// database wrote a later state. Runs that cannot be resumed lose their blocks.
func merge(blocks []Block, changes map[run.ID]change) []Block {
	var out []Block
	later := make(map[run.ID]bool)
	for _, b := range blocks {
		s, moved := changes[b.Session]
		if moved && (s.checked || !s.Run.State.Live() || !b.UpdatedAt.After(s.Run.UpdatedAt)) {
			continue
		}
		later[b.Session] = moved
		out = append(out, b)
	}
	for id, s := range changes {
		if s.Run.State.Live() && !later[id] {
			out = append(out, blockOf(s.Standing))
		}
	}
	return out
}

// Reconcile compares the files with the database, because a process that was
// killed may have left them behind it. standing returns fault.NotFound for a run
// that is not in the database. Differences are written soon.
func (w *Writer) Reconcile(ctx context.Context, standing func(context.Context, run.ID) (runs.Standing, error)) error {
	var errs error
	for _, dir := range w.known() {
		file, err := readIn(dir)
		if err != nil {
			continue // the next write reports it
		}
		for _, b := range file.Blocks {
			s, err := standing(ctx, b.Session)
			switch {
			case fault.CodeOf(err) == fault.NotFound:
				s.Run = run.Summary{ID: b.Session, State: run.Ended}
				w.put(dir, change{s, true})
			case err != nil:
				errs = errors.Join(errs, fmt.Errorf("read where run %s stands: %w", b.Session, err))
			case !s.Run.State.Live() || !s.Run.UpdatedAt.Equal(b.UpdatedAt):
				w.put(dir, change{s, true})
			}
		}
	}
	return errs
}

// known returns the folders that may have a file.
func (w *Writer) known() []string {
	dirs := []string{}
	for _, dir := range append([]string{w.config.Dir}, w.config.Allowed...) {
		if dir != "" {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir := range w.folders {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
