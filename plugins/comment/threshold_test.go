package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/internal/openai"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// labelled is a comment on a step of which people said whether it is one.
type labelled struct {
	Step    string `json:"step"`
	Comment string `json:"comment"`
	Good    bool   `json:"good"`
	// Kind: honest, short, foreign (in another language than the step) and told (what the
	// step asks for without naming its subject) are good; copied, off-topic and generic ("done, all fine") are bad.
	Kind string `json:"kind"`
}

func labelledSet(t testing.TB, file string) []labelled {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []labelled
	for s := bufio.NewScanner(f); s.Scan(); {
		var l labelled
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

func TestCopiesOfTheLabelledSetAreTold(t *testing.T) {
	set := labelledSet(t, languages)
	if len(set) < 120 {
		t.Fatalf("the labelled set has %d pairs, want at least 120", len(set))
	}
	for _, l := range set {
		if got := copied(l.Comment, l.Step); got != (l.Kind == "copied") {
			t.Errorf("copied(%q) = %v, want %v", l.Comment, got, l.Kind == "copied")
		}
	}
}

// The labelled comments: languages are English, German, Polish and French; english was
// written later, and no score is fitted to it.
const languages, english = "relevance.jsonl", "relevance_english.jsonl"

// measuredPair is a pair with its similarity.
type measuredPair struct {
	labelled
	score float64
}

// measure asks for the similarity of all pairs that are not copies.
func measure(t testing.TB, c *embedding.Client, set []labelled) []measuredPair {
	t.Helper()
	var out []measuredPair
	for _, l := range set {
		if l.Kind == "copied" {
			continue // refused before anything is compared
		}
		e, err := c.Embed(context.Background(), []string{l.Comment, body(l.Step)})
		if err != nil {
			t.Fatal(err)
		}
		var dot float64
		for i, x := range e.Vectors[0] {
			dot += float64(x) * float64(e.Vectors[1][i])
		}
		out = append(out, measuredPair{l, dot})
	}
	return out
}

// table prints what each threshold does: of the good comments the share that
// passes, of the bad ones the share that is caught, and both by kind.
func table(t testing.TB, name string, pairs []measuredPair) {
	t.Helper()
	for _, threshold := range []float64{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6} {
		passed, all := map[string]int{}, map[string]int{}
		good, bad := 0, 0
		for _, p := range pairs {
			all[p.Kind]++
			if p.score < threshold {
				continue
			}
			passed[p.Kind]++
			if p.Good {
				good++
			} else {
				bad++
			}
		}
		precision := float64(good) / float64(max(1, good+bad))
		t.Logf("%s at %.2f: precision %.2f, honest %d/%d, short %d/%d, foreign %d/%d pass; off-topic %d/%d, generic %d/%d slip through", name, threshold, precision,
			passed["honest"], all["honest"], passed["short"], all["short"], passed["foreign"], all["foreign"],
			passed["off-topic"], all["off-topic"], passed["generic"], all["generic"])
	}
}

// ranked is the probability that a good comment of the kinds is nearer to its
// step than a bad one.
func ranked(pairs []measuredPair, bad string, good ...string) float64 {
	var won, all float64
	for _, g := range pairs {
		for _, b := range pairs {
			if !slices.Contains(good, g.Kind) || b.Kind != bad {
				continue
			}
			all++
			if g.score > b.score {
				won++
			}
		}
	}
	return won / all
}

// The fake endpoint is not a model, knows no Polish or French and little German;
// it proves the way the set is measured, not the threshold.
func TestTheLabelledSetIsMeasured(t *testing.T) {
	server := embedtest.Start(embedtest.Options{Dimension: 1024})
	defer server.Close()
	c, err := embedding.New(embedding.Config{Provider: "fake", URL: server.URL(), Model: "words"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pairs := measure(t, c, labelledSet(t, languages))
	table(t, "fake", pairs)
	for kind, want := range map[string]float64{"off-topic": 0.9, "generic": 0.9} {
		if got := ranked(pairs, kind, "honest", "short"); got < want {
			t.Errorf("good comments are nearer than %s ones in %.2f of the cases, want at least %.2f", kind, got, want)
		}
	}
}

// mostRefused is how many of the comments that fit their step may be refused.
const mostRefused = 0.005

// By default word vectors refuse nothing: steps that ask to tell something whose subject
// they do not name have honest comments that are far from the step. For other steps there
// is a threshold that refuses next to no comment that fits, and more of the others than words
// do when these refuse as few.
func TestWordVectorsHardlyRefuseWhatFits(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	vectors := library.New(library.Store{}, nil, library.Options{Table: meaning.Default}, log)
	words := library.New(library.Store{}, nil, library.Options{}, log)
	enforcing := configured(t, `{"word_vectors_threshold":0.1}`)
	refused, all := map[string]int{}, map[string]int{} // by what they are
	var lexical []measuredPair
	for _, l := range append(labelledSet(t, languages), labelledSet(t, english)...) {
		if l.Kind == "copied" {
			continue
		}
		of := fit(l)
		all[of]++
		in := driver.Similarity{Text: l.Comment, Reference: body(l.Step)}
		value, err := json.Marshal(vectors.Similarity(t.Context(), in))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := newComment().measured(value); err != nil || r.refuses() {
			t.Errorf("the default refuses %q (%v)", l.Comment, err)
		}
		if r, err := enforcing.measured(value); err != nil || r.refuses() {
			refused[of]++
			t.Logf("refused with %.2f: %s %q", *r.Score, l.Kind, l.Comment)
		}
		if of != told {
			lexical = append(lexical, measuredPair{l, words.Similarity(t.Context(), in).Score})
		}
	}
	most := int(mostRefused * float64(all[fits]))
	byWords := refusedByWords(lexical, most)
	t.Logf("refused: %v of %v; words that refuse at most %d that fit refuse %d others", refused, all, most, byWords)
	if refused[fits] > most {
		t.Errorf("%d of %d comments that fit are refused, want at most %d", refused[fits], all[fits], most)
	}
	if refused[others] < 10 || refused[others] <= byWords {
		t.Errorf("%d comments that do not fit are refused, want at least 10 and more than the %d of words", refused[others], byWords)
	}
}

const fits, told, others = "that fit", "told", "others"

func fit(l labelled) string {
	switch {
	case l.Kind == told:
		return told
	case l.Good:
		return fits
	}
	return others
}

// refusedByWords is how many comments that do not fit the best threshold refuses, of those
// that refuse at most so many that fit.
func refusedByWords(pairs []measuredPair, most int) int {
	slices.SortFunc(pairs, func(a, b measuredPair) int { return cmp.Compare(a.score, b.score) })
	good, bad, best := 0, 0, 0
	for i, p := range pairs {
		if i > 0 && p.score > pairs[i-1].score && good <= most {
			best = bad
		}
		if p.Good {
			good++
		} else {
			bad++
		}
	}
	return best
}

// TestThresholdsOfAModel measures a real endpoint; the figures go into
// docs/how-to/search-by-meaning.md together with the model's name:
//
//	KAIROS_EMBEDDING_URL=http://127.0.0.1:11434 KAIROS_EMBEDDING_MODEL=bge-m3 go test ./plugins/comment -run Thresholds -v
func TestThresholdsOfAModel(t *testing.T) {
	url, model := os.Getenv("KAIROS_EMBEDDING_URL"), os.Getenv("KAIROS_EMBEDDING_MODEL")
	if url == "" {
		t.Skip("KAIROS_EMBEDDING_URL names no endpoint")
	}
	c, err := embedding.New(embedding.Config{
		Provider: "openai", URL: url, Model: cmp.Or(model, "default"), Key: openai.Secret(strings.TrimSpace(os.Getenv("KAIROS_EMBEDDING_KEY"))),
		Timeout: time.Minute, Budget: 5 * time.Minute,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // its idle connections
	pairs := measure(t, c, labelledSet(t, languages))
	slices.SortFunc(pairs, func(a, b measuredPair) int { return cmp.Compare(a.score, b.score) })
	table(t, model, pairs)
	t.Logf("good above off-topic: %.3f, good above generic: %.3f", ranked(pairs, "off-topic", "honest", "short", "foreign"), ranked(pairs, "generic", "honest", "short", "foreign"))
}
