package sqlite

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// StepChain implements library.Protocols.
func (s *Store) StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error) {
	var row storedChain
	var position int
	err := s.row(ctx, `SELECT c.revision, c.document, s.position
		FROM steps s JOIN chains c ON c.key = s.chain JOIN json_each(?2) visible ON visible.value = c.space
		WHERE s.uuid = ?1 ORDER BY visible.key LIMIT 1`,
		[]any{stepUUID, list(spaces)}, &row.revision, &row.document, &position)
	if err != nil {
		return protocol.Chain{}, 0, orNotFound(err, "step", stepUUID)
	}
	c, err := s.chain(stepUUID, row)
	if err == nil && position >= len(c.Steps) {
		err = s.damaged("chain of step", stepUUID, fmt.Errorf("it has no step %d", position+1))
	}
	return c, position, err
}

// Chain implements library.Protocols.
func (s *Store) Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error) {
	var row storedChain
	err := s.row(ctx, `SELECT c.revision, c.document FROM chains c JOIN json_each(?2) visible ON visible.value = c.space
		WHERE c.id = ?1 ORDER BY visible.key LIMIT 1`, []any{id, list(spaces)}, &row.revision, &row.document)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "protocol", id)
	}
	return s.chain(id, row)
}

// List implements library.Protocols.
func (s *Store) List(ctx context.Context, space, cursor string, limit int) ([]protocol.Chain, string, error) {
	if limit < 1 {
		return nil, "", fault.New(fault.InvalidArgument, "a list of at most %d protocols", limit)
	}
	after, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(limit, 1<<30)
	var chains []protocol.Chain
	// One more, to know whether there is a next page.
	err = s.rows(ctx, `SELECT revision, outline FROM chains WHERE space = ? AND (title, id) > (?, ?)
		ORDER BY title, id LIMIT ?`, []any{space, after.title, after.id, limit + 1}, func(scan func(...any) error) error {
		var row storedChain
		if err := scan(&row.revision, &row.document); err != nil {
			return err
		}
		c, err := s.chain("in the list", row)
		chains = append(chains, c)
		return err
	})
	if err != nil || len(chains) <= limit {
		return chains, "", err
	}
	chains = chains[:limit]
	last := chains[limit-1]
	return chains, listPlace{title: last.Title, id: last.ID}.cursor(), nil
}

// listPlace is where a page of a list ends.
type listPlace struct{ title, id string }

// cursor is the place as callers hold it. Ids have no line feeds.
func (p listPlace) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.id + "\n" + p.title))
}

func parseCursor(cursor string) (listPlace, error) {
	if cursor == "" {
		return listPlace{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	id, title, ok := strings.Cut(string(text), "\n")
	if err != nil || !ok {
		return listPlace{}, fault.New(fault.InvalidArgument, "the cursor is not one of this list; start without one")
	}
	return listPlace{title: title, id: id}, nil
}

// Count implements library.Protocols.
func (s *Store) Count(ctx context.Context, space string) (int, error) {
	var n int
	err := s.row(ctx, `SELECT count(*) FROM chains WHERE space = ?`, []any{space}, &n)
	return n, err
}

// storedChain is a chain, or its outline, as a row has it.
type storedChain struct {
	revision int64
	document []byte
}

func (s *Store) chain(id string, row storedChain) (protocol.Chain, error) {
	var c protocol.Chain
	if err := json.Unmarshal(row.document, &c); err != nil {
		return protocol.Chain{}, s.damaged("chain", id, err)
	}
	c.Revision = row.revision
	return c, nil
}

// SaveChains implements library.ProtocolWriter.
func (s *Store) SaveChains(ctx context.Context, changes []library.Change) ([]int64, error) {
	rows, err := encodeChanges(changes)
	if err != nil {
		return nil, err
	}
	index := indexOf(rows)
	err = s.write(ctx, func(tx *transaction) error {
		var dropped []string
		for i := range rows {
			hashes, err := rows[i].makeRoom(tx)
			if err != nil {
				return err
			}
			dropped = append(dropped, hashes...)
		}
		// Only now, because a step may move from one of the chains to another.
		if err := insertChains(tx, rows, index, &s.known); err != nil {
			return err
		}
		return dropVectors(tx, dropped)
	})
	if err != nil {
		return nil, err
	}
	revisions := make([]int64, len(rows))
	for i, row := range rows {
		revisions[i] = row.revision
	}
	for _, a := range index {
		s.known.add(a.words)
	}
	return revisions, nil
}

// indexOf is what is to be added to the search index for the rows.
func indexOf(rows []chainRow) []*addition {
	spaces, chains := make([]string, len(rows)), make([]analysed, len(rows))
	for i, row := range rows {
		spaces[i], chains[i] = row.chain.Space, row.index
	}
	return additions(spaces, chains)
}

// DeleteChain implements library.ProtocolWriter.
func (s *Store) DeleteChain(ctx context.Context, space, id string, replaces int64) error {
	return s.write(ctx, func(tx *transaction) error {
		have, err := stored(tx, space, id)
		if err != nil {
			return err
		}
		if have.key == 0 {
			return notFound("protocol", id)
		}
		if have.revision != replaces {
			return conflict(have.title, have.revision, replaces)
		}
		hashes, err := have.retire(tx)
		if err != nil {
			return err
		}
		if err := recordDeletion(tx, space, id, have); err != nil {
			return err
		}
		return dropVectors(tx, hashes)
	})
}

func conflict(title string, have, replaces int64) error {
	was := fmt.Sprintf("revision %d is stored", have)
	if have == 0 {
		was = "it is not stored any more"
	}
	return fault.New(fault.Conflict, "protocol %q was changed meanwhile: %s, revision %d was to be replaced", title, was, replaces).
		WithNext("read it again and repeat the change")
}

// chainRow is a change as its tables hold it.
type chainRow struct {
	chain             protocol.Chain
	replaces          int64
	revision          int64 // set by makeRoom
	saved             int64
	outline, document string
	passages          [][]byte // hash of each step's
	index             analysed
}

// encodeChanges encodes on all processors: for a large import that, and not
// the writing, takes most of the time.
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

// checkOnce refuses a save that names a chain twice.
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
	c.Revision = 0
	document, err := encode(c)
	if err != nil {
		return chainRow{}, fmt.Errorf("encode chain %s: %w", c.ID, err)
	}
	outline, err := encode(withoutTexts(c))
	if err != nil {
		return chainRow{}, fmt.Errorf("encode outline of chain %s: %w", c.ID, err)
	}
	index, err := analyse(c)
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

// insertChains puts the chains where makeRoom has made room. It takes a few
// statements for all of them, because a statement costs more than a row.
func insertChains(tx *transaction, rows []chainRow, index []*addition, known *knownWords) error {
	if err := claimSteps(tx, rows); err != nil {
		return err
	}
	var last int64
	if _, err := tx.row(`SELECT coalesce(max(key), 0) FROM chains`, nil, &last); err != nil {
		return err
	}
	var chains, steps []any
	keys := make([]int64, len(rows))
	for i, r := range rows {
		c, key := r.chain, last+1+int64(i)
		keys[i] = key
		chains = append(chains, key, c.Space, c.ID, c.Title, r.outline, r.document, r.revision, r.saved)
		for j, hash := range r.passages {
			steps = append(steps, key, j, c.Steps[j].UUID, hash)
		}
	}
	if err := tx.insert(`chains (key, space, id, title, outline, document, revision, saved)`, 8, chains); err != nil {
		return err
	}
	if err := tx.insert(`steps (chain, position, uuid, passage)`, 4, steps); err != nil {
		return err
	}
	for _, a := range index {
		if err := a.insert(tx, keys, known); err != nil {
			return err
		}
	}
	return nil
}

// checkChain refuses what could not be found again.
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

// makeRoom retires the chain that r replaces, and gives r its revision. It
// returns the hashes of the old one's passages that have a vector.
func (r *chainRow) makeRoom(tx *transaction) (hashes []string, err error) {
	c := r.chain
	have, err := stored(tx, c.Space, c.ID)
	switch {
	case err != nil:
		return nil, err
	case have.revision == r.replaces && have.key != 0:
		r.revision = have.revision + 1
		return have.retire(tx)
	case r.replaces != 0:
		return nil, conflict(c.Title, have.revision, r.replaces)
	case have.key != 0:
		return nil, duplicate(c)
	}
	last, err := lastRevision(tx, c.Space, c.ID)
	r.revision = last + 1
	return nil, err
}

// claimSteps refuses a step id that another chain of its space has, and
// forgets who had the others.
func claimSteps(tx *transaction, rows []chainRow) error {
	var claims [][2]string
	owners := make(map[[2]string]string)
	for _, r := range rows {
		for _, step := range r.chain.Steps {
			claim := [2]string{step.UUID, r.chain.Space}
			if owner, taken := owners[claim]; taken {
				return stepTaken(step.UUID, owner)
			}
			owners[claim] = r.chain.Title
			claims = append(claims, claim)
		}
	}
	asked := list(claims)
	var uuid, title string
	// CROSS: from the few steps, not from all chains of the space.
	taken, err := tx.row(`SELECT s.uuid, c.title
		FROM json_each(?) asked CROSS JOIN steps s ON s.uuid = asked.value ->> 0 CROSS JOIN chains c ON c.key = s.chain
		WHERE c.space = asked.value ->> 1 LIMIT 1`, []any{asked}, &uuid, &title)
	if err != nil {
		return err
	}
	if taken {
		return stepTaken(uuid, title)
	}
	return tx.exec(`DELETE FROM former WHERE (uuid, space) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))`, asked)
}

func stepTaken(uuid, title string) error {
	return fault.New(fault.InvalidArgument, "step %s belongs to protocol %q", uuid, title)
}

// current is what of a chain is stored; key 0: nothing.
type current struct {
	key, revision int64
	space, title  string
}

func stored(tx *transaction, space, id string) (current, error) {
	c := current{space: space}
	_, err := tx.row(`SELECT key, revision, title FROM chains WHERE space = ? AND id = ?`, []any{space, id},
		&c.key, &c.revision, &c.title)
	return c, err
}

// retire moves a chain into the history and takes it out of the index. Its
// steps go with it. It returns the hashes of its passages that have a vector.
func (c current) retire(tx *transaction) (hashes []string, err error) {
	if err := keepVersion(tx, c.key); err != nil {
		return nil, err
	}
	if hashes, err = embedded(tx, c.key); err != nil {
		return nil, err
	}
	if err := tx.exec(`INSERT OR REPLACE INTO former (uuid, space, id)
		SELECT s.uuid, c.space, c.id FROM steps s JOIN chains c ON c.key = s.chain WHERE c.key = ?`, c.key); err != nil {
		return nil, err
	}
	if err := removeIndex(tx, c.key); err != nil {
		return nil, err
	}
	return hashes, tx.exec(`DELETE FROM chains WHERE key = ?`, c.key)
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
