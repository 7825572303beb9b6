package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Config says where the file is kept.
type Config struct {
	// Dir is the folder of the one file; empty: see Allowed.
	Dir string
	// Allowed are the folders under which a file may be written, if Dir is empty:
	// a run's is under its own first root if that lies in one of them, else in
	// the first of them. A run for which there is none has no file.
	Allowed []string
	// AnyRoot: a run's own root counts wherever it lies. For a server that only
	// its user's own client can reach.
	AnyRoot bool
	// Secret is the key that all processes of the server share. It is called
	// when the first run moves.
	Secret func() ([32]byte, error)
}

const (
	// maxPending bounds how many runs wait to be written, on a disk that hangs.
	maxPending = 4096
	// retryAfter is when a failed write is tried again.
	retryAfter = 10 * time.Second
	// closeWait is how long Close waits for a disk that hangs.
	closeWait = 3 * time.Second
	// forgotten is after how long a block of another server is dropped.
	forgotten = 30 * 24 * time.Hour
)

// Keeper writes the files in the background: whoever tells it where a run stands
// never waits, and of several tellings the last one wins. It is safe for
// concurrent use, and several processes may keep the same file.
type Keeper struct {
	config Config
	log    *slog.Logger

	wake chan struct{} // holds one element while there is something to write
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards the fields below
	pending map[string]map[run.ID]runs.Standing
	waiting int             // in pending
	folders map[string]bool // ever written to; true: the last write failed
	running bool
	closed  bool
	mark    Mark            // zero until its key was read
	ctx     context.Context // of the writing; ends when Close has waited long enough
	cancel  context.CancelFunc
}

// New returns a keeper. It touches nothing until a run moves.
func New(config Config, log *slog.Logger) *Keeper {
	if config.Dir != "" {
		config.Dir = filepath.Clean(config.Dir)
	}
	k := &Keeper{
		config: config, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}),
		pending: map[string]map[run.ID]runs.Standing{}, folders: map[string]bool{},
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// ownMark is the mark of this server's blocks.
func (k *Keeper) ownMark() (Mark, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mark.key != nil {
		return k.mark, nil
	}
	secret, err := k.config.Secret()
	if err != nil {
		return Mark{}, err
	}
	k.mark, err = NewMark(secret)
	return k.mark, err
}

// Moved implements runs.Handover.
func (k *Keeper) Moved(s runs.Standing) {
	if dir := k.folderOf(s); dir != "" {
		k.put(dir, s)
	}
}

// folderOf is where the run's file is; empty: nowhere.
func (k *Keeper) folderOf(s runs.Standing) string {
	switch {
	case k.config.Dir != "":
		return k.config.Dir
	case len(s.Roots) > 0 && (k.config.AnyRoot || k.allowed(s.Roots[0])):
		return filepath.Clean(s.Roots[0])
	case len(k.config.Allowed) > 0:
		return filepath.Clean(k.config.Allowed[0])
	}
	return ""
}

func (k *Keeper) allowed(root string) bool {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(k.config.Allowed, func(dir string) bool {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return false
		}
		within, err := filepath.Rel(dir, real)
		return err == nil && filepath.IsLocal(within)
	})
}

// put queues the standing, unless a later one waits already.
func (k *Keeper) put(dir string, s runs.Standing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	waits, known := k.pending[dir][s.Run.ID]
	switch {
	case known && waits.Run.UpdatedAt.After(s.Run.UpdatedAt):
		return
	case !known && k.waiting >= maxPending:
		k.log.Warn("a run is missing from the handover file: too many wait to be written", "run", s.Run.ID, "folder", dir)
		return
	case !known:
		k.waiting++
	}
	if k.pending[dir] == nil {
		k.pending[dir] = map[run.ID]runs.Standing{}
	}
	k.pending[dir][s.Run.ID] = s
	if !k.running {
		k.running = true
		go k.keep()
	}
	k.poke()
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Close writes what waits and ends. It may be called twice.
func (k *Keeper) Close() error {
	k.mu.Lock()
	k.closed = true
	running := k.running
	k.mu.Unlock()
	defer k.cancel()
	if !running {
		return nil
	}
	k.poke()
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-k.done:
		return nil
	case <-late.C:
		return errors.New("the handover file could not be written in time; the runs themselves are stored")
	}
}

// keep writes until Close.
func (k *Keeper) keep() {
	defer close(k.done)
	var retry <-chan time.Time
	for {
		select {
		case <-k.wake:
		case <-retry:
		}
		k.mu.Lock()
		closed, pending := k.closed, k.pending
		k.pending, k.waiting = map[string]map[run.ID]runs.Standing{}, 0
		k.mu.Unlock()
		retry = nil
		for dir, standings := range pending {
			if !k.told(dir, standings, k.update(dir, standings)) {
				retry = time.After(retryAfter)
			}
		}
		if closed {
			return
		}
	}
}

// told reports whether the standings are written. It logs when writing begins to
// fail and when it works again, and queues what is not written for the next try.
func (k *Keeper) told(dir string, standings map[run.ID]runs.Standing, err error) bool {
	k.mu.Lock()
	failedBefore := k.folders[dir]
	k.folders[dir] = err != nil
	k.mu.Unlock()
	switch {
	case err != nil && !failedBefore:
		k.log.Warn("the handover file is not written; the runs go on without it", "folder", dir, "error", err)
	case err == nil && failedBefore:
		k.log.Info("the handover file is written again", "folder", dir)
	}
	if err == nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, s := range standings {
		if k.pending[dir] == nil {
			k.pending[dir] = map[run.ID]runs.Standing{}
		}
		if _, newer := k.pending[dir][id]; !newer {
			k.pending[dir][id] = s
			k.waiting++
		}
	}
	return false
}

// update brings the file of a folder to where the runs stand.
func (k *Keeper) update(dir string, standings map[run.ID]runs.Standing) (err error) {
	mark, err := k.ownMark()
	if err != nil {
		return err
	}
	if dir == k.config.Dir {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the folder: %w", err)
		}
	}
	f, err := openFolder(k.ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	old, file, err := f.read()
	if err != nil {
		return err
	}
	return f.write(old, merge(mark, file.Blocks, standings, time.Now()))
}

// merge is the blocks of a file with the runs where they stand now. What other
// processes wrote later stays, and so do blocks of other servers; what somebody
// made of our own does not.
func merge(mark Mark, blocks []Block, standings map[run.ID]runs.Standing, now time.Time) []Block {
	var out []Block
	later := make(map[run.ID]bool)
	for _, b := range blocks {
		s, moved := standings[b.Session]
		switch {
		case moved && mark.own(b) && b.UpdatedAt.After(s.Run.UpdatedAt) && s.Run.State.Live():
			later[b.Session] = true
		case b.Server == mark.server && (moved || !mark.own(b)), b.Server != mark.server && now.Sub(b.UpdatedAt) > forgotten:
			continue
		}
		out = append(out, b)
	}
	for id, s := range standings {
		if s.Run.State.Live() && !later[id] {
			out = append(out, mark.sign(blockOf(s), s.Run.Principal))
		}
	}
	return ownFirst(mark, out)
}

// Reconcile compares the files with where the runs stand by the database, for
// what a process that was killed could not write any more. stand says
// fault.NotFound for a run that is gone. What differs is written soon.
func (k *Keeper) Reconcile(ctx context.Context, stand func(context.Context, run.ID) (runs.Standing, error)) error {
	mark, err := k.ownMark()
	if err != nil {
		return err
	}
	var errs error
	for _, dir := range k.known() {
		file, err := readIn(dir)
		if err != nil {
			continue // writing will tell
		}
		for _, b := range file.Blocks {
			if mark.own(b) {
				errs = errors.Join(errs, k.reconcile(ctx, dir, b, stand))
			}
		}
	}
	return errs
}

func (k *Keeper) reconcile(ctx context.Context, dir string, b Block, stand func(context.Context, run.ID) (runs.Standing, error)) error {
	s, err := stand(ctx, b.Session)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		s = runs.Standing{Run: run.Summary{ID: b.Session, State: run.Ended, UpdatedAt: b.UpdatedAt}}
	case err != nil:
		return fmt.Errorf("find where run %s stands: %w", b.Session, err)
	}
	if !s.Run.State.Live() || !s.Run.UpdatedAt.Equal(b.UpdatedAt) {
		k.put(dir, s)
	}
	return nil
}

// known are the folders in which there may be files.
func (k *Keeper) known() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	dirs := []string{}
	for dir := range k.folders {
		dirs = append(dirs, dir)
	}
	for _, dir := range append([]string{k.config.Dir}, k.config.Allowed...) {
		if dir = strings.TrimSpace(dir); dir != "" && !slices.Contains(dirs, filepath.Clean(dir)) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	slices.Sort(dirs)
	return dirs
}
