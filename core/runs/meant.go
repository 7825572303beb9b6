package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// OneOfCandidates is the placeholder of the run that is meant, where several could be.
const OneOfCandidates = "<one of candidates>"

// maxCandidates is how many runs a reply names to choose from: an agent reads them.
const maxCandidates = 5

// choice finds the run that a call means without naming one. It looks at a bounded
// number of open runs, however many there are.
type choice struct {
	keeper *Keeper
	c      access.Caller
	chain  protocol.Chain
}

// ToContinue is the run that a call means which names none: the newest run of the
// caller's connection, else the principal's only one.
func (k *Keeper) ToContinue(ctx context.Context, c access.Caller, chain protocol.Chain) (run.ID, error) {
	ch := choice{k, c, chain}
	own, err := k.openOnConnection(ctx, c, chain.ID)
	if err != nil {
		return "", err
	}
	if len(own.Runs) > 0 {
		return ch.newest(own)
	}
	open, err := k.openRuns(ctx, c, chain.ID)
	if err != nil {
		return "", err
	}
	return ch.only(open)
}

// ToAttest is the only run of the connection, else of several the one that this
// caller's last kairos_next completed, else as for any other call.
func (k *Keeper) ToAttest(ctx context.Context, c access.Caller, chain protocol.Chain) (run.ID, error) {
	ch := choice{k, c, chain}
	own, err := k.openOnConnection(ctx, c, chain.ID)
	if err != nil {
		return "", err
	}
	if len(own.Runs) == 1 && !own.More {
		return own.Runs[0].ID, nil
	}
	open, err := k.openRuns(ctx, c, chain.ID)
	if err != nil {
		return "", err
	}
	choose := func() (run.ID, error) { return ch.only(open) }
	mine, among := open, func(run.Summary) bool { return true }
	if len(own.Runs) > 0 {
		choose = func() (run.ID, error) { return ch.newest(own) }
		mine, among = own, func(s run.Summary) bool { return s.Connection == ch.c.Connection }
	}
	if len(mine.Runs) < 2 && !mine.More {
		return choose()
	}
	last, clear, err := ch.lastMoved(ctx, open, among)
	switch {
	case err != nil:
		return "", err
	case !clear:
		return "", ch.ambiguous(mine)
	case last.State == run.Complete:
		return last.ID, nil
	}
	return choose()
}

// newest is the run of the connection that was begun last.
func (ch choice) newest(own listed) (run.ID, error) {
	changed := slices.MaxFunc(own.Runs, func(a, b run.Summary) int { return a.UpdatedAt.Compare(b.UpdatedAt) }).UpdatedAt
	if len(own.Runs) > 1 && ch.keeper.setBack(changed) {
		// Neither ids nor times say which came last if the clock was set back between them.
		return "", ch.ambiguous(own)
	}
	return own.Runs[0].ID, nil
}

// only is the run if there is one and no other.
func (ch choice) only(open listed) (run.ID, error) {
	switch {
	case open.More || len(open.Runs) > 1:
		return "", ch.ambiguous(open)
	case len(open.Runs) == 1:
		return open.Runs[0].ID, nil
	}
	first := protocol.URI(ch.chain.Steps[0].UUID)
	return "", fault.New(fault.NoOpenRun, "no open run of %q", ch.chain.Title).
		WithNext("call kairos_begin with %s", first).WithCall(api.ToolBegin, map[string]any{"uri": first})
}

// lastMoved is the run that the caller's last kairos_next continued, of those of open
// that match; the zero run: none of them. It is not clear if that may be a run beyond
// open, or if the clock was set back: times then say nothing of the order of runs.
func (ch choice) lastMoved(ctx context.Context, open listed, match func(run.Summary) bool) (last run.Run, clear bool, err error) {
	var seen time.Time // when the last run that was looked at was changed
	for _, s := range open.Runs {
		if seen = s.UpdatedAt; !match(s) {
			continue
		}
		if !s.UpdatedAt.After(last.MovedAt) || ch.keeper.setBack(s.UpdatedAt) {
			return last, true, nil
		}
		r, err := ch.keeper.store.Runs.Run(ctx, s.ID)
		if err != nil {
			return run.Run{}, false, fmt.Errorf("find the run to attest: %w", err)
		}
		if r.ChangedAt().Add(clock.Tolerance).Before(r.UpdatedAt) {
			return run.Run{}, false, nil
		}
		if r.MovedAt.After(last.MovedAt) {
			last = r
		}
	}
	return last, !open.More || last.MovedAt.After(seen), nil
}

// ambiguous names the first runs that could be meant.
func (ch choice) ambiguous(open listed) *fault.Error {
	ids := make([]string, min(len(open.Runs), maxCandidates))
	for i := range ids {
		ids[i] = string(open.Runs[i].ID)
	}
	first := protocol.URI(ch.chain.Steps[0].UUID)
	return fault.New(fault.AmbiguousRun, "%s of %q are open%s", several(open), ch.chain.Title, naming(ids, open)).
		With("candidates", ids).WithNext("repeat the call with the run_id you mean, or with the nonce of its open challenge").
		WithCall(api.ToolBegin, map[string]any{"uri": first, "session_id": OneOfCandidates})
}

func several(open listed) string {
	if open.More {
		return fmt.Sprintf("%d or more runs", len(open.Runs))
	}
	return fmt.Sprintf("%d runs", len(open.Runs))
}

func naming(ids []string, open listed) string {
	list := strings.Join(ids, ", ")
	if len(ids) == len(open.Runs) && !open.More {
		return ": " + list
	}
	return ", among them " + list
}
