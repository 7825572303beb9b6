package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// indexed is a chain as the search tables hold it.
type indexed struct {
	document []byte
	terms    string
	words    []string
}

// analyse makes the index of a chain. It takes longer than storing it, so it is
// done before the file is locked.
func analyse(c protocol.Chain) (indexed, error) {
	d := search.Analyse(c)
	b, err := d.AppendBinary(nil)
	return indexed{document: b, terms: strings.Join(d.Terms(), " "), words: d.Vocabulary()}, err
}

// searchID is where a chain is in the search tables.
func searchID(space, chain int64) int64 { return space<<32 | chain }

// chainOf is the key of the chain with the search id.
func chainOf(id int64) int64 { return id & (1<<32 - 1) }

// indexEntry is a chain that goes into the index.
type indexEntry struct {
	indexed
	space string
	key   int64
}

// insertIndex adds chains to the index. Words that are known to be stored are
// left out.
//
// The terms come last and in as few statements as possible: a statement that
// may have to be undone makes FTS5 write what it holds into a segment of its
// own, and merging these is what takes long.
func insertIndex(tx *transaction, chains []indexEntry, known *knownWords) error {
	if err := checkAnalyser(tx); err != nil {
		return err
	}
	numbers, err := countIn(tx, chains)
	if err != nil {
		return err
	}
	var documents, terms, words []any
	fresh := make(map[string]bool)
	for _, c := range chains {
		id := searchID(numbers[c.space], c.key)
		documents = append(documents, id, c.document)
		terms = append(terms, id, c.terms)
		for _, w := range known.unknown(c.words) {
			if !fresh[w] {
				fresh[w] = true
				words = append(words, w)
			}
		}
	}
	if err := tx.insert(`search_documents (id, document)`, 2, documents); err != nil {
		return err
	}
	if err := tx.insertNew(`search_words (word)`, 1, words); err != nil {
		return err
	}
	return tx.insert(`search (rowid, terms)`, 2, terms)
}

// countIn counts the chains in their spaces and returns the spaces' numbers.
func countIn(tx *transaction, chains []indexEntry) (map[string]int64, error) {
	more, numbers := make(map[string]int), make(map[string]int64)
	for _, c := range chains {
		more[c.space]++
	}
	for space, n := range more {
		var number int64
		if _, err := tx.row(`INSERT INTO search_spaces (space, chains) VALUES (?1, ?2)
			ON CONFLICT (space) DO UPDATE SET chains = chains + ?2 RETURNING number`, []any{space, n}, &number); err != nil {
			return nil, err
		}
		numbers[space] = number
	}
	return numbers, nil
}

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
func removeIndex(tx *transaction, space string, key int64) error {
	var number int64
	found, err := tx.row(`SELECT number FROM search_spaces WHERE space = ?`, []any{space}, &number)
	if err != nil || !found {
		return err
	}
	id := searchID(number, key)
	n, err := tx.changed(`DELETE FROM search_documents WHERE id = ?`, id)
	if err != nil || n == 0 {
		return err
	}
	if err := tx.exec(`DELETE FROM search WHERE rowid = ?`, id); err != nil {
		return err
	}
	return tx.exec(`UPDATE search_spaces SET chains = chains - 1 WHERE number = ?`, number)
}

// maxKnownWords bounds the memory of knownWords to a few megabytes.
const maxKnownWords = 64 << 10

// knownWords remembers words that are stored, so that not every word of every
// chain is looked for in the file. Words are never deleted.
type knownWords struct {
	mu    sync.Mutex // guards the field below
	words map[string]bool
}

func (k *knownWords) unknown(words []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, w := range words {
		if !k.words[w] {
			out = append(out, w)
		}
	}
	return out
}

// add is called once the words are committed.
func (k *knownWords) add(words []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.words == nil || len(k.words) > maxKnownWords {
		k.words = make(map[string]bool, len(words))
	}
	for _, w := range words {
		k.words[w] = true
	}
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
		`INSERT INTO search (search) VALUES ('delete-all')`,
		`DELETE FROM search_documents`, `DELETE FROM search_spaces`, `DELETE FROM search_words`,
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
	type stored struct {
		key      int64
		space    string
		document storedChain
	}
	var batch []stored
	err := tx.rows(`SELECT key, space, revision, document FROM chains WHERE key > ? ORDER BY key LIMIT ?`,
		[]any{at, indexBatch}, func(scan func(...any) error) error {
			var row stored
			err := scan(&row.key, &row.space, &row.document.revision, &row.document.document)
			batch = append(batch, row)
			return err
		})
	if err != nil {
		return 0, err
	}
	at = -1
	index := make([]indexEntry, 0, len(batch))
	for _, row := range batch {
		at = row.key
		c, err := s.chain(fmt.Sprint(row.key), row.document)
		if err != nil {
			return 0, err
		}
		// Stored anew since the work began.
		if err := removeIndex(tx, row.space, row.key); err != nil {
			return 0, err
		}
		x, err := analyse(c)
		if err != nil {
			return 0, err
		}
		index = append(index, indexEntry{indexed: x, space: row.space, key: row.key})
	}
	if err := insertIndex(tx, index, &s.known); err != nil {
		return 0, err
	}
	return at, tx.exec(`UPDATE search_state SET indexed = ?`, at)
}
