package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// analysed is a chain as the search tables hold it.
type analysed struct {
	document []byte
	postings []search.Posting
	words    []string
}

// analyse makes the index of a chain. It takes longer than storing it, so it is
// done before the file is locked.
func analyse(c protocol.Chain) (analysed, error) {
	d := search.Analyse(c)
	b, err := d.AppendBinary(nil)
	return analysed{document: b, postings: d.Postings(), words: d.Vocabulary()}, err
}

// documentID is the id of a document by the number of its space and its own.
func documentID(space, number int64) int64 { return space<<32 | number }

// addition is chains of one space that are added to the index together.
type addition struct {
	space     string
	chains    []int // positions among the chains of the call
	documents [][]byte
	postings  [][]search.Posting
	words     map[string]bool
	segment   segment
}

// additions are what is to be added for the chains, a segment for each space.
func additions(spaces []string, chains []analysed) []*addition {
	var all []*addition
	bySpace := map[string]*addition{}
	for i, space := range spaces {
		a := bySpace[space]
		if a == nil {
			a = &addition{space: space, words: map[string]bool{}}
			bySpace[space] = a
			all = append(all, a)
		}
		a.chains = append(a.chains, i)
		a.documents = append(a.documents, chains[i].document)
		a.postings = append(a.postings, chains[i].postings)
		for _, w := range chains[i].words {
			a.words[w] = true
		}
	}
	for _, a := range all {
		a.segment, a.postings = segmentOf(a.postings), nil
	}
	return all
}

// insert adds to the index. Keys are those of all chains of the call. Words that
// are known to be stored are left out.
func (a *addition) insert(tx *transaction, keys []int64, known *knownWords) error {
	if err := checkAnalyser(tx); err != nil {
		return err
	}
	var number, last int64
	n := int64(len(a.documents))
	if _, err := tx.row(`INSERT INTO search_spaces (space, chains, last) VALUES (?1, ?2, ?2)
		ON CONFLICT (space) DO UPDATE SET chains = chains + ?2, last = last + ?2 RETURNING number, last`,
		[]any{a.space, n}, &number, &last); err != nil {
		return err
	}
	first := last - n + 1
	var documents, words []any
	for i, document := range a.documents {
		documents = append(documents, documentID(number, first+int64(i)), keys[a.chains[i]], document)
	}
	if err := tx.insert(`search_documents (id, chain, document)`, 3, documents); err != nil {
		return err
	}
	for _, word := range known.unknown(a.words) {
		words = append(words, word)
	}
	if err := tx.insertNew(`search_words (word)`, 1, words); err != nil {
		return err
	}
	if err := insertSegment(tx, storedSegment{space: number, first: first, span: n, documents: n}, a.segment); err != nil {
		return err
	}
	return tidy(tx, number)
}

// storedSegment is the row of a segment.
type storedSegment struct {
	id, space, first, span, documents int64
	gone                              []byte
}

func insertSegment(tx *transaction, row storedSegment, made segment) error {
	var id int64
	if _, err := tx.row(`INSERT INTO search_segments (space, first, span, documents, directory) VALUES (?, ?, ?, ?, ?) RETURNING id`,
		[]any{row.space, row.first, row.span, row.documents, append([]byte{}, made.directory...)}, &id); err != nil {
		return err
	}
	var blocks []any
	for i, block := range made.blocks {
		blocks = append(blocks, blockID(id, i), block)
	}
	return tx.insert(`search_blocks (id, block)`, 2, blocks)
}

func blockID(segment int64, block int) int64 { return segment<<20 | int64(block) }

// errAnalyser says that another version of this program has made the index anew.
var errAnalyser = errors.New("a newer version of this program has changed the search index; restart this one with that version")

// checkAnalyser keeps a program that runs on while a newer one has made the
// index anew from mixing its words in.
func checkAnalyser(tx *transaction) error {
	var version int
	if _, err := tx.row(`SELECT analyser FROM search_state`, nil, &version); err != nil {
		return err
	}
	if version != search.Version {
		return errAnalyser
	}
	return nil
}

// removeIndex takes a chain out of the index; one that was never in it is fine.
func removeIndex(tx *transaction, key int64) error {
	var id int64
	found, err := tx.row(`DELETE FROM search_documents WHERE chain = ? RETURNING id`, []any{key}, &id)
	if err != nil || !found {
		return err
	}
	space, number := id>>32, id&(1<<32-1)
	if err := tx.exec(`UPDATE search_spaces SET chains = chains - 1 WHERE number = ?`, space); err != nil {
		return err
	}
	in := storedSegment{space: space}
	if _, err := tx.row(`SELECT id, first, span, documents, gone FROM search_segments
		WHERE space = ? AND first <= ? ORDER BY first DESC LIMIT 1`,
		[]any{space, number}, &in.id, &in.first, &in.span, &in.documents, &in.gone); err != nil {
		return err
	}
	if number >= in.first+in.span {
		return errSegment
	}
	in.documents--
	in.gone = withGone(in.gone, int(number-in.first), int(in.span))
	if countGone(in.gone) > int(in.documents) {
		return mergeStored(tx, []storedSegment{in})
	}
	return tx.exec(`UPDATE search_segments SET documents = ?, gone = ? WHERE id = ?`, in.documents, in.gone, in.id)
}

// The limits of the number of segments, each of which a search has to look into.
const (
	// mergedAtOnce segments of about one size become one.
	mergedAtOnce = 8
	// largestMerge is the size of segments that are left as they are: merging
	// them would make a mint wait for a second.
	largestMerge = 1 << 15
	// tidied is how many segments are looked at, the latest ones.
	tidied = 64
)

// tidy merges the latest segments of a space when there are many small ones.
func tidy(tx *transaction, space int64) error {
	var latest []storedSegment
	err := tx.rows(`SELECT id, first, span, documents, gone FROM search_segments WHERE space = ? ORDER BY first DESC LIMIT ?`,
		[]any{space, tidied}, func(scan func(...any) error) error {
			s := storedSegment{space: space}
			err := scan(&s.id, &s.first, &s.span, &s.documents, &s.gone)
			latest = append(latest, s)
			return err
		})
	if err != nil {
		return err
	}
	merged := 0
	for limit := int64(mergedAtOnce); limit <= largestMerge; limit *= mergedAtOnce {
		small := slices.IndexFunc(latest, func(s storedSegment) bool { return s.documents >= limit })
		if small < 0 {
			small = len(latest)
		}
		if small >= mergedAtOnce {
			merged = small
		}
	}
	if merged == 0 {
		return nil
	}
	slices.Reverse(latest[:merged])
	return mergeStored(tx, latest[:merged])
}

// mergeStored replaces successive segments with one.
func mergeStored(tx *transaction, segments []storedSegment) error {
	first, last := segments[0], segments[len(segments)-1]
	var parts []*part
	documents := int64(0)
	for _, s := range segments {
		documents += s.documents
		p := &part{offset: int(s.first - first.first), gone: s.gone}
		err := tx.rows(`SELECT block FROM search_blocks WHERE id BETWEEN ? AND ? ORDER BY id`,
			[]any{blockID(s.id, 0), blockID(s.id+1, 0) - 1}, func(scan func(...any) error) error {
				var block []byte
				err := scan(&block)
				p.blocks = append(p.blocks, block)
				return err
			})
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	merged, err := merge(parts)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if err := tx.exec(`DELETE FROM search_segments WHERE id = ?`, s.id); err != nil {
			return err
		}
		if err := tx.exec(`DELETE FROM search_blocks WHERE id BETWEEN ? AND ?`, blockID(s.id, 0), blockID(s.id+1, 0)-1); err != nil {
			return err
		}
	}
	if documents == 0 {
		return nil
	}
	row := storedSegment{space: first.space, first: first.first, span: last.first + last.span - first.first, documents: documents}
	return insertSegment(tx, row, merged)
}

// maxKnownWords bounds the memory of knownWords to a few megabytes.
const maxKnownWords = 64 << 10

// knownWords remembers words that are stored, so that not every word of every
// chain is looked for in the file. Words are never deleted.
type knownWords struct {
	mu    sync.Mutex // guards the field below
	words map[string]bool
}

// unknown are those of the words that may not be stored yet, sorted.
func (k *knownWords) unknown(words map[string]bool) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for w := range words {
		if !k.words[w] {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return out
}

// add is called once the words are committed.
func (k *knownWords) add(words map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.words == nil || len(k.words) > maxKnownWords {
		k.words = make(map[string]bool, len(words))
	}
	maps.Copy(k.words, words)
}

// indexBatch is how many chains are indexed in one transaction when the index
// is made anew: a second or less.
const indexBatch = 500

// reindex makes the index anew when another analyser made it. The caller holds
// the write lock. Each batch is a transaction, so what a killed process has
// done is not done again.
func (s *Store) reindex(ctx context.Context, conn *sql.Conn) error {
	version, at, err := indexState(ctx, conn)
	if err != nil || version == search.Version && at < 0 {
		return err
	}
	if version > search.Version {
		return fmt.Errorf("its search index is of version %d, this program knows versions up to %d: %w", version, search.Version, errNewer)
	}
	total := 0
	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM chains`).Scan(&total); err != nil {
		return err
	}
	if total > 0 {
		s.log.InfoContext(ctx, "making the search index", "path", s.path, "protocols", total, "from", version, "to", search.Version)
	}
	if version != search.Version {
		if err := inTransaction(ctx, conn, clearIndex); err != nil {
			return err
		}
		at = 0
	}
	for at >= 0 {
		err := inTransaction(ctx, conn, func(tx *transaction) (err error) {
			at, err = s.indexNext(tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	if total > 0 {
		s.log.InfoContext(ctx, "search index made", "path", s.path)
	}
	return nil
}

func indexState(ctx context.Context, conn *sql.Conn) (version int, at int64, err error) {
	err = conn.QueryRowContext(ctx, `SELECT analyser, indexed FROM search_state`).Scan(&version, &at)
	return version, at, err
}

// inTransaction runs do in a transaction of its own; the context is looked at
// between transactions.
func inTransaction(ctx context.Context, conn *sql.Conn, do func(*transaction) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	tx := &transaction{conn: conn, stmts: map[string]*sql.Stmt{}}
	defer func() { err = errors.Join(err, tx.close()) }()
	if err := tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.exec("ROLLBACK"))
	}
	return tx.exec("COMMIT")
}

func clearIndex(tx *transaction) error {
	for _, query := range []string{
		`DELETE FROM search_blocks`, `DELETE FROM search_segments`, `DELETE FROM search_documents`,
		`DELETE FROM search_spaces`, `DELETE FROM search_words`,
	} {
		if err := tx.exec(query); err != nil {
			return err
		}
	}
	return tx.exec(`UPDATE search_state SET analyser = ?, indexed = 0`, search.Version)
}

// indexNext indexes the next chains and returns up to which key that was; -1:
// all are indexed.
func (s *Store) indexNext(tx *transaction) (int64, error) {
	var at int64
	if _, err := tx.row(`SELECT indexed FROM search_state`, nil, &at); err != nil || at < 0 {
		return at, err
	}
	var keys []int64
	var spaces []string
	var chains []storedChain
	err := tx.rows(`SELECT key, space, revision, document FROM chains WHERE key > ? ORDER BY key LIMIT ?`,
		[]any{at, indexBatch}, func(scan func(...any) error) error {
			var key int64
			var space string
			var row storedChain
			err := scan(&key, &space, &row.revision, &row.document)
			keys, spaces, chains = append(keys, key), append(spaces, space), append(chains, row)
			return err
		})
	if err != nil {
		return 0, err
	}
	index, err := s.analyseStored(keys, chains)
	if err != nil {
		return 0, err
	}
	at = -1
	for _, key := range keys {
		at = key
		// Stored anew since the work began.
		if err := removeIndex(tx, key); err != nil {
			return 0, err
		}
	}
	for _, a := range additions(spaces, index) {
		if err := a.insert(tx, keys, &s.known); err != nil {
			return 0, err
		}
	}
	return at, tx.exec(`UPDATE search_state SET indexed = ?`, at)
}

func (s *Store) analyseStored(keys []int64, chains []storedChain) ([]analysed, error) {
	index := make([]analysed, len(chains))
	for i, row := range chains {
		c, err := s.chain(fmt.Sprint(keys[i]), row)
		if err != nil {
			return nil, err
		}
		if index[i], err = analyse(c); err != nil {
			return nil, err
		}
	}
	return index, nil
}
