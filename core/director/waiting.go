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
	mu   sync.Mutex    // guards next
	next chan struct{} // closed with the next answer; nil: nobody waits
}

// settleLook is how often a store is looked at for an answer that another
// process took.
const settleLook = time.Second

// Settled returns nil once the question is no longer open, whoever answered it,
// and the context's error before.
func (e *Engine) Settled(ctx context.Context, id run.ID, seq int64) error {
	look := time.NewTicker(settleLook)
	defer look.Stop()
	for {
		answered := e.answers.listen()
		r, err := e.parts.Runs.Read(ctx, id)
		if q := r.Step.Question; err == nil && (q == nil || q.Seq != seq) {
			return nil
		}
		if fault.CodeOf(err) == fault.NotFound {
			return nil
		}
		select {
		case <-answered:
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

// listen returns a channel that is closed with the next answer, to whichever run.
func (a *answers) listen() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
}

func (a *answers) notify() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}
