package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Dump shows a step, or with whole its protocol, as the Markdown it can be
// minted from again.
func (e *Engine) Dump(ctx context.Context, c Caller, uri string, whole bool) (DumpReply, error) {
	if !strings.Contains(uri, "://") {
		uri = protocol.URI(uri[strings.LastIndex(uri, "/")+1:])
	}
	chain, i, err := e.findStep(ctx, c, uri)
	if err != nil {
		return DumpReply{}, err
	}
	title := chain.Title
	if whole {
		return DumpReply{
			Document: protocol.Render(chain), URI: protocol.URI(chain.Steps[0].UUID), Label: title,
			ChainLabel: &title, StepCount: len(chain.Steps),
		}, nil
	}
	s := chain.Steps[i]
	reply := DumpReply{
		Document: protocol.RenderStep(s), URI: uri, Label: s.Label, ChainLabel: &title,
		Position: &Position{StepIndex: i + 1, StepCount: len(chain.Steps)},
	}
	if s.Challenge != nil {
		h, release := e.hold(ctx)
		defer release()
		kind := h.typeOf(s)
		reply.Challenge = &Challenge{Type: kind, Description: "As stored; kairos_begin opens a run.", ProofHash: run.Genesis, Display: member(s.Challenge, kind)}
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

// Spaces lists the caller's spaces and how many protocols are in each.
func (e *Engine) Spaces(ctx context.Context, c Caller, titles bool) (SpacesReply, error) {
	if err := e.ready(ctx); err != nil {
		return SpacesReply{}, err
	}
	var reply SpacesReply
	for _, space := range c.spaces() {
		count, err := e.store.Protocols.Count(ctx, space)
		if err != nil {
			return SpacesReply{}, fmt.Errorf("count the protocols of space %s: %w", space, err)
		}
		info := SpaceInfo{Name: spaceName(c, space), ChainCount: count}
		if titles {
			err := e.eachListed(ctx, space, func(ch protocol.Chain) error {
				info.Chains = append(info.Chains, ChainInfo{ChainID: ch.ID, Title: ch.Title, StepCount: len(ch.Steps)})
				return nil
			})
			if err != nil {
				return SpacesReply{}, err
			}
		}
		reply.Spaces = append(reply.Spaces, info)
	}
	return reply, nil
}

// listPage is how many protocols are read at a time.
const listPage = 200

// eachListed calls do with the outline of every protocol of the space, in the
// order of List.
func (e *Engine) eachListed(ctx context.Context, space string, do func(protocol.Chain) error) error {
	for cursor := ""; ; {
		chains, next, err := e.store.Protocols.List(ctx, space, cursor, listPage)
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
