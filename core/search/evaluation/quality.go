// Package evaluation measures the quality of search: it fills a store with the
// protocols of testdata/search, asks the labelled queries beside them, and counts.
// It works with any store.
package evaluation

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// Space is where the protocols are stored.
const Space = "user:quality:library"

// Threshold is the score below which the library drops a match by default.
const Threshold = 0.3

// maxHits is how many matches a client is shown.
const maxHits = 10

// Kind is how a query relates to the protocol that it looks for.
type Kind string

// The kinds of queries.
const (
	Exact         Kind = "exact"          // the title
	TitleDE       Kind = "title_de"       // a German title
	TitlePL       Kind = "title_pl"       // a Polish title
	Partial       Kind = "partial"        // part of a title, or beginnings of its words
	Prefix        Kind = "prefix"         // a title whose last word is not finished
	Keyword       Kind = "keyword"        // one to three telling words
	WordForm      Kind = "word_form"      // the title's words inflected
	Typo          Kind = "typo"           // the title's words misspelt
	Sentence      Kind = "sentence"       // a request in plain words
	Paraphrase    Kind = "paraphrase"     // other words for the same thing
	CrossLanguage Kind = "cross_language" // the same thing in another language
	Negative      Kind = "negative"       // a request that no protocol answers
	Gibberish     Kind = "gibberish"      // nothing
)

// Kinds are all kinds, in the order of reports.
func Kinds() []Kind {
	return append(Lexical(), Sentence, Paraphrase, CrossLanguage, Negative, Gibberish)
}

// Lexical are the kinds of queries that consist of words of the title.
func Lexical() []Kind {
	return []Kind{Exact, TitleDE, TitlePL, Partial, Prefix, Keyword, WordForm, Typo}
}

// wantsNothing reports whether queries of the kind should find nothing.
func (k Kind) wantsNothing() bool { return k == Negative || k == Gibberish }

// Half is one of the two parts that the queries are split into.
type Half string

// The halves.
const (
	Tune    Half = "tune"     // used to tune the scores
	HeldOut Half = "held out" // only used to measure
)

// Query is a query with its expected results.
type Query struct {
	Text string `json:"query"`
	Kind Kind   `json:"kind"`
	// Want are the titles that answer the query, the best one first; none for
	// gibberish and negatives.
	Want []string `json:"want"`
}

// Half is the half that the query belongs to. It follows from the text alone and
// cannot be chosen.
func (q Query) Half() Half {
	if sha256.Sum256([]byte(q.Text))[0]%2 == 0 {
		return Tune
	}
	return HeldOut
}

// Set is protocols and queries about them.
type Set struct {
	Chains    []protocol.Chain
	Documents map[string]string // the Markdown of each protocol by its title
	Queries   []Query
}

// Load reads protocols/*.md and queries.jsonl. A finding in a protocol is an
// error, and so is a query of an unknown kind or for an unknown title.
func Load(from fs.FS) (Set, error) {
	s := Set{Documents: map[string]string{}}
	names, err := fs.Glob(from, "protocols/*.md")
	if err != nil {
		return Set{}, fmt.Errorf("list the protocols: %w", err)
	}
	for _, name := range names {
		if err := s.addProtocol(from, name); err != nil {
			return Set{}, err
		}
	}
	lines, err := fs.ReadFile(from, "queries.jsonl")
	if err != nil {
		return Set{}, fmt.Errorf("read the queries: %w", err)
	}
	in := bufio.NewScanner(bytes.NewReader(lines))
	for n := 1; in.Scan(); n++ {
		if err := s.addQuery(in.Bytes()); err != nil {
			return Set{}, fmt.Errorf("queries.jsonl:%d: %w", n, err)
		}
	}
	return s, in.Err()
}

func (s *Set) addProtocol(from fs.FS, name string) error {
	doc, err := fs.ReadFile(from, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", path.Base(name), err)
	}
	chains, found := protocol.Parse(doc)
	if len(found) > 0 {
		return fmt.Errorf("%s:%s", name, found[0])
	}
	if len(chains) != 1 {
		return fmt.Errorf("%s holds %d protocols, want one", name, len(chains))
	}
	c := chains[0]
	if _, ok := s.Documents[c.Title]; ok {
		return fmt.Errorf("%s: another file has the title %q, too", name, c.Title)
	}
	c.Space = Space
	for i := range c.Steps {
		c.Steps[i].UUID = stepID(c.Title, i)
	}
	s.Chains = append(s.Chains, c)
	s.Documents[c.Title] = string(doc)
	return nil
}

// stepID is the same in every measurement, so that ties fall the same way.
func stepID(title string, step int) string {
	h := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", title, step)))
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
}

func (s *Set) addQuery(line []byte) error {
	var q Query
	if err := json.Unmarshal(line, &q); err != nil {
		return err
	}
	if !slices.Contains(Kinds(), q.Kind) {
		return fmt.Errorf("kind %q is unknown", q.Kind)
	}
	if q.Kind.wantsNothing() != (len(q.Want) == 0) {
		return fmt.Errorf("query %q of kind %s wants %d protocols", q.Text, q.Kind, len(q.Want))
	}
	for _, title := range q.Want {
		if _, ok := s.Documents[title]; !ok {
			return fmt.Errorf("no protocol has the title %q", title)
		}
	}
	s.Queries = append(s.Queries, q)
	return nil
}

// Library is a store to measure.
type Library interface {
	library.ProtocolWriter
	library.Searcher
	library.Vectors
}

// Fill stores the protocols and, with an embedder, their vectors.
func (s Set) Fill(ctx context.Context, into Library, embedder library.Embedder) error {
	changes := make([]library.Change, len(s.Chains))
	for i, c := range s.Chains {
		changes[i] = library.Change{Chain: c}
	}
	if _, err := into.SaveChains(ctx, changes); err != nil {
		return fmt.Errorf("store the protocols: %w", err)
	}
	if embedder == nil {
		return nil
	}
	asked, err := embedder.Embed(ctx, nil)
	if err != nil {
		return fmt.Errorf("ask for the embedding model: %w", err)
	}
	for {
		missing, err := into.Missing(ctx, asked.Model, 100)
		if err != nil || len(missing) == 0 {
			return err
		}
		if err := embed(ctx, into, embedder, missing); err != nil {
			return err
		}
	}
}

func embed(ctx context.Context, into library.Vectors, embedder library.Embedder, passages []library.Passage) error {
	texts := make([]string, len(passages))
	for i, p := range passages {
		texts[i] = p.Text
	}
	made, err := embedder.Embed(ctx, texts)
	if err != nil {
		return fmt.Errorf("embed %d passages: %w", len(texts), err)
	}
	vectors := map[string][]float32{}
	for i, p := range passages {
		vectors[p.Hash] = made.Vectors[i]
	}
	return into.SaveVectors(ctx, made.Model, vectors)
}

// Ask runs all queries and drops matches below the threshold. With an embedder it
// compares embeddings, too.
func (s Set) Ask(ctx context.Context, store library.Searcher, embedder library.Embedder, threshold float64) (Report, error) {
	var r Report
	for _, q := range s.Queries {
		ask := library.Query{Text: q.Text, Spaces: []string{Space}, Limit: maxHits}
		if embedder != nil {
			made, err := embedder.Embed(ctx, []string{q.Text})
			if err != nil {
				return Report{}, fmt.Errorf("embed query %q: %w", q.Text, err)
			}
			ask.Embedding = &library.Embedding{Model: made.Model, Vector: made.Vectors[0]}
		}
		hits, err := store.Search(ctx, ask)
		if err != nil {
			return Report{}, fmt.Errorf("search %q: %w", q.Text, err)
		}
		a := Answer{Query: q}
		for _, h := range hits {
			if h.Score >= threshold {
				a.Found = append(a.Found, Found{Title: h.Chain.Title, Score: h.Score})
			}
		}
		r.Answers = append(r.Answers, a)
	}
	return r, nil
}
