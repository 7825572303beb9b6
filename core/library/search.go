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
	maxReasons = 3 // words that say why a weaker match was found
	// leastMeaning is how near a protocol is whose meaning is said to be similar.
	leastMeaning = 0.3
)

// The built-in protocols that every search offers besides its matches.
const (
	createUUID = "00000000-0000-0000-0000-000000002001"
	refineUUID = "00000000-0000-0000-0000-000000002002"
)

// ExplainedSearch is a search with the reasons for what it found.
type ExplainedSearch struct {
	api.SearchReply
	Explained []Explanation `json:"explained"` // the matches, and what is nearest for a reason
}

// Explanation is why a protocol has its score.
type Explanation struct {
	URI        string  `json:"uri"`
	ChainLabel string  `json:"chain_label"`
	Score      float64 `json:"score"`
	search.Why
}

// Search finds protocols. It always offers to refine the search and to write a
// missing protocol.
func (l *Library) Search(ctx context.Context, c access.Caller, in api.SearchRequest) (_ api.SearchReply, err error) {
	defer operated(l.opt.Observer, OperationSearch, c, time.Now(), &err)
	ctx = access.InSpace(ctx, c.Space)
	reply, _, err := l.finder.search(ctx, c, in)
	return reply, err
}

// ExplainSearch is Search with the reasons for every score.
func (l *Library) ExplainSearch(ctx context.Context, c access.Caller, in api.SearchRequest) (ExplainedSearch, error) {
	reply, found, err := l.finder.search(ctx, c, in)
	out := ExplainedSearch{SearchReply: reply}
	for _, f := range slices.Concat(found.Choices, reasoned(found.Nearest)) {
		out.Explained = append(out.Explained, Explanation{protocol.URI(f.UUID), f.Title, f.Score, f.Why})
	}
	return out, err
}

// finder searches the stored protocols.
type finder struct {
	catalog   *catalog
	searcher  Searcher
	meanings  *meanings
	ratings   *rater
	threshold float64 // weaker matches are not choices
}

func (f finder) search(ctx context.Context, c access.Caller, in api.SearchRequest) (api.SearchReply, search.Answer, error) {
	q, err := f.queryOf(c, in)
	if err != nil {
		return api.SearchReply{}, search.Answer{}, err
	}
	if err := f.catalog.ready(ctx); err != nil {
		return api.SearchReply{}, search.Answer{}, err
	}
	q.Model, q.Vectors = f.meanings.of(ctx, q.Texts)
	found, err := f.searcher.Search(ctx, q)
	if err != nil {
		return api.SearchReply{}, search.Answer{}, fmt.Errorf("search: %w", err)
	}
	for _, h := range found.Choices {
		f.ratings.rateRetrieved(h)
	}
	reply := replyOf(found)
	if f.meanings.embedder != nil && q.Model == "" {
		reply.Message += " Only words were compared: the embedding endpoint did not answer."
	}
	return reply, found, nil
}

// queryOf is the request without its meaning.
func (f finder) queryOf(c access.Caller, in api.SearchRequest) (q Query, err error) {
	q.Request = search.Request{
		Threshold: f.threshold, Choices: cmp.Or(in.Limit, defaultMatches), Unsure: maxUnsure, Nearest: maxNearest,
		Except: []string{createUUID, refineUUID}, // which are offered in roles of their own
	}
	if q.Choices < 1 || q.Choices > maxMatches {
		return q, fault.New(fault.InvalidArgument, "limit is %d; it must be 1 to %d", q.Choices, maxMatches).
			WithNext("call kairos_search without limit, or with one from 1 to %d", maxMatches)
	}
	if q.Texts, err = textsOf(in); err != nil {
		return q, err
	}
	q.Spaces, err = narrow(c, cmp.Or(in.Space, in.SpaceID))
	return q, err
}

// reasoned are those of what is nearest that are listed for a reason, not because there
// are few protocols.
func reasoned(nearest []search.Found) []search.Found {
	n := slices.IndexFunc(nearest, func(f search.Found) bool { return f.Score <= 0 })
	if n < 0 {
		n = len(nearest)
	}
	return nearest[:min(n, maxNearest)]
}

// nearestOf lists protocols that may not fit.
func nearestOf(found []search.Found) []api.Nearest {
	var out []api.Nearest
	for _, f := range reasoned(found) {
		out = append(out, api.Nearest{Title: f.Title, Description: f.Line, URI: protocol.URI(f.UUID), Why: reason(f.Why)})
	}
	for _, f := range found[len(out):] {
		out = append(out, api.Nearest{Title: f.Title, URI: protocol.URI(f.UUID)})
	}
	return out
}

// reason says in a few words why a protocol was found.
func reason(why search.Why) string {
	var words []string
	for _, m := range why.Matches {
		if m.Ranker != search.RankerVector && len(words) < maxReasons && !slices.Contains(words, m.Found) {
			words = append(words, m.Found)
		}
	}
	out := strings.Join(words, ", ")
	switch {
	case out == "":
		return "similar meaning"
	case why.Meaning >= leastMeaning:
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

func match(f search.Found) api.Choice {
	uri := protocol.URI(f.UUID)
	score := math.Round(min(max(f.Score, 0), 1)*100) / 100
	return api.Choice{
		ChainLabel: &f.Title, URI: uri, Label: f.Label, Score: &score, Role: "match", Tags: []string{},
		NextAction: api.BeginAction(uri, f.Inputs),
	}
}

// replyOf offers what was found, best first. It prefills a call where following it is
// always right: begin a sure match, or refine a search that found nothing.
func replyOf(found search.Answer) api.SearchReply {
	r := api.SearchReply{MustObey: true, Confidence: api.Confidence(found.Confidence), Nearest: nearestOf(found.Nearest)}
	for _, f := range found.Choices {
		r.Choices = append(r.Choices, match(f))
	}
	switch found.Confidence {
	case search.ConfidenceSure:
		r.Message = foundMessage(len(found.Choices)) + " The first match fits."
		r.NextAction = "follow the first choice's next_action"
		r.NextCall = api.BeginCall(r.Choices[0].URI, found.Choices[0].Inputs)
	case search.ConfidencePerhaps:
		for i, f := range found.Choices {
			r.Choices[i].Description = f.Line
		}
		r.Message = foundMessage(len(found.Choices)) + " No match is sure."
		if len(r.Nearest) > 0 {
			r.Message += " nearest lists weaker ones; none of these may fit."
		}
		r.NextAction = "if a choice is exactly what the user wants, follow that choice's next_action; otherwise refine or create"
	case search.ConfidenceWeak:
		r.Message = "No protocol matches well. nearest lists others; none of these may fit."
		r.NextAction = "if one of nearest is exactly what the user wants, call kairos_begin with its uri; otherwise follow a choice's next_action: refine or create"
	case search.ConfidenceNone:
		r.Message = "No protocol matches."
		r.NextAction = "follow one choice's next_action: refine the search, or create the protocol"
		r.NextCall = api.BeginCall(protocol.URI(refineUUID), nil)
	}
	r.Choices = append(r.Choices, refineChoice(), createChoice())
	return r
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
