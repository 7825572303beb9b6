package director

import (
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Part is a part of a step's text as the run shows it: with its values filled in, and with the
// introduction above the first step. Only the open step and those before it are shown. It
// changes nothing and waits for no driver.
func (e *Engine) Part(ctx context.Context, c access.Caller, in api.DumpRequest) (api.DumpReply, error) {
	if in.Protocol {
		return api.DumpReply{}, fault.New(fault.InvalidArgument, "a run shows one step at a time: leave out protocol, or run_id")
	}
	change, err := e.parts.Runs.Open(ctx, c, run.ID(in.RunID))
	if err != nil {
		return api.DumpReply{}, err
	}
	id, err := protocol.ParseURI(library.StepURI(in.URI))
	if err != nil {
		return api.DumpReply{}, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", library.SearchFirst)
	}
	view := present.View{Run: change.Run, Chain: change.Chain}
	i := slices.IndexFunc(view.Chain.Steps, func(s protocol.Step) bool { return s.UUID == id })
	switch {
	case i < 0:
		return api.DumpReply{}, fault.New(fault.NotFound, "run %s has no step %s", in.RunID, protocol.URI(id)).
			WithNext("call kairos_dump with %s and run_id", view.OpenURI())
	case i+1 > view.Run.Step.Index:
		return api.DumpReply{}, fault.New(fault.InvalidArgument, "step %d is not open yet: run %s is at step %d", i+1, in.RunID, view.Run.Step.Index).
			WithNext("call kairos_dump with %s and run_id, or solve that step first", view.OpenURI())
	}
	return library.Part(view.Chain, i, present.Shown(view.Content(i+1)), in.Part)
}
