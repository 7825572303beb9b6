package qdrant

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// change is the effect of a save on one chain.
type change struct {
	key               string
	chain             protocol.Chain // without a revision; of a deletion only its id and space
	deletes           bool
	replaces          int64
	document, outline string
	words             analysed

	base manifest // the stored manifest; zero: none
	next manifest
}

// newChanges encodes and analyses the chains on all processors.
func newChanges(changes []library.Change) ([]change, error) {
	out := make([]change, len(changes))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range changes {
		g.Go(func() (err error) {
			out[i], err = newChange(c)
			return err
		})
	}
	return out, g.Wait()
}

func newChange(c library.Change) (change, error) {
	ch := change{chain: c.Chain, replaces: c.Replaces}
	ch.chain.Revision = 0
	if ch.chain.ID == "" || ch.chain.Space == "" || strings.Contains(ch.chain.ID+ch.chain.Space, "\n") {
		return ch, fault.New(fault.InvalidArgument, "protocol %q has no id or no space", ch.chain.Title)
	}
	ch.key = manifestID(ch.chain.Space, ch.chain.ID)
	if !utf8.ValidString(ch.chain.ID + ch.chain.Space + ch.chain.Title) {
		return ch, fault.New(fault.InvalidArgument, "protocol %q is not valid UTF-8", ch.chain.Title)
	}
	var err error
	if ch.document, err = encode(ch.chain); err != nil {
		return ch, fmt.Errorf("encode chain %s: %w", ch.chain.ID, err)
	}
	if ch.outline, err = encode(withoutTexts(ch.chain)); err != nil {
		return ch, fmt.Errorf("encode outline of chain %s: %w", ch.chain.ID, err)
	}
	ch.words = analyse(ch.chain)
	return ch, nil
}

func withoutTexts(c protocol.Chain) protocol.Chain {
	steps := make([]protocol.Step, len(c.Steps))
	for i, step := range c.Steps {
		step.Text = ""
		steps[i] = step
	}
	c.Steps = steps
	return c
}

func duplicate(c protocol.Chain) error {
	return fault.New(fault.DuplicateChain, "protocol %q exists already", c.Title).With("chain_id", c.ID)
}

// check compares the stored revision with the one to replace.
func (ch *change) check() error {
	have := ch.base.stored()
	switch {
	case ch.deletes && have == 0:
		return notFound("protocol", ch.chain.ID)
	case have == ch.replaces:
		return nil
	case ch.replaces == 0 && !ch.deletes:
		return duplicate(ch.chain)
	}
	was := fmt.Sprintf("revision %d is stored", have)
	if have == 0 {
		was = "it is not stored any more"
	}
	title := ch.chain.Title
	if ch.deletes {
		title = ch.base.title
	}
	return fault.New(fault.Conflict, "protocol %q was changed meanwhile: %s, revision %d was to be replaced", title, was, ch.replaces).
		WithNext("read it again and repeat the change")
}

// replacement is the manifest of the protocol as the change stores it.
func (ch *change) replacement() manifest {
	c := ch.chain
	m := manifest{
		kind: kindManifest, space: c.Space, chainID: c.ID, title: c.Title, document: ch.document, outline: ch.outline,
		steps: make([]string, len(c.Steps)),
	}
	for i, step := range c.Steps {
		m.steps[i] = step.UUID
	}
	m.former = formerSteps(ch.base, m.steps)
	return m
}

// deletion is the manifest that stays of a deleted protocol: its id, title and
// former steps, so that old URIs still say what they were.
func (ch *change) deletion() manifest {
	b := ch.base
	return manifest{kind: kindDeleted, space: b.space, chainID: b.chainID, title: b.title, outline: b.outline, former: formerSteps(b, nil)}
}

// formerSteps returns the steps that the chain no longer has.
func formerSteps(base manifest, steps []string) []string {
	now := make(map[string]bool, len(steps))
	for _, uuid := range steps {
		now[uuid] = true
	}
	var former []string
	for _, uuid := range slices.Concat(base.steps, base.former) {
		if !now[uuid] {
			now[uuid] = true
			former = append(former, uuid)
		}
	}
	return former[:min(len(former), formerKept)]
}

// baseOrNone is the manifest that was read. For a missing chain it matches no
// point that another save has created meanwhile.
func (ch *change) baseOrNone() manifest {
	if ch.base.key == "" {
		return manifest{key: ch.key, token: "none"}
	}
	return ch.base
}
