package director

import (
	"context"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// Pending is a question that a person answers apart from the client. The caller
// may wait with Settled and then give the reply of Resumed.
type Pending struct {
	Run run.ID
	Seq int64
	// Solved is how many steps the reply reports.
	Solved int
}

// answers wakes who waits for an approval that is answered on its page in this
// process. The zero value is ready; it is safe for concurrent use.
type answers struct {
	mu        sync.Mutex // guards listeners
	listeners map[run.ID]map[chan struct{}]struct{}
}

// settleLook is how often a store is looked at for an answer that another
// process took.
const settleLook = time.Second

// Settled returns nil once the question is no longer open, whoever answered it,
// and the context's error before.
func (e *Engine) Settled(ctx context.Context, id run.ID, seq int64) error {
	told, leave := e.answers.listen(id)
	defer leave()
	look := time.NewTicker(settleLook)
	defer look.Stop()
	for {
		r, err := e.parts.Runs.Read(ctx, id)
		if q := r.Step.Question; err == nil && (q == nil || q.Seq != seq) {
			return nil
		}
		if fault.CodeOf(err) == fault.NotFound {
			return nil
		}
		select {
		case <-told:
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resumed is the reply after a question was settled: the open step as it is now.
func (e *Engine) Resumed(ctx context.Context, c access.Caller, p Pending) (api.StepReply, error) {
	round, err := use(e, func(u useCase) (Round, error) {
		t, err := u.resume(ctx, c, p.Run)
		if err != nil {
			return Round{}, err
		}
		t.Tried, t.Solved = "to wait for a person's answer", plan.LastSolved(t.State, p.Solved)
		noteApproval(t)
		return t.show(ctx)
	})
	return replyOf(round, err)
}

// listen returns a channel that has a value when an approval of the run was
// answered; leave ends that.
func (a *answers) listen(id run.ID) (told <-chan struct{}, leave func()) {
	ch := make(chan struct{}, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listeners == nil {
		a.listeners = make(map[run.ID]map[chan struct{}]struct{})
	}
	if a.listeners[id] == nil {
		a.listeners[id] = make(map[chan struct{}]struct{})
	}
	a.listeners[id][ch] = struct{}{}
	return ch, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if delete(a.listeners[id], ch); len(a.listeners[id]) == 0 {
			delete(a.listeners, id)
		}
	}
}

func (a *answers) tell(id run.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ch := range a.listeners[id] {
		select {
		case ch <- struct{}{}:
		default: // it has something to wake up for already
		}
	}
}
