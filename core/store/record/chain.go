package record

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Chain is a change in the form of its tables.
type Chain struct {
	Chain          protocol.Chain
	Replaces       int64
	Revision       int64 // set by the store
	Saved          int64
	Outline, Texts []byte   // what ReadChain reads
	Passages       [][]byte // hash of the passage of each step
}

// Form changes a document into the form in which a store keeps it.
type Form func(document []byte) []byte

// Plain keeps documents as they are.
func Plain(document []byte) []byte { return document }

// Encode encodes on all processors: encoding takes most of the time of a large
// import. Outlines and texts get the form.
func Encode(changes []library.Change, form Form) ([]Chain, error) {
	if err := checkOnce(changes); err != nil {
		return nil, err
	}
	rows, errs := make([]Chain, len(changes)), make([]error, len(changes))
	workers := min(runtime.GOMAXPROCS(0), len(changes))
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < len(changes); i += workers {
				rows[i], errs[i] = encode(changes[i].Chain, form)
				rows[i].Replaces = changes[i].Replaces
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Revisions returns the revisions of the rows.
func Revisions(rows []Chain) []int64 {
	revisions := make([]int64, len(rows))
	for i, row := range rows {
		revisions[i] = row.Revision
	}
	return revisions
}

// Claim is a step of a space.
type Claim = [2]string

// Claims returns the steps of the rows, by UUID and space. It rejects rows that
// share one.
func Claims(rows []Chain) ([]Claim, error) {
	var claims []Claim
	owners := make(map[Claim]string)
	for _, r := range rows {
		for _, step := range r.Chain.Steps {
			claim := Claim{step.UUID, r.Chain.Space}
			if owner, taken := owners[claim]; taken {
				return nil, StepTaken(step.UUID, owner)
			}
			owners[claim] = r.Chain.Title
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// StepTaken reports a step that another chain of the space has.
func StepTaken(uuid, title string) error {
	return fault.New(fault.InvalidArgument, "step %s belongs to protocol %q", uuid, title)
}

// Duplicate reports a chain that is to be new and is stored already.
func Duplicate(c protocol.Chain) error {
	return fault.New(fault.DuplicateChain, "protocol %q exists already", c.Title).With("chain_id", c.ID)
}

// Conflict reports a chain whose stored revision is not the one to be replaced; 0:
// none is stored.
func Conflict(title string, have, replaces int64) error {
	was := fmt.Sprintf("revision %d is stored", have)
	if have == 0 {
		was = "it is not stored any more"
	}
	return fault.New(fault.Conflict, "protocol %q was changed meanwhile: %s, revision %d was to be replaced", title, was, replaces).
		WithRemedy("read it again and repeat the change")
}

// LostRace reports a run whose stored revision is not the one that was loaded.
func LostRace(r run.Run, have int64) error {
	return fault.New(fault.Conflict, "run %q was changed meanwhile: revision %d was loaded, now it is %d", r.ID, r.Revision, have)
}

// NotFound reports an item that is not stored.
func NotFound(what, id string) error { return fault.New(fault.NotFound, "no %s %q", what, id) }

// checkOnce rejects a save that changes a chain twice.
func checkOnce(changes []library.Change) error {
	type identity struct{ space, id string }
	seen := make(map[identity]bool, len(changes))
	for _, change := range changes {
		c := change.Chain
		if seen[identity{c.Space, c.ID}] {
			return Duplicate(c)
		}
		seen[identity{c.Space, c.ID}] = true
	}
	return nil
}

// JSON encodes without escaping <, > and &.
func JSON(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.String(), err
}

func encode(c protocol.Chain, form Form) (Chain, error) {
	if err := checkChain(c); err != nil {
		return Chain{}, err
	}
	c.Revision = 0
	outline, err := JSON(Outline(c))
	if err != nil {
		return Chain{}, fmt.Errorf("encode outline of chain %s: %w", c.ID, err)
	}
	texts, err := JSON(textsOf(c))
	if err != nil {
		return Chain{}, fmt.Errorf("encode texts of chain %s: %w", c.ID, err)
	}
	row := Chain{
		Chain: c, Saved: time.Now().UnixNano(), Outline: form([]byte(outline)), Texts: form([]byte(texts)),
		Passages: make([][]byte, len(c.Steps)),
	}
	for i := range c.Steps {
		if row.Passages[i], err = hex.DecodeString(protocol.PassageHash(c.Passage(i))); err != nil {
			return Chain{}, fmt.Errorf("hash a passage of chain %s: %w", c.ID, err)
		}
	}
	return row, nil
}

// checkChain rejects chains that could not be found again.
func checkChain(c protocol.Chain) error {
	if c.ID == "" || c.Space == "" || strings.Contains(c.ID, "\n") {
		return fault.New(fault.InvalidArgument, "protocol %q has no id or no space", c.Title)
	}
	seen := make(map[string]bool, len(c.Steps))
	for i, step := range c.Steps {
		if step.UUID == "" || seen[step.UUID] {
			return fault.New(fault.InvalidArgument, "step %d of protocol %q: uuid %q is empty or used twice",
				i+1, c.Title, step.UUID)
		}
		seen[step.UUID] = true
	}
	return nil
}

// Outline returns the chain without the texts of its steps.
func Outline(c protocol.Chain) protocol.Chain {
	steps := make([]protocol.Step, len(c.Steps))
	for i, step := range c.Steps {
		step.Text = ""
		steps[i] = step
	}
	c.Steps = steps
	return c
}

func textsOf(c protocol.Chain) []string {
	texts := make([]string, len(c.Steps))
	for i, step := range c.Steps {
		texts[i] = step.Text
	}
	return texts
}

// ReadChain reads a stored chain. No texts: only the outline is wanted.
func ReadChain(revision int64, outline, texts []byte) (c protocol.Chain, err error) {
	if err := json.Unmarshal(outline, &c); err != nil {
		return protocol.Chain{}, err
	}
	c.Revision = revision
	if texts == nil {
		return c, nil
	}
	var all []string
	if err := json.Unmarshal(texts, &all); err != nil {
		return protocol.Chain{}, err
	}
	if len(all) > len(c.Steps) {
		return protocol.Chain{}, fmt.Errorf("it has %d steps and %d texts", len(c.Steps), len(all))
	}
	for i, text := range all {
		c.Steps[i].Text = text
	}
	return c, nil
}
