package sqlite

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// chainRow is a change in the form of its tables.
type chainRow struct {
	chain             protocol.Chain
	replaces          int64
	revision          int64 // set by makeRoom
	saved             int64
	outline, document string
	passages          [][]byte // hash of the passage of each step
	index             wordindex.Analysed
}

// encodeChanges encodes on all processors: encoding takes most of the time of a
// large import.
func encodeChanges(changes []library.Change) ([]chainRow, error) {
	if err := checkOnce(changes); err != nil {
		return nil, err
	}
	rows, errs := make([]chainRow, len(changes)), make([]error, len(changes))
	workers := min(runtime.GOMAXPROCS(0), len(changes))
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < len(changes); i += workers {
				rows[i], errs[i] = encodeChain(changes[i].Chain)
				rows[i].replaces = changes[i].Replaces
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

// checkOnce rejects a save that changes a chain twice.
func checkOnce(changes []library.Change) error {
	type identity struct{ space, id string }
	seen := make(map[identity]bool, len(changes))
	for _, change := range changes {
		c := change.Chain
		if seen[identity{c.Space, c.ID}] {
			return duplicate(c)
		}
		seen[identity{c.Space, c.ID}] = true
	}
	return nil
}

func duplicate(c protocol.Chain) error {
	return fault.New(fault.DuplicateChain, "protocol %q exists already", c.Title).With("chain_id", c.ID)
}

// encode encodes JSON without escaping <, > and &.
func encode(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.String(), err
}

func encodeChain(c protocol.Chain) (chainRow, error) {
	if err := checkChain(c); err != nil {
		return chainRow{}, err
	}
	c.Revision = 0
	document, err := encode(c)
	if err != nil {
		return chainRow{}, fmt.Errorf("encode chain %s: %w", c.ID, err)
	}
	outline, err := encode(withoutTexts(c))
	if err != nil {
		return chainRow{}, fmt.Errorf("encode outline of chain %s: %w", c.ID, err)
	}
	index, err := wordindex.Analyse(c)
	if err != nil {
		return chainRow{}, fmt.Errorf("analyse chain %s: %w", c.ID, err)
	}
	row := chainRow{
		chain: c, saved: now(), outline: outline, document: document, index: index, passages: make([][]byte, len(c.Steps)),
	}
	for i := range c.Steps {
		if row.passages[i], err = hex.DecodeString(protocol.PassageHash(c.Passage(i))); err != nil {
			return chainRow{}, fmt.Errorf("hash a passage of chain %s: %w", c.ID, err)
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

func withoutTexts(c protocol.Chain) protocol.Chain {
	steps := make([]protocol.Step, len(c.Steps))
	for i, step := range c.Steps {
		step.Text = ""
		steps[i] = step
	}
	c.Steps = steps
	return c
}

// list encodes values for json_each.
func list[T string | int64 | [2]string](values []T) string {
	document, err := json.Marshal(values)
	if err != nil || values == nil {
		return "[]" // strings and integers always encode
	}
	return string(document)
}
