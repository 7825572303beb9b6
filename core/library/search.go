package library

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// The limits of a search.
const (
	defaultMatches = 5
	maxMatches     = 10 // with SearchRequest.Limit
	// maxUnsure is how many matches are offered while none of them is sure: a longer
	// list would have to be read, not chosen from.
	maxUnsure  = 3
	maxQueries = 5 // rephrasings

	maxNearest = 5 // weaker matches
	// few is how many protocols a caller can read at most for all of them to be listed:
	// an agent's model knows better than a score which of them fits.
	few        = 50
	maxReasons = 3 // words that say why a weaker match was found

	// besides is how many hits are read besides those that are shown: the one whose score
	// makes the best one sure, and the built-in protocols.
	besides = 3
	// mostHits are read if copies of protocols in several spaces leave too few.
	mostHits = 2 * maxMatches

	maxSummary = 60 // characters of a choice's description
)

// The built-in protocols that every search offers besides its matches.
const (
	createUUID = "00000000-0000-0000-0000-000000002001"
	refineUUID = "00000000-0000-0000-0000-000000002002"
)

// ExplainedSearch is a search with the reasons of its matches.
type ExplainedSearch struct {
	api.SearchReply
	Explained []Explanation `json:"explained"` // in the order of the matches
}

// Explanation is why a protocol matched.
type Explanation struct {
	URI        string  `json:"uri"`
	ChainLabel string  `json:"chain_label"`
	Score      float64 `json:"score"`
	Why        []Match `json:"why"`
}

// Search finds protocols. It always offers to refine the search and to write a
// missing protocol.
func (l *Library) Search(ctx context.Context, c access.Caller, in api.SearchRequest) (_ api.SearchReply, err error) {
	defer operated(l.opt.Observer, OperationSearch, c, time.Now(), &err)
	ctx = access.InSpace(ctx, c.Space)
	reply, _, err := l.finder.search(ctx, c, in, Query{})
	return reply, err
}

// ExplainSearch is Search with the reasons of every match.
func (l *Library) ExplainSearch(ctx context.Context, c access.Caller, in api.SearchRequest) (ExplainedSearch, error) {
	reply, hits, err := l.finder.search(ctx, c, in, Query{Explain: true})
	out := ExplainedSearch{SearchReply: reply}
	for i, h := range hits {
		out.Explained = append(out.Explained, Explanation{
			URI: reply.Choices[i].URI, ChainLabel: h.Chain.Title, Score: *reply.Choices[i].Score, Why: h.Why,
		})
	}
	return out, err
}

// finder searches the stored protocols.
type finder struct {
	catalog   *catalog
	searcher  Searcher
	meanings  *meanings
	ratings   *rater
	threshold float64 // weaker matches are dropped
}

// search returns the reply and the hits of its matches, in the same order.
func (f finder) search(ctx context.Context, c access.Caller, in api.SearchRequest, q Query) (api.SearchReply, []Hit, error) {
	texts, err := textsOf(in)
	if err != nil {
		return api.SearchReply{}, nil, err
	}
	limit := cmp.Or(in.Limit, defaultMatches)
	if limit < 1 || limit > maxMatches {
		return api.SearchReply{}, nil, fault.New(fault.InvalidArgument, "limit is %d; it must be 1 to %d", limit, maxMatches).
			WithNext("call kairos_search without limit, or with one from 1 to %d", maxMatches)
	}
	if q.Spaces, err = narrow(c, cmp.Or(in.Space, in.SpaceID)); err != nil {
		return api.SearchReply{}, nil, err
	}
	if err := f.catalog.ready(ctx); err != nil {
		return api.SearchReply{}, nil, err
	}
	// Reading the outlines of hits takes longer than finding them.
	q.Limit, q.Explain = limit+maxNearest+besides, true
	hits, wordsOnly, more, err := f.found(ctx, q, texts)
	if err == nil && more && len(hits) <= limit {
		q.Limit = mostHits
		hits, wordsOnly, _, err = f.found(ctx, q, texts)
	}
	if err != nil {
		return api.SearchReply{}, nil, err
	}
	matches := hits[:f.matches(hits)]
	second := 0.0
	if len(matches) > 1 {
		second = matches[1].Score
	}
	sure := len(matches) > 0 && search.Sure(matches[0].Score, second)
	if !sure {
		limit = min(limit, maxUnsure)
	}
	matches = matches[:min(limit, len(matches))]
	for _, h := range matches {
		f.ratings.rateRetrieved(h)
	}
	reply := api.SearchReply{MustObey: true}
	if !sure {
		if reply.Nearest, err = f.nearest(ctx, q.Spaces, matches, hits[len(matches):]); err != nil {
			return api.SearchReply{}, nil, err
		}
	}
	offer(&reply, matches, sure)
	if wordsOnly {
		reply.Message += " Only words were compared: the embedding endpoint did not answer."
	}
	return reply, matches, nil
}

// matches is how many of the hits reach the threshold.
func (f finder) matches(hits []Hit) int {
	n := slices.IndexFunc(hits, func(h Hit) bool { return h.Score < f.threshold })
	if n < 0 {
		return len(hits)
	}
	return n
}

// nearest lists the best of the other hits, and all other protocols of the spaces if there
// are few.
func (f finder) nearest(ctx context.Context, spaces []string, matches, others []Hit) ([]api.Nearest, error) {
	var out []api.Nearest
	listed := map[string]bool{}
	for _, h := range matches {
		listed[protocol.URI(h.Chain.Steps[0].UUID)] = true
	}
	add := func(c protocol.Chain, description, why string) {
		uri := protocol.URI(c.Steps[0].UUID)
		if !listed[uri] && !isMeta(c) {
			listed[uri] = true
			out = append(out, api.Nearest{Title: c.Title, Description: description, URI: uri, Why: why})
		}
	}
	for _, h := range others[:min(maxNearest, len(others))] {
		add(h.Chain, summary(h.Chain), reason(h.Why))
	}
	rest, err := f.catalog.atMost(ctx, spaces, few)
	for _, c := range rest {
		add(c, "", "")
	}
	return out, err
}

// reason says in a few words why a protocol was found.
func reason(why []Match) string {
	var words []string
	meaning := false
	for _, m := range why {
		switch {
		case m.Ranker == search.RankerVector:
			meaning = true
		case len(words) < maxReasons && !slices.Contains(words, m.Found):
			words = append(words, m.Found)
		}
	}
	out := strings.Join(words, ", ")
	switch {
	case out == "":
		return "similar meaning"
	case meaning:
		return "similar meaning, and has " + out
	}
	return "has " + out
}

// textsOf returns the query and its rephrasings, each once.
func textsOf(in api.SearchRequest) ([]string, error) {
	if plain.Empty(in.Query) {
		return nil, fault.New(fault.InvalidArgument, "query must not be blank").
			WithNext("call kairos_search with some words of what the user wants to do")
	}
	if len(in.Queries) > maxQueries {
		return nil, fault.New(fault.InvalidArgument, "there are %d queries; at most %d are allowed", len(in.Queries), maxQueries).
			WithNext("call kairos_search with the %d best of them", maxQueries)
	}
	texts := []string{in.Query}
	for _, text := range in.Queries {
		if !plain.Empty(text) && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// found returns the protocols that match any of the texts, also weakly, each with its best
// score, best first. wordsOnly reports that embeddings should have been compared
// but were not available; more, that a higher limit may find more.
func (f finder) found(ctx context.Context, q Query, texts []string) (hits []Hit, wordsOnly, more bool, err error) {
	at := map[string]int{} // in hits, by the URI of the protocol
	embeddings := f.meanings.of(ctx, texts)
	wordsOnly = f.meanings.embedder != nil && !slices.ContainsFunc(embeddings, func(m *Embedding) bool { return m != nil })
	for i, text := range texts {
		q.Text, q.Embedding = text, embeddings[i]
		found, err := f.searcher.Search(ctx, q)
		if err != nil {
			return nil, false, false, fmt.Errorf("search: %w", err)
		}
		more = more || len(found) == q.Limit && found[len(found)-1].Score >= f.threshold
		for _, h := range found {
			if isMeta(h.Chain) {
				continue
			}
			uri := protocol.URI(h.Chain.Steps[0].UUID)
			if known, again := at[uri]; !again {
				at[uri] = len(hits)
				hits = append(hits, h)
			} else if h.Score > hits[known].Score {
				hits[known] = h
			}
		}
	}
	// Equal scores keep the order of the store for the first text.
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits, wordsOnly, more, nil
}

// isMeta reports whether c is a built-in protocol, which is offered in its own
// role and never as a match.
func isMeta(c protocol.Chain) bool {
	id := c.Steps[0].UUID
	return id == createUUID || id == refineUUID
}

func match(h Hit) api.Choice {
	head := h.Chain.Steps[0]
	uri := protocol.URI(head.UUID)
	score := math.Round(min(max(h.Score, 0), 1)*100) / 100
	title := h.Chain.Title
	return api.Choice{
		ChainLabel: &title, URI: uri, Label: head.Label, Score: &score, Role: "match", Tags: []string{},
		NextAction: api.BeginAction(uri, h.Chain.Inputs),
	}
}

// summary is the first line of a protocol's description, cut to maxSummary characters.
func summary(c protocol.Chain) string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Description), "\n")
	line = strings.Join(strings.Fields(line), " ")
	if short := beginning(line, maxSummary); len(short) < len(line) {
		return strings.TrimSpace(beginning(line, maxSummary-1)) + "…"
	}
	return line
}

// offer offers the matches, best first. It prefills a call where following it is always
// right: begin a sure match, or refine a search that found nothing.
func offer(r *api.SearchReply, matches []Hit, sure bool) {
	for _, h := range matches {
		r.Choices = append(r.Choices, match(h))
	}
	switch {
	case sure:
		r.Confidence = api.ConfidenceSure
		r.Message = foundMessage(len(matches)) + " The first match fits."
		r.NextAction = "follow the first choice's next_action"
		r.NextCall = api.BeginCall(r.Choices[0].URI, matches[0].Chain.Inputs)
	case len(matches) > 0:
		r.Confidence = api.ConfidencePerhaps
		for i, h := range matches {
			r.Choices[i].Description = summary(h.Chain)
		}
		r.Message = foundMessage(len(matches)) + " No match is sure."
		if len(r.Nearest) > 0 {
			r.Message += " nearest lists weaker ones; none of these may fit."
		}
		r.NextAction = "if a choice is exactly what the user wants, follow that choice's next_action; otherwise refine or create"
	case len(r.Nearest) > 0:
		r.Confidence = api.ConfidenceWeak
		r.Message = "No protocol matches well. nearest lists others; none of these may fit."
		r.NextAction = "if one of nearest is exactly what the user wants, call kairos_begin with its uri; otherwise follow a choice's next_action: refine or create"
	default:
		r.Confidence = api.ConfidenceNone
		r.Message = "No protocol matches."
		r.NextAction = "follow one choice's next_action: refine the search, or create the protocol"
		r.NextCall = api.BeginCall(protocol.URI(refineUUID), nil)
	}
	r.Choices = append(r.Choices, refineChoice(), createChoice())
}

// foundMessage counts the matches, as clients of the earlier server know it.
func foundMessage(n int) string {
	if n == 1 {
		return "Found 1 match."
	}
	return fmt.Sprintf("Found %d matches.", n)
}

func refineChoice() api.Choice {
	uri := protocol.URI(refineUUID)
	return api.Choice{
		URI: uri, Label: "Get help refining your search", Role: "refine", Tags: []string{"meta", "refine"},
		NextAction: api.BeginAction(uri, nil),
	}
}

func createChoice() api.Choice {
	uri, title := protocol.URI(createUUID), "Create New KAIROS Protocol Chain"
	return api.Choice{
		ChainLabel: &title, URI: uri, Label: title, Role: "create", Tags: []string{"meta", "creation"},
		NextAction: api.BeginAction(uri, nil),
	}
}
