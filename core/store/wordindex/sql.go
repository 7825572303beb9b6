package wordindex

import (
	"math"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// Rows calls each for every row of a query.
type Rows func(query string, args []any, each func(scan func(...any) error) error) error

// Queries are the statements of a Reader in the SQL of a store, one for each method.
// A list of numbers or names is one argument.
type Queries struct {
	Version     string // one row
	Spaces      string // names; number, chains
	Segments    string // spaces; id, space, first, span, documents, gone
	Directories string // ids; id, directory
	Blocks      string // ids; id, block
	Words       string // after; ids and words, all separated by spaces; one row
	Documents   string // ids; id, document
	Outlines    string // ids; id, revision, outline
	Model       string // name; key, length
	Signs       string // after, model; id, vector, signs
	CountSigns  string // model; number
	Vectors     string // keys; vector
	VectorsOf   string // keys, model, spaces; document, step, vector
	VectorKeys  string // spaces; key
	Near        string // spaces, steps; position in the list, document, step
}

// SQLReader is a Reader of the tables of a SQL store.
type SQLReader struct {
	Queries *Queries
	Rows    Rows
	// Numbers and Names make an argument of a list.
	Numbers func([]int64) any
	Names   func([]string) any
	// Steps makes the arguments of a list of steps.
	Steps func([]library.NearStep) []any
	// Chain reads an outline.
	Chain func(id, revision int64, outline []byte) (protocol.Chain, error)
}

var _ Reader = SQLReader{}

// Version implements Reader.
func (r SQLReader) Version() (version int, err error) {
	err = r.Rows(r.Queries.Version, nil, func(scan func(...any) error) error { return scan(&version) })
	return version, err
}

// Spaces implements Reader.
func (r SQLReader) Spaces(names []string) (all []Space, err error) {
	err = r.Rows(r.Queries.Spaces, []any{r.Names(names)}, func(scan func(...any) error) error {
		var space Space
		err := scan(&space.Number, &space.Chains)
		all = append(all, space)
		return err
	})
	return all, err
}

// Segments implements Reader.
func (r SQLReader) Segments(spaces []int64) ([]Stored, error) {
	return storedBy(r.Rows, r.Queries.Segments, r.Numbers(spaces))
}

func storedBy(rows Rows, query string, args ...any) (all []Stored, err error) {
	err = rows(query, args, func(scan func(...any) error) error {
		var s Stored
		err := scan(&s.ID, &s.Space, &s.First, &s.Span, &s.Documents, &s.Gone)
		all = append(all, s)
		return err
	})
	return all, err
}

// Directories implements Reader.
func (r SQLReader) Directories(segments []int64, each func(int64, []byte) error) error {
	return r.eachBytes(r.Queries.Directories, segments, each)
}

// Blocks implements Reader.
func (r SQLReader) Blocks(ids []int64, each func(int64, []byte) error) error {
	return r.eachBytes(r.Queries.Blocks, ids, each)
}

// Documents implements Reader.
func (r SQLReader) Documents(ids []int64, each func(int64, []byte) error) error {
	return r.eachBytes(r.Queries.Documents, ids, each)
}

func (r SQLReader) eachBytes(query string, ids []int64, each func(id int64, raw []byte) error) error {
	return r.Rows(query, []any{r.Numbers(ids)}, func(scan func(...any) error) error {
		var id int64
		var raw []byte
		if err := scan(&id, &raw); err != nil {
			return err
		}
		return each(id, raw)
	})
}

// Words reads one row for many words, because a row costs more than what is in it.
func (r SQLReader) Words(after int64) (words []search.Numbered, err error) {
	var read *string
	err = r.Rows(r.Queries.Words, []any{after}, func(scan func(...any) error) error { return scan(&read) })
	if err != nil || read == nil {
		return nil, err
	}
	for rest := *read; rest != ""; {
		var id, text string
		id, rest, _ = strings.Cut(rest, " ")
		text, rest, _ = strings.Cut(rest, " ")
		number, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, &Damage{"word of the search index", id, err}
		}
		words = append(words, search.Numbered{Number: uint32(number), Text: text})
	}
	return words, nil
}

// ReadWords returns the words of a query for their ids and texts.
func ReadWords(rows Rows, query string, args ...any) (words []search.Numbered, err error) {
	err = rows(query, args, func(scan func(...any) error) error {
		var id int64
		var text string
		if err := scan(&id, &text); err != nil {
			return err
		}
		if id < 1 || id > math.MaxUint32 {
			return &Damage{"word of the search index", strconv.FormatInt(id, 10), errNumber}
		}
		words = append(words, search.Numbered{Number: uint32(id), Text: text})
		return nil
	})
	return words, err
}

// Outlines implements Reader.
func (r SQLReader) Outlines(documents []int64) (map[int64]protocol.Chain, error) {
	chains := make(map[int64]protocol.Chain, len(documents))
	err := r.Rows(r.Queries.Outlines, []any{r.Numbers(documents)}, func(scan func(...any) error) error {
		var id, revision int64
		var outline []byte
		if err := scan(&id, &revision, &outline); err != nil {
			return err
		}
		c, err := r.Chain(id, revision, outline)
		if err != nil {
			return err
		}
		chains[id] = c
		return nil
	})
	return chains, err
}

// Model implements Reader.
func (r SQLReader) Model(name string) (model int64, length int, err error) {
	err = r.Rows(r.Queries.Model, []any{name}, func(scan func(...any) error) error { return scan(&model, &length) })
	return model, length, err
}

// Signs implements Reader.
func (r SQLReader) Signs(model, after int64, each func(id, vector int64, signs []byte) error) error {
	return r.Rows(r.Queries.Signs, []any{after, model}, func(scan func(...any) error) error {
		var id, vector int64
		var signs []byte
		if err := scan(&id, &vector, &signs); err != nil {
			return err
		}
		return each(id, vector, signs)
	})
}

// CountSigns implements Reader.
func (r SQLReader) CountSigns(model int64) (n int, err error) {
	err = r.Rows(r.Queries.CountSigns, []any{model}, func(scan func(...any) error) error { return scan(&n) })
	return n, err
}

// Vectors implements Reader.
func (r SQLReader) Vectors(keys []int64, each func([]byte) error) error {
	return r.Rows(r.Queries.Vectors, []any{r.Numbers(keys)}, func(scan func(...any) error) error {
		var raw []byte
		if err := scan(&raw); err != nil {
			return err
		}
		return each(raw)
	})
}

// VectorsOf implements Reader.
func (r SQLReader) VectorsOf(keys []int64, model int64, spaces []int64, each func(int64, int, []byte) error) error {
	return r.Rows(r.Queries.VectorsOf, []any{r.Numbers(keys), model, r.Numbers(spaces)}, func(scan func(...any) error) error {
		var document int64
		var step int
		var raw []byte
		if err := scan(&document, &step, &raw); err != nil {
			return err
		}
		return each(document, step, raw)
	})
}

// Near implements Reader.
func (r SQLReader) Near(steps []library.NearStep, spaces []int64, each func(int, int64, int) error) error {
	args := append([]any{r.Numbers(spaces)}, r.Steps(steps)...)
	return r.Rows(r.Queries.Near, args, func(scan func(...any) error) error {
		var i, step int
		var document int64
		if err := scan(&i, &document, &step); err != nil {
			return err
		}
		return each(i, document, step)
	})
}

// VectorKeys implements Reader.
func (r SQLReader) VectorKeys(spaces []int64) (keys []int64, err error) {
	err = r.Rows(r.Queries.VectorKeys, []any{r.Numbers(spaces)}, func(scan func(...any) error) error {
		var key int64
		err := scan(&key)
		keys = append(keys, key)
		return err
	})
	return keys, err
}

// Tables is the part of a Writer whose SQL all stores understand. Each store inserts
// rows in its own way.
type Tables struct {
	Rows Rows
	Exec func(query string, args ...any) error
}

// Version implements Writer.
func (t Tables) Version() (version int, err error) {
	err = t.Rows(`SELECT analyser FROM search_state`, nil, func(scan func(...any) error) error { return scan(&version) })
	return version, err
}

// Clear implements Writer. The words stay, and the numbers of documents continue.
func (t Tables) Clear(version int) error {
	for _, statement := range []string{`DELETE FROM search_blocks`, `DELETE FROM search_segments`, `DELETE FROM search_documents`, `UPDATE search_spaces SET chains = 0`} {
		if err := t.Exec(statement); err != nil {
			return err
		}
	}
	return t.Exec(`UPDATE search_state SET analyser = $1`, version)
}

// Shrink implements Writer.
func (t Tables) Shrink(space int64) error {
	return t.Exec(`UPDATE search_spaces SET chains = chains - 1 WHERE number = $1`, space)
}

// RemoveDocument implements Writer.
func (t Tables) RemoveDocument(chain int64) (id int64, found bool, err error) {
	err = t.Rows(`DELETE FROM search_documents WHERE chain = $1 RETURNING id`, []any{chain}, func(scan func(...any) error) error {
		found = true
		return scan(&id)
	})
	return id, found, err
}

// UpdateSegment implements Writer.
func (t Tables) UpdateSegment(row Stored) error {
	return t.Exec(`UPDATE search_segments SET documents = $1, gone = $2 WHERE id = $3`, row.Documents, row.Gone, row.ID)
}

// DeleteSegment implements Writer.
func (t Tables) DeleteSegment(id int64) error {
	if err := t.Exec(`DELETE FROM search_segments WHERE id = $1`, id); err != nil {
		return err
	}
	return t.Exec(`DELETE FROM search_blocks WHERE id BETWEEN $1 AND $2`, BlockID(id, 0), BlockID(id+1, 0)-1)
}

// SegmentBlocks implements Writer.
func (t Tables) SegmentBlocks(id int64) (blocks [][]byte, err error) {
	err = t.Rows(`SELECT block FROM search_blocks WHERE id BETWEEN $1 AND $2 ORDER BY id`,
		[]any{BlockID(id, 0), BlockID(id+1, 0) - 1}, func(scan func(...any) error) error {
			var block []byte
			err := scan(&block)
			blocks = append(blocks, block)
			return err
		})
	return blocks, err
}

// LatestSegments implements Writer.
func (t Tables) LatestSegments(space int64, limit int) ([]Stored, error) {
	return storedBy(t.Rows, `SELECT id, space, first, span, documents, gone FROM search_segments WHERE space = $1 ORDER BY first DESC LIMIT $2`,
		space, limit)
}

// SegmentUpTo implements Writer.
func (t Tables) SegmentUpTo(space, number int64) (Stored, error) {
	found, err := storedBy(t.Rows, `SELECT id, space, first, span, documents, gone FROM search_segments
		WHERE space = $1 AND first <= $2 ORDER BY first DESC LIMIT 1`, space, number)
	if err != nil || len(found) == 0 {
		return Stored{}, err
	}
	return found[0], nil
}
