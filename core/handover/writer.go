package handover

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/runs"
)

const (
	maxQueued = 1024            // changes that wait while a disk hangs
	closeWait = 3 * time.Second // for a disk that hangs
)

// Writer writes the file in the background, because no call may wait for a disk
// that hangs. It is safe for concurrent use.
type Writer struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex // guards the fields below
	queue  []runs.Standing
	idle   chan struct{} // closed when the goroutine that writes has ended; nil if there is none
	failed bool          // the last write failed
	closed bool
}

// New returns a writer of the file in the folder. It touches nothing until a run moves.
func New(dir string, log *slog.Logger) *Writer { return &Writer{dir: dir, log: log} }

// Moved implements runs.Handover. The file then names the run; it is removed when
// the run that it names has ended.
func (w *Writer) Moved(s runs.Standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return
	case s.Run.State.Live():
		w.queue = []runs.Standing{s} // it replaces whatever the file would say before
	case len(w.queue) < maxQueued:
		w.queue = append(w.queue, s)
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
		go w.write(w.idle)
	}
}

// write writes until nothing is queued.
func (w *Writer) write(idle chan<- struct{}) {
	defer close(idle)
	for {
		w.mu.Lock()
		queued := w.queue
		w.queue = nil
		if len(queued) == 0 {
			w.idle = nil
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for _, s := range queued {
			w.note(w.apply(s))
		}
	}
}

func (w *Writer) apply(s runs.Standing) error {
	if s.Run.State.Live() {
		return write(w.dir, encode(s))
	}
	return remove(w.dir, s.Run.ID)
}

// note logs when writing begins to fail and when it works again.
func (w *Writer) note(err error) {
	w.mu.Lock()
	failedBefore := w.failed
	w.failed = err != nil
	w.mu.Unlock()
	switch {
	case err != nil && !failedBefore:
		w.log.Warn("the handover file is not written; the runs continue without it", "folder", w.dir, "error", err)
	case err == nil && failedBefore:
		w.log.Info("the handover file is written again", "folder", w.dir)
	}
}

// Close waits until the queued changes are written. It may be called twice.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	idle := w.idle
	w.mu.Unlock()
	if idle == nil {
		return nil
	}
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-idle:
		return nil
	case <-late.C:
		return errors.New("the handover file could not be written in time; the runs themselves are stored")
	}
}
