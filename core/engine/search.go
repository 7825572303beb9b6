package engine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// maxChoices bounds the matches of a search.
const maxChoices = 10

// The built-in protocols that every search offers besides its matches.
const (
	createUUID = "00000000-0000-0000-0000-000000002001"
	refineUUID = "00000000-0000-0000-0000-000000002002"
)

// Search finds protocols. There is always a choice: to refine the search, or
// to write the protocol that is missing.
func (e *Engine) Search(ctx context.Context, c Caller, in SearchInput) (_ SearchReply, err error) {
	defer e.operated(OperationSearch, c, time.Now(), &err)
	ctx = inSpace(ctx, c.Space)
	reply, _, err := e.search(ctx, c, in, Query{})
	return reply, err
}

// ExplainSearch is Search that says for each match why it is one.
func (e *Engine) ExplainSearch(ctx context.Context, c Caller, in SearchInput) (ExplainedSearch, error) {
	reply, hits, err := e.search(ctx, c, in, Query{Explain: true})
	out := ExplainedSearch{SearchReply: reply}
	for i, h := range hits {
		out.Explained = append(out.Explained, Explanation{
			URI: reply.Choices[i].URI, ChainLabel: h.Chain.Title, Score: *reply.Choices[i].Score, Why: h.Why,
		})
	}
	return out, err
}

// search returns the reply and the hits that its first choices are.
func (e *Engine) search(ctx context.Context, c Caller, in SearchInput, q Query) (SearchReply, []Hit, error) {
	if strings.TrimSpace(in.Query) == "" {
		return SearchReply{}, nil, fault.New(fault.InvalidArgument, "query must not be blank").
			WithNext("call kairos_search with some words of what the user wants to do")
	}
	spaces, err := narrow(c, in.Space)
	if err != nil {
		return SearchReply{}, nil, err
	}
	if err := e.ready(ctx); err != nil {
		return SearchReply{}, nil, err
	}
	q.Text, q.Spaces, q.Limit, q.Embedding = in.Query, spaces, 2*maxChoices, e.meaningOf(ctx, in.Query)
	found, err := e.store.Searcher.Search(ctx, q)
	if err != nil {
		return SearchReply{}, nil, fmt.Errorf("search: %w", err)
	}
	var choices []Choice
	var hits []Hit
	for _, h := range found {
		if h.Score < e.opt.ScoreThreshold || isMeta(h.Chain) || len(choices) == maxChoices {
			continue
		}
		choices, hits = append(choices, match(h)), append(hits, h)
		e.rateRetrieved(h)
	}
	reply := searchReply(choices)
	if q.Embedding == nil && e.opt.Embedder != nil {
		reply.Message += " Only words were compared: the embedding endpoint did not answer."
	}
	return reply, hits, nil
}

// isMeta: the two built-ins are offered in their own roles, never as matches.
func isMeta(c protocol.Chain) bool {
	id := c.Steps[0].UUID
	return id == createUUID || id == refineUUID
}

func match(h Hit) Choice {
	head := h.Chain.Steps[0]
	uri := protocol.URI(head.UUID)
	score := math.Round(min(max(h.Score, 0), 1)*1000) / 1000
	title := h.Chain.Title
	tags := h.Chain.Steps[min(h.Step, len(h.Chain.Steps)-1)].Tags
	return Choice{
		URI: uri, Label: head.Label, ChainLabel: &title, Score: &score, Role: "match", Tags: orEmpty(tags),
		NextAction: fmt.Sprintf("call kairos_begin with %s to run this protocol", uri),
		NextCall:   beginCall(uri),
	}
}

// orEmpty keeps null out of replies, whose readers expect a list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func searchReply(matches []Choice) SearchReply {
	r := SearchReply{
		MustObey: true, Choices: append(matches, refineChoice(), createChoice()),
		NextAction: "pick the choice that fits what the user wants and follow that choice's next_action",
	}
	r.NextCall = r.Choices[0].NextCall
	switch n := len(matches); n {
	case 0:
		r.Message = "No protocol matches. Refine the search, or create the protocol."
	case 1:
		r.Message = fmt.Sprintf("One protocol matches (%d%%).", percent(matches[0]))
		r.NextAction = fmt.Sprintf("follow the choice's next_action: %s; if it is not what the user wants, refine or create", matches[0].NextAction)
	default:
		r.Message = fmt.Sprintf("%d protocols match; the best at %d%%.", n, percent(matches[0]))
	}
	return r
}

func percent(c Choice) int { return int(math.Round(*c.Score * 100)) }

func refineChoice() Choice {
	uri := protocol.URI(refineUUID)
	return Choice{
		URI: uri, Label: "Get help refining your search", ChainLabel: nil, Role: "refine", Tags: []string{"meta", "refine"},
		NextAction: fmt.Sprintf("call kairos_begin with %s to work out a better search", uri),
		NextCall:   beginCall(uri),
	}
}

func createChoice() Choice {
	uri, title := protocol.URI(createUUID), "Create New KAIROS Protocol Chain"
	return Choice{
		URI: uri, Label: title, ChainLabel: &title, Role: "create", Tags: []string{"meta", "creation"},
		NextAction: fmt.Sprintf("call kairos_begin with %s to write a protocol for it", uri),
		NextCall:   beginCall(uri),
	}
}
