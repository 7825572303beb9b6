package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Update replaces steps by newly written Markdown, or their text. Each URI
// succeeds or fails for itself.
func (e *Engine) Update(ctx context.Context, c Caller, in UpdateInput) (UpdateReply, error) {
	if len(in.URIs) == 0 {
		return UpdateReply{}, fault.New(fault.InvalidArgument, "uris must not be empty")
	}
	if len(in.Documents) > 0 && len(in.Documents) != len(in.URIs) {
		return UpdateReply{}, fault.New(fault.InvalidArgument, "markdown_doc has %d entries for %d uris; give one for each", len(in.Documents), len(in.URIs))
	}
	h, release := e.hold(ctx)
	defer release()
	var reply UpdateReply
	for i, uri := range in.URIs {
		doc := ""
		if i < len(in.Documents) {
			doc = in.Documents[i]
		}
		err := h.updateOne(ctx, c, uri, doc, in.Updates)
		reply.Results = append(reply.Results, itemResult(uri, "updated", err))
		if err != nil {
			reply.TotalFailed++
			continue
		}
		reply.TotalUpdated++
	}
	return reply, nil
}

func itemResult(uri, done string, err error) ItemResult {
	if err == nil {
		return ItemResult{URI: uri, Status: done, Message: done}
	}
	message := "an internal error; the server's log has it"
	if f := (*fault.Error)(nil); asFault(err, &f) {
		message = f.Message
	}
	return ItemResult{URI: uri, Status: "error", Message: message}
}

func (e held) updateOne(ctx context.Context, c Caller, uri, doc string, updates json.RawMessage) error {
	chain, i, err := e.findStep(ctx, c, uri)
	if err != nil {
		return err
	}
	if err := c.checkWrite(chain); err != nil {
		return err
	}
	if strings.TrimSpace(doc) == "" {
		if doc, err = textUpdate(updates); err != nil {
			return err
		}
	}
	step, found := chain.ParseStep(i, []byte(doc))
	old := chain.Steps[i]
	if step.Challenge == nil && !strings.Contains(doc, `"challenge"`) && len(updates) > 0 {
		step.Challenge, step.Templates = old.Challenge, old.Templates
	}
	chain.Steps[i] = step
	chain, twice := chain.Rename()
	found = append(found, twice...)
	if err := e.judgeStep(ctx, &chain, i, found); err != nil {
		return err
	}
	chain.UpdatedAt = e.opt.Now()
	return e.saveOver(ctx, chain)
}

// saveOver stores a changed chain over the one that was read.
func (e *Engine) saveOver(ctx context.Context, chain protocol.Chain) error {
	if _, err := e.store.Writer.SaveChains(ctx, []Change{{Chain: chain, Replaces: chain.Revision}}); err != nil {
		return err
	}
	e.embed(ctx, chain)
	return nil
}

// textUpdate takes the one field of `updates` that may be changed.
func textUpdate(updates json.RawMessage) (string, error) {
	var u struct {
		Text string `json:"text"`
	}
	if len(updates) == 0 || json.Unmarshal(updates, &u) != nil || strings.TrimSpace(u.Text) == "" {
		return "", fault.New(fault.InvalidArgument, "nothing to update: give markdown_doc, or updates with a text")
	}
	return u.Text, nil
}

// judgeStep lets the challenge driver judge one changed step.
func (e held) judgeStep(ctx context.Context, chain *protocol.Chain, i int, found []protocol.Diagnostic) error {
	s := &chain.Steps[i]
	if s.Challenge != nil {
		use, problem := e.judgeOf(*s)
		if problem != nil {
			found = append(found, *problem)
		} else {
			ds, err := e.validate(ctx, use, s)
			if err != nil {
				return err
			}
			found = append(found, ds...)
		}
	}
	found = append(found, protocol.CheckReferences(*chain)...)
	_, _, err := split([]protocol.Chain{*chain}, found)
	return err
}

// Delete removes steps; the rest of the chain closes the gap. Deleting the
// head of a chain deletes the chain.
func (e *Engine) Delete(ctx context.Context, c Caller, uris []string) (DeleteReply, error) {
	if len(uris) == 0 {
		return DeleteReply{}, fault.New(fault.InvalidArgument, "uris must not be empty")
	}
	var reply DeleteReply
	for _, uri := range uris {
		err := e.deleteOne(ctx, c, uri)
		reply.Results = append(reply.Results, itemResult(uri, "deleted", err))
		if err != nil {
			reply.TotalFailed++
			continue
		}
		reply.TotalDeleted++
	}
	return reply, nil
}

func (e *Engine) deleteOne(ctx context.Context, c Caller, uri string) error {
	chain, i, err := e.findStep(ctx, c, uri)
	if err != nil {
		return err
	}
	if err := c.checkWrite(chain); err != nil {
		return err
	}
	if i == 0 {
		return e.store.Writer.DeleteChain(ctx, chain.Space, chain.ID, chain.Revision)
	}
	chain.Steps = append(chain.Steps[:i:i], chain.Steps[i+1:]...)
	chain, found := chain.Rename()
	if _, _, err := split([]protocol.Chain{chain}, append(found, protocol.CheckReferences(chain)...)); err != nil {
		return fault.Wrap(err, fault.InvalidArgument, "a later step uses the result of this one; change it first")
	}
	chain.UpdatedAt = e.opt.Now()
	return e.saveOver(ctx, chain)
}

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
