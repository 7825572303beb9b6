package runs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Change is a run that one call changes: what was loaded, and what happened since.
// It is for one goroutine.
type Change struct {
	Run    run.Run
	Chain  protocol.Chain // that the run is pinned to
	Events []run.Event    // not stored yet

	keeper  *Keeper
	records []Recorded // not stored yet
	created bool       // the run is not in the store yet
	moved   bool       // the run was adopted, and Chain is its protocol where it is now
	absent  Absent     // when the run was read
	read    time.Time
}

// Create is a change that makes a new run; it is stored with the first save.
func (k *Keeper) Create(r run.Run, chain protocol.Chain) *Change {
	return &Change{Run: r, Chain: chain, keeper: k, created: true}
}

// Open is a change of a stored run that the caller may continue: one of its own.
func (k *Keeper) Open(ctx context.Context, c access.Caller, id run.ID) (*Change, error) {
	change, err := k.Oversee(ctx, c, id)
	if err == nil && change.Run.Principal != c.Principal {
		return nil, fault.New(fault.Forbidden, "run %s is of %s, and nobody else continues it: an operator looks at it and ends it", id, change.Run.Principal).
			WithNext("tell the user whose run it is; call kairos_begin without a run_id to begin another")
	}
	return change, err
}

// Oversee is a change of a stored run that the caller oversees (access.Caller.Oversees). A run
// whose time has passed is ended.
func (k *Keeper) Oversee(ctx context.Context, c access.Caller, id run.ID) (*Change, error) {
	read := time.Now()
	r, absent, err := k.readWithAbsent(ctx, id)
	if err != nil {
		return nil, err
	}
	r, chain, err := k.overseen(ctx, c, r)
	if err != nil {
		return nil, err
	}
	change := k.Change(r, chain)
	change.absent, change.read = absent, read
	return change, nil
}

// Change is a change of a run that was loaded with its protocol.
func (k *Keeper) Change(r run.Run, chain protocol.Chain) *Change {
	return &Change{Run: r, Chain: chain, keeper: k}
}

// New reports whether the run is not in the store yet.
func (c *Change) New() bool { return c.created }

// absentFor is how long what was absent when a call read its run counts as absent.
// Another call may store it meanwhile, and drivers and people may take much longer.
const absentFor = 100 * time.Millisecond

// Absent is what the store held nothing of a moment ago; the zero value says nothing.
func (c *Change) Absent() Absent {
	if time.Since(c.read) > absentFor {
		return Absent{}
	}
	return c.absent
}

// Stored makes Absent say nothing any more, because the call has stored some of it.
func (c *Change) Stored() { c.absent = Absent{} }

// Now is when the next event of the run happens. It is for what is recorded, and
// for the order of what happens in the run. A deadline is compared with
// the clock instead, which may have been set back since the run was changed.
func (c *Change) Now() time.Time {
	at, _ := c.Run.Stamp(c.keeper.opt.Clock.Now())
	return at
}

// Stamp puts the run, the step and the time into an event.
func (c *Change) Stamp(ev *run.Event) {
	ev.Run, ev.Step = c.Run.ID, c.Run.Step.Index
	ev.At, ev.Clock = c.Run.Stamp(c.keeper.opt.Clock.Now())
}

// Apply lets the state machine judge a stamped event and remembers it for the
// save. A refusal is the state machine's error.
func (c *Change) Apply(ev run.Event) error {
	next, err := run.Apply(c.Run, ev)
	if err != nil {
		return err
	}
	ev.Unrecorded = !run.Records(c.Run, next)
	c.Run = next
	c.Events = append(c.Events, ev)
	return nil
}

// Append stamps an event and applies it.
func (c *Change) Append(ev run.Event) error {
	c.Stamp(&ev)
	return c.Apply(ev)
}

// Adopt gives the run to an owner, with its protocol where it is now.
func (c *Change) Adopt(o run.Owner, chain protocol.Chain, reason string) error {
	if err := c.Append(run.Event{Kind: run.Adopted, Owner: &o, Reason: reason}); err != nil {
		return err
	}
	c.Chain, c.moved = chain, true
	return nil
}

// Record keeps a reply for network retries, with the next save.
func (c *Change) Record(r Recorded) { c.records = append(c.records, r) }

// Save stores what happened, at once or not at all, and returns the events. A call
// saves once, right before it answers or asks. A step keeps its first events: what its
// caller repeats afterwards is counted in the run, and neither stored nor kept as a
// reply to repeat.
func (c *Change) Save(ctx context.Context) ([]run.Event, error) {
	change := Save{Run: c.Run, Events: c.Events, Recorded: c.records}
	if unrecorded := func(e run.Event) bool { return e.Unrecorded }; slices.ContainsFunc(c.Events, unrecorded) {
		if change.Events = slices.DeleteFunc(slices.Clone(c.Events), unrecorded); len(change.Events) == 0 {
			change.Recorded = nil
		}
	}
	switch {
	case c.created:
		if err := c.keeper.store.Runs.CreateRun(ctx, change, c.Chain); err != nil {
			return nil, fmt.Errorf("create run %s: %w", c.Run.ID, err)
		}
		c.created = false
	case len(c.Events) == 0 && len(c.records) == 0:
		return nil, nil
	default:
		if c.moved {
			change.Moved = &c.Chain
		}
		if err := c.keeper.store.Runs.SaveRun(ctx, change); err != nil {
			return nil, fmt.Errorf("save run %s: %w", c.Run.ID, err)
		}
	}
	c.Run.Revision++
	c.keeper.live.put(c.Run)
	c.keeper.moved(c.Run, c.Chain)
	saved := c.Events
	c.Events, c.records, c.moved = nil, nil, false
	return saved, nil
}

// Over says that the run cannot continue, and since when and why.
func (c *Change) Over(ctx context.Context) *fault.Error {
	uri := protocol.URI(c.Chain.Steps[0].UUID)
	return fault.New(fault.NoOpenRun, "run %s %s", c.Run.ID, c.ending(ctx)).
		WithNext("call kairos_begin with %s to start over", uri).
		With("run_id", c.Run.ID).WithCall(api.ToolBegin, map[string]any{"uri": uri})
}

// ending is how the run ended, for people. Unreadable parts are left out.
func (c *Change) ending(ctx context.Context) string {
	events, err := c.keeper.store.History.Events(ctx, c.Run.ID)
	events = slices.DeleteFunc(events, func(ev run.Event) bool { return ev.Kind == run.Redacted })
	if err != nil || len(events) == 0 {
		return "is " + string(c.Run.State)
	}
	last := events[len(events)-1]
	at := last.At.UTC().Format(time.RFC3339)
	switch last.Kind {
	case run.Attested:
		return fmt.Sprintf("was attested at %s with outcome %s", at, last.Outcome)
	case run.Abandoned:
		return fmt.Sprintf("was abandoned at %s: %s", at, plain.Clip(last.Reason, 200))
	case run.Expired:
		return fmt.Sprintf("ended at %s: %s", at, last.Reason)
	}
	return "is " + string(c.Run.State)
}
