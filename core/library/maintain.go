package library

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Dump shows a step, or its protocol, as the Markdown it can be minted from
// again.
func (l *Library) Dump(ctx context.Context, c access.Caller, in api.DumpRequest) (_ api.DumpReply, err error) {
	defer l.operated(OperationRetrieve, c, time.Now(), &err)
	uri := in.URI
	if !strings.Contains(uri, "://") {
		uri = protocol.URI(uri[strings.LastIndex(uri, "/")+1:])
	}
	chain, i, err := l.FindStep(ctx, c, uri)
	if err != nil {
		return api.DumpReply{}, err
	}
	title := chain.Title
	if in.Protocol {
		return api.DumpReply{
			Document: protocol.Render(chain), URI: protocol.URI(chain.Steps[0].UUID), Label: title,
			ChainLabel: &title, StepCount: len(chain.Steps),
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
		h, release := l.hold()
		defer release()
		kind := h.TypeOf(s)
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

// listPage is how many protocols are read at a time.
const listPage = 200

// EachListed calls do with the outline of every protocol of the space, in the
// order of List.
func (l *Library) EachListed(ctx context.Context, space string, do func(protocol.Chain) error) error {
	for cursor := ""; ; {
		chains, next, err := l.store.Protocols.List(ctx, space, cursor, listPage)
		if err != nil {
			return fmt.Errorf("list space %s: %w", space, err)
		}
		for _, chain := range chains {
			if err := do(chain); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}
