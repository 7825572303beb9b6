package qdrant

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/search"
)

const (
	// wordsFresh is how long it may take until a process can complete a word to one
	// that another process has stored. Whole words are found at once.
	wordsFresh = 5 * time.Second
	// wordsInList is how many words one point holds.
	wordsInList = 4000
	// listsRead is how many lists are read at once, listsKept how many may exist
	// before they are merged.
	listsRead, listsKept = 100, 200
)

// vocabulary holds the words of the index that this process knows. They are of all
// spaces and only lead to terms, which are looked up in the caller's spaces.
type vocabulary struct {
	mu    sync.Mutex // guards the fields below
	words search.Vocabulary
	read  *clock.Moment // nil: not read yet; words has only those written by this process
}

// missing returns the words of the entries that may not be in the index yet.
func (v *vocabulary) missing(entries []indexEntry) []string {
	v.mu.Lock()
	words := v.words
	v.mu.Unlock()
	var out []string
	for _, e := range entries {
		out = append(out, words.Missing(e.words.vocabulary)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (v *vocabulary) add(words []string) {
	if len(words) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.words = v.words.With(words)
}

// wordPoints returns points with the words.
func wordPoints(words []string, now time.Time) []*pb.PointStruct {
	var points []*pb.PointStruct
	for part := range slices.Chunk(words, wordsInList) {
		points = append(points, &pb.PointStruct{Id: pb.NewID(uuid.NewString()), Vectors: noVectors(), Payload: payload{
			fieldKind: text(kindWords), fieldList: text(strings.Join(part, " ")), fieldWritten: number(now.UnixMilli()),
		}})
	}
	return points
}

// vocabulary returns the words of the index in use, including those that other
// processes stored up to a few seconds ago.
func (ix *searchIndex) vocabulary(ctx context.Context) (search.Vocabulary, error) {
	v := &ix.state.Load().words
	v.mu.Lock()
	words, read := v.words, v.read
	v.mu.Unlock()
	now := ix.server.options.Clock.Moment()
	if read != nil && ix.server.options.Clock.Since(*read) < wordsFresh {
		return words, nil
	}
	f := all(is(fieldKind, kindWords))
	if read != nil {
		since := float64(ix.server.options.Clock.Earliest(*read).Add(-clockMargin).UnixMilli())
		f.Must = append(f.Must, pb.NewRange(fieldWritten, &pb.Range{Gte: &since}))
	}
	listed, _, err := ix.listedWords(ctx, f)
	if err != nil {
		return search.Vocabulary{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if fresh := v.words.Missing(listed); len(fresh) > 0 {
		v.words = v.words.With(fresh)
	}
	v.read = &now
	return v.words, nil
}

// listedWords returns the words of the lists that match, sorted, and the ids of
// the lists.
func (ix *searchIndex) listedWords(ctx context.Context, f *pb.Filter) (words, lists []string, err error) {
	err = ix.server.each(ctx, ix.server.names.index(), f, listsRead, []string{fieldList}, func(points []*pb.RetrievedPoint) error {
		for _, p := range points {
			words = append(words, strings.Fields(p.GetPayload()[fieldList].GetStringValue())...)
			lists = append(lists, p.GetId().GetUuid())
		}
		return nil
	})
	slices.Sort(words)
	return slices.Compact(words), lists, err
}

// mergeWords merges many short lists of words. Every word is in some list at all
// times, even if several processes do this.
func (ix *searchIndex) mergeWords(ctx context.Context) error {
	f := all(is(fieldKind, kindWords))
	n, err := call(ctx, ix.server, func(ctx context.Context) (uint64, error) {
		return ix.server.client.Count(ctx, &pb.CountPoints{CollectionName: ix.server.names.index(), Filter: f, Exact: pb.PtrOf(true)})
	})
	if err != nil || n < listsKept {
		return err
	}
	words, lists, err := ix.listedWords(ctx, f)
	if err != nil || len(lists) < 2*len(words)/wordsInList {
		return err // they are full
	}
	// Not by the alias: it may lead to another index meanwhile.
	collection := ix.state.Load().collection
	if err := ix.server.writePoints(ctx, collection, wordPoints(words, ix.server.options.Clock.Wall())); err != nil {
		return err
	}
	return ix.server.update(ctx, collection, removeIDs(lists...))
}
