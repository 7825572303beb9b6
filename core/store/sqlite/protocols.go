package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// StepChain implements engine.Protocols.
func (s *Store) StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error) {
	var document []byte
	var position int
	err := s.row(ctx, `SELECT c.document, s.position
		FROM steps s JOIN chains c ON c.key = s.chain JOIN json_each(?2) visible ON visible.value = c.space
		WHERE s.uuid = ?1 ORDER BY visible.key LIMIT 1`,
		[]any{stepUUID, list(spaces)}, &document, &position)
	if err != nil {
		return protocol.Chain{}, 0, orNotFound(err, "step", stepUUID)
	}
	c, err := s.chain(stepUUID, document)
	if err == nil && position >= len(c.Steps) {
		err = s.damaged("chain of step", stepUUID, fmt.Errorf("it has no step %d", position+1))
	}
	return c, position, err
}

// Chain implements engine.Protocols.
func (s *Store) Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error) {
	var document []byte
	err := s.row(ctx, `SELECT c.document FROM chains c JOIN json_each(?2) visible ON visible.value = c.space
		WHERE c.id = ?1 ORDER BY visible.key LIMIT 1`, []any{id, list(spaces)}, &document)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "protocol", id)
	}
	return s.chain(id, document)
}

// Chains implements engine.Protocols.
func (s *Store) Chains(ctx context.Context, spaces []string) ([]protocol.Chain, error) {
	var chains []protocol.Chain
	err := s.rows(ctx, `SELECT outline FROM chains WHERE space IN (SELECT value FROM json_each(?))
		ORDER BY title, space`, []any{list(spaces)}, func(scan func(...any) error) error {
		var outline []byte
		if err := scan(&outline); err != nil {
			return err
		}
		c, err := s.chain("in the list", outline)
		chains = append(chains, c)
		return err
	})
	return chains, err
}

func (s *Store) chain(id string, document []byte) (protocol.Chain, error) {
	var c protocol.Chain
	if err := json.Unmarshal(document, &c); err != nil {
		return protocol.Chain{}, s.damaged("chain", id, err)
	}
	return c, nil
}

// SaveChains implements engine.ProtocolWriter.
func (s *Store) SaveChains(ctx context.Context, chains []protocol.Chain, replace bool) error {
	rows := make([]chainRow, len(chains))
	for i, c := range chains {
		var err error
		if rows[i], err = encodeChain(c); err != nil {
			return err
		}
	}
	return s.write(ctx, func(tx *transaction) error {
		for _, row := range rows {
			if err := makeRoom(tx, row.chain, replace); err != nil {
				return err
			}
			if err := row.insert(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// chainRow is a chain as its tables hold it.
type chainRow struct {
	chain             protocol.Chain
	outline, document string
}

// encode leaves <, > and & in what authors wrote as they are.
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
	document, err := encode(c)
	if err != nil {
		return chainRow{}, fmt.Errorf("encode chain %s: %w", c.ID, err)
	}
	outline, err := encode(withoutTexts(c))
	if err != nil {
		return chainRow{}, fmt.Errorf("encode outline of chain %s: %w", c.ID, err)
	}
	return chainRow{chain: c, outline: outline, document: document}, nil
}

func (r chainRow) insert(tx *transaction) error {
	c := r.chain
	if err := tx.exec(`INSERT INTO chains (space, id, title, outline, document) VALUES (?, ?, ?, ?, ?)`,
		c.Space, c.ID, c.Title, r.outline, r.document); err != nil {
		return err
	}
	key, _, err := chainKey(tx, c.Space, c.ID)
	if err != nil {
		return err
	}
	for i, step := range c.Steps {
		if err := tx.exec(`INSERT INTO steps (chain, position, uuid) VALUES (?, ?, ?)`, key, i, step.UUID); err != nil {
			return err
		}
	}
	return indexChain(tx, key, c)
}

// checkChain refuses what could not be found again.
func checkChain(c protocol.Chain) error {
	if c.ID == "" || c.Space == "" {
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

// makeRoom removes the chain that c replaces, and refuses a step id that
// another chain of the space has.
func makeRoom(tx *transaction, c protocol.Chain, replace bool) error {
	key, found, err := chainKey(tx, c.Space, c.ID)
	if err != nil {
		return err
	}
	if found && !replace {
		return fault.New(fault.DuplicateChain, "protocol %q exists already", c.Title).With("chain_id", c.ID)
	}
	if found {
		if err := removeChain(tx, key); err != nil {
			return err
		}
	}
	uuids := make([]string, len(c.Steps))
	for i, step := range c.Steps {
		uuids[i] = step.UUID
	}
	var uuid, title string
	taken, err := tx.row(`SELECT s.uuid, c.title FROM steps s JOIN chains c ON c.key = s.chain
		WHERE s.uuid IN (SELECT value FROM json_each(?)) AND c.space = ? LIMIT 1`,
		[]any{list(uuids), c.Space}, &uuid, &title)
	if err != nil {
		return err
	}
	if taken {
		return fault.New(fault.InvalidArgument, "step %s belongs to protocol %q", uuid, title)
	}
	return nil
}

// DeleteChain implements engine.ProtocolWriter.
func (s *Store) DeleteChain(ctx context.Context, space, id string) error {
	return s.write(ctx, func(tx *transaction) error {
		key, found, err := chainKey(tx, space, id)
		if err != nil {
			return err
		}
		if !found {
			return notFound("protocol", id)
		}
		return removeChain(tx, key)
	})
}

func chainKey(tx *transaction, space, id string) (key int64, found bool, err error) {
	found, err = tx.row(`SELECT key FROM chains WHERE space = ? AND id = ?`, []any{space, id}, &key)
	return key, found, err
}

// removeChain deletes a chain; its steps and search fields go with it, except
// for the words, which no foreign key reaches.
func removeChain(tx *transaction, key int64) error {
	if err := tx.exec(`DELETE FROM search WHERE rowid IN (SELECT id FROM search_fields WHERE chain = ?)`,
		key); err != nil {
		return err
	}
	return tx.exec(`DELETE FROM chains WHERE key = ?`, key)
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
func list[T string | int64](values []T) string {
	document, err := json.Marshal(values)
	if err != nil || values == nil {
		return "[]" // strings and integers always encode
	}
	return string(document)
}
