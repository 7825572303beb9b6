package director

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// UndeclineInput names the run whose declines are taken back.
type UndeclineInput struct {
	Run    run.ID
	By     string // who takes them back, for the record
	Reason string
}

// UndeclineReply lists what was taken back.
type UndeclineReply struct {
	RunID    string      `json:"run_id"`
	Declines []TakenBack `json:"declines"`
	// Open: the run is still open, so that the person can be asked again.
	Open bool `json:"open"`
}

// TakenBack is a decline that does not count any more.
type TakenBack struct {
	RunID string    `json:"run_id"`
	Title string    `json:"title"`
	Step  int       `json:"step"`
	Label string    `json:"label"`
	Via   string    `json:"via"`
	At    time.Time `json:"at"`
}

// Undecline takes back what people declined in the run, and what keeps its open step from
// being approved because it was declined in another run. It approves nothing: a person is
// asked again.
func (e *Engine) Undecline(ctx context.Context, c access.Caller, in UndeclineInput) (UndeclineReply, error) {
	return use(e, func(u useCase) (UndeclineReply, error) { return u.undecline(ctx, c, in) })
}

func (u useCase) undecline(ctx context.Context, c access.Caller, in UndeclineInput) (UndeclineReply, error) {
	if in.By == "" {
		return UndeclineReply{}, fault.New(fault.InvalidArgument, "a decline is taken back by somebody: by is missing")
	}
	t, err := u.resume(ctx, c, in.Run)
	if err != nil {
		return UndeclineReply{}, err
	}
	reply := UndeclineReply{RunID: string(in.Run), Open: t.Run.State.Live(), Declines: []TakenBack{}}
	action, err := plan.OpenAction(t.State)
	if err != nil {
		return UndeclineReply{}, err
	}
	counting, err := u.e.parts.Declines.Counting(ctx, t.Run.Principal, t.Run.Space, in.Run, action)
	if err != nil {
		return UndeclineReply{}, err
	}
	for _, d := range counting {
		reply.Declines = append(reply.Declines, TakenBack{RunID: string(d.Run), Title: d.Title, Step: d.Step, Label: d.Label, Via: d.Via, At: d.At})
	}
	own := plan.StandingDecline(t.State)
	if own != nil && len(counting) == 0 {
		reply.Declines = append(reply.Declines, TakenBack{
			RunID: string(in.Run), Title: t.Chain.Title, Step: t.Run.Step.Index, Label: plan.OpenStep(t.State).Label, Via: own.Via, At: own.At,
		})
	}
	if len(reply.Declines) == 0 {
		return UndeclineReply{}, fault.New(fault.InvalidArgument, "nothing that counts was declined in run %s: there is nothing to take back", in.Run)
	}
	if err := t.apply(run.Event{Kind: run.Undeclined, By: plain.Clip(in.By, 200), Reason: plain.Clip(in.Reason, 2000)}); err != nil {
		return UndeclineReply{}, err
	}
	if err := t.save(ctx); err != nil {
		return UndeclineReply{}, err
	}
	// If this fails, the command finds the same declines again.
	return reply, u.e.parts.Declines.TakeBack(ctx, counting)
}
