package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// ErrTextRefused is wrapped by an Embedder that works but rejects one of the
// texts.
var ErrTextRefused = errors.New("the text is refused")

const (
	// maxMeaning is how many characters of a query are embedded.
	maxMeaning = 2000
	// fillBatch is how many passages are embedded and stored at once, so that a
	// crash loses little work.
	fillBatch = 32
	// fillWindow is how many missing passages are listed at once.
	fillWindow = 512
	// fillIdle is how long FillVectors rests before it asks the store again, because
	// other processes mint too.
	fillIdle = 10 * time.Minute
	// The first and the longest pause after a failure.
	fillPause, fillPauseMax = time.Second, time.Minute
	// fillTimes is how often one process embeds a passage whose vector keeps
	// disappearing.
	fillTimes = 3
)

// meanings embeds texts and keeps the vectors of stored passages. Without an
// embedder all comparisons use words.
type meanings struct {
	embedder Embedder              // nil: no endpoint is asked
	table    func() *meaning.Table // nil, or its result: only words are compared without an endpoint
	budget   time.Duration
	vectors  Vectors
	log      *slog.Logger

	missing chan struct{}          // wakes fillForever
	model   atomic.Pointer[string] // that embedded last
}

func newMeanings(vectors Vectors, opt Options, log *slog.Logger) *meanings {
	return &meanings{embedder: opt.Embedder, table: opt.Table, budget: opt.EmbedBudget, vectors: vectors, log: log, missing: make(chan struct{}, 1)}
}

// of returns the vectors of the texts that a search compares, and the model that made them. A
// vector is empty if the endpoint fails or rejects the text; words alone decide then. The model
// is empty if all are. Without an embedder there are none. All texts share one time budget.
func (m *meanings) of(ctx context.Context, texts []string) (model string, vectors [][]float32) {
	if m.embedder == nil {
		return "", nil
	}
	out := make([]Embedding, len(texts))
	ctx, cancel := context.WithTimeout(ctx, m.budget)
	defer cancel()
	short := make([]string, len(texts))
	for i, text := range texts {
		short[i] = beginning(text, maxMeaning)
	}
	err := m.embedInto(ctx, short, out)
	if errors.Is(err, ErrTextRefused) && len(short) > 1 {
		// One refused text must not hide the meaning of the others.
		for i := range short {
			err = cmp.Or(err, m.embedInto(ctx, short[i:i+1], out[i:i+1]))
		}
	}
	if err != nil {
		m.log.DebugContext(ctx, "a search compares words alone", "error", err)
	}
	vectors = make([][]float32, len(out))
	for i, e := range out {
		if model = cmp.Or(model, e.Model); e.Model == model { // another model answers from now on
			vectors[i] = e.Vector
		}
	}
	return model, vectors
}

// embedInto embeds all of the texts into out, or none.
func (m *meanings) embedInto(ctx context.Context, texts []string, out []Embedding) error {
	embedded, err := m.embedder.Embed(ctx, texts)
	if err != nil {
		return err
	}
	m.saw(embedded.Model)
	for i, vector := range embedded.Vectors {
		out[i] = Embedding{Model: embedded.Model, Vector: vector}
	}
	return nil
}

// saw records the model that embeds. A new model makes every vector missing.
func (m *meanings) saw(model string) {
	if before := m.model.Swap(&model); before != nil && *before != model {
		m.wake()
	}
}

// beginning returns at most the first n characters.
func beginning(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// add embeds the passages of chains that were just stored, as far as the budget
// allows; fillForever does the rest. It never fails: the result describes the
// remaining work, and is empty if there is none.
func (m *meanings) add(ctx context.Context, chains ...protocol.Chain) string {
	if m.embedder == nil {
		return ""
	}
	passages := passagesOf(chains)
	ctx, cancel := context.WithTimeout(ctx, m.budget)
	defer cancel()
	left, err := m.fill(ctx, passages)
	if len(left) == 0 {
		return ""
	}
	m.wake()
	m.log.DebugContext(ctx, "passages were stored without a vector", "passages", len(left), "error", err)
	reason := "the embedding endpoint does not answer"
	switch {
	case errors.Is(err, ErrTextRefused):
		reason = "the embedding endpoint refuses a text"
	case err == nil || errors.Is(err, context.DeadlineExceeded):
		reason = "the embedding endpoint takes too long"
	}
	return fmt.Sprintf("Stored, and found by words. %d of %d passages cannot be compared by meaning yet, because %s; "+
		"a running server adds what is missing when it can.", len(left), len(passages), reason)
}

// passagesOf lists the passages of chains, each once.
func passagesOf(chains []protocol.Chain) []Passage {
	var out []Passage
	seen := make(map[string]bool)
	for _, c := range chains {
		for i := range c.Steps {
			text := c.Passage(i)
			if hash := protocol.PassageHash(text); !seen[hash] {
				seen[hash] = true
				out = append(out, Passage{Hash: hash, Text: text})
			}
		}
	}
	return out
}

// fill embeds and stores the passages that have no vector yet, and returns the
// ones it did not reach.
func (m *meanings) fill(ctx context.Context, passages []Passage) (left []Passage, err error) {
	described, err := m.embedder.Embed(ctx, nil)
	if err != nil {
		return passages, err
	}
	if left, err = m.unknown(ctx, described.Model, passages); err != nil {
		return passages, err
	}
	for len(left) > 0 {
		batch := left[:min(fillBatch, len(left))]
		if err := m.store(ctx, batch); err != nil {
			return left, err
		}
		left = left[len(batch):]
	}
	return nil, nil
}

// unknown returns the passages without a vector of the model.
func (m *meanings) unknown(ctx context.Context, model string, passages []Passage) ([]Passage, error) {
	hashes := make([]string, len(passages))
	for i, p := range passages {
		hashes[i] = p.Hash
	}
	known, err := m.vectors.Known(ctx, model, hashes)
	if err != nil {
		return nil, fmt.Errorf("look up vectors: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(passages), func(p Passage) bool { return known[p.Hash] != nil }), nil
}

// store embeds and stores all of the passages or none.
func (m *meanings) store(ctx context.Context, batch []Passage) error {
	texts := make([]string, len(batch))
	for i, p := range batch {
		texts[i] = p.Text
	}
	out, err := m.embedder.Embed(ctx, texts)
	if err != nil {
		return err
	}
	m.saw(out.Model)
	vectors := make(map[string][]float32, len(batch))
	for i, p := range batch {
		vectors[p.Hash] = out.Vectors[i]
	}
	if err := m.vectors.SaveVectors(ctx, out.Model, vectors); err != nil {
		return fmt.Errorf("store vectors: %w", err)
	}
	return nil
}

// wake notifies fillForever of missing vectors.
func (m *meanings) wake() {
	select {
	case m.missing <- struct{}{}:
	default: // a wake-up is pending
	}
}

// fillForever is Library.FillVectors.
func (m *meanings) fillForever(ctx context.Context) {
	if m.embedder == nil {
		return
	}
	f := filler{meanings: m, times: make(map[string]int), aside: make(map[string]bool)}
	for pause := fillPause; ctx.Err() == nil; {
		err := f.round(ctx)
		if err == nil {
			pause = fillPause
			f.rest(ctx, fillIdle, m.missing)
			continue
		}
		m.log.DebugContext(ctx, "vectors are still missing", "error", err, "again_in", pause)
		// Jitter, because servers of one database all wait for the same endpoint.
		f.rest(ctx, pause/2+rand.N(pause), nil)
		pause = min(2*pause, fillPauseMax)
	}
}

// filler is the memory of one fillForever.
type filler struct {
	*meanings
	times map[string]int  // by model and hash: how often it was embedded here
	aside map[string]bool // by hash: given up
}

func (filler) rest(ctx context.Context, d time.Duration, until <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-until:
	}
}

// round fills until every missing passage is filled or given up.
func (f filler) round(ctx context.Context) error {
	for {
		described, err := f.embedder.Embed(ctx, nil)
		if err != nil {
			return err
		}
		missing, err := f.vectors.Missing(ctx, described.Model, fillWindow+len(f.aside))
		if err != nil {
			return fmt.Errorf("list the passages without a vector: %w", err)
		}
		missing = slices.DeleteFunc(missing, func(p Passage) bool { return f.givesUp(described.Model, p) })
		if len(missing) == 0 {
			return nil
		}
		// Several servers may share the database: each begins somewhere else.
		rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
		for batch := range slices.Chunk(missing, fillBatch) {
			if err := f.batch(ctx, described.Model, batch); err != nil {
				return err
			}
		}
	}
}

// givesUp reports whether a missing passage is given up. A vector that keeps
// disappearing would be paid for again and again.
func (f filler) givesUp(model string, p Passage) bool {
	if !f.aside[p.Hash] && f.times[model+p.Hash] >= fillTimes {
		f.aside[p.Hash] = true
		f.log.Warn("a vector does not stay stored; does another server use this database with another model?", "passage", titled(p), "model", model)
	}
	return f.aside[p.Hash]
}

// batch fills some passages unless another process was faster.
func (f filler) batch(ctx context.Context, model string, batch []Passage) error {
	batch, err := f.unknown(ctx, model, batch)
	if err != nil || len(batch) == 0 {
		return err
	}
	err = f.store(ctx, batch)
	if errors.Is(err, ErrTextRefused) && len(batch) > 1 {
		for i := range batch {
			if err := f.batch(ctx, model, batch[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	if errors.Is(err, ErrTextRefused) {
		f.aside[batch[0].Hash] = true
		f.log.WarnContext(ctx, "the embedding endpoint refuses a passage, so it is found by words only", "passage", titled(batch[0]), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range batch {
		f.times[model+p.Hash]++
	}
	return nil
}

// titled is the first line of a passage: the title of its protocol.
func titled(p Passage) string {
	title, _, _ := strings.Cut(p.Text, "\n")
	return plain.Clip(title, 80)
}

// MaxMissing is the largest number of missing passages that Embeddings reports.
const MaxMissing = 1000

// EmbeddingState says how many stored passages are embedded.
type EmbeddingState struct {
	Model string // provider/model/dimension
	// Missing is how many passages have no vector of the model; MaxMissing: or more.
	Missing int
}

// state asks the endpoint for a vector and the store for missing ones. Without an
// embedder the model is empty.
func (m *meanings) state(ctx context.Context) (EmbeddingState, error) {
	if m.embedder == nil {
		return EmbeddingState{}, nil
	}
	// A new text, so that no cache answers.
	out, err := m.embedder.Embed(ctx, []string{fmt.Sprintf("Does the embedding endpoint answer? %d", rand.Int64())})
	if err != nil {
		return EmbeddingState{}, err
	}
	missing, err := m.vectors.Missing(ctx, out.Model, MaxMissing)
	if err != nil {
		return EmbeddingState{}, fmt.Errorf("list the passages without a vector: %w", err)
	}
	m.saw(out.Model)
	return EmbeddingState{Model: out.Model, Missing: len(missing)}, nil
}
