package library

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Dump returns a step, or its protocol, as Markdown that can be minted again, or a part of that.
func (l *Library) Dump(ctx context.Context, c access.Caller, in api.DumpRequest) (_ api.DumpReply, err error) {
	defer operated(l.opt.Observer, OperationRetrieve, c, time.Now(), &err)
	uri := StepURI(in.URI)
	chain, i, err := l.catalog.step(ctx, c, uri)
	if err != nil {
		return api.DumpReply{}, err
	}
	if in.Part != 0 {
		text := protocol.RenderStep(chain.Steps[i])
		if in.Protocol {
			text = protocol.Render(chain)
		}
		return Part(chain, i, text, in.Part)
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

// StepURI is the URI of a step that is named by its URI, or by its id alone.
func StepURI(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	return protocol.URI(name[strings.LastIndex(name, "/")+1:])
}

// Part is a part of a text of the step, by its index, or of its protocol. Parts count from 1.
func Part(chain protocol.Chain, i int, text string, part int) (api.DumpReply, error) {
	parts := protocol.Parts(text)
	if part < 1 || part > len(parts) {
		return api.DumpReply{}, fault.New(fault.InvalidArgument, "there is no part %d: the text has %d, counted from 1", part, len(parts)).
			WithNext("call kairos_dump with a part from 1 to %d", len(parts))
	}
	return api.DumpReply{
		URI: protocol.URI(chain.Steps[i].UUID), Label: chain.Steps[i].Label, ChainLabel: &chain.Title,
		Position: &api.Position{StepIndex: i + 1, StepCount: len(chain.Steps)},
		Part:     part, Parts: len(parts), Document: parts[part-1],
	}, nil
}

func member(raw json.RawMessage, key string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m[key]
}
