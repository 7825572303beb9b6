package library

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Dump returns a step, or its protocol, as Markdown that can be minted again.
func (l *Library) Dump(ctx context.Context, c access.Caller, in api.DumpRequest) (_ api.DumpReply, err error) {
	defer operated(l.opt.Observer, OperationRetrieve, c, time.Now(), &err)
	uri := in.URI
	if !strings.Contains(uri, "://") {
		uri = protocol.URI(uri[strings.LastIndex(uri, "/")+1:])
	}
	chain, i, err := l.catalog.step(ctx, c, uri)
	if err != nil {
		return api.DumpReply{}, err
	}
	title := chain.Title
	j, release := hold(l.setups)
	defer release()
	if in.Protocol {
		return api.DumpReply{
			Document: protocol.Render(chain), URI: protocol.URI(chain.Steps[0].UUID), Label: title,
			ChainLabel: &title, StepCount: len(chain.Steps), Worth: j.Worth(drivers.Place{Space: chain.Space, Chain: chain}),
		}, nil
	}
	s := chain.Steps[i]
	reply := api.DumpReply{
		Document: protocol.RenderStep(s), URI: uri, Label: s.Label, ChainLabel: &title,
		Position: &api.Position{StepIndex: i + 1, StepCount: len(chain.Steps)},
	}
	if known, err := l.store.Ratings.Quality(ctx, chain.Space, []string{s.UUID}); err != nil {
		l.log.WarnContext(ctx, "the quality of a step could not be read", "step", s.UUID, "error", err)
	} else if q, rated := known[s.UUID]; rated {
		reply.Quality = &q
	}
	if s.Challenge != nil {
		kind := j.TypeOf(s)
		reply.Challenge = &api.Challenge{Type: kind, Description: "As stored; kairos_begin opens a run.", ProofHash: run.Genesis, Display: member(s.Challenge, kind)}
	}
	return reply, nil
}

func member(raw json.RawMessage, key string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m[key]
}
