package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/prompt"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

const (
	// maxReference is how many characters of a step's text a comment is compared with.
	maxReference = 8000
	// minReference is the shortest step text that says enough to compare with.
	minReference = 20

	methodEmbedding = "embedding"
	methodVectors   = "word-vectors"
	methodLexical   = "lexical"
	methodNone      = "none"
)

// config is the driver's configuration.
type config struct {
	Embedding float64       `json:"embedding_threshold" default:"0.25" min:"0" max:"1" doc:"least similarity of comment and step when an embedding endpoint is configured"`
	Vectors   *float64      `json:"word_vectors_threshold" min:"0" max:"1" doc:"least similarity by word vectors, used without an endpoint where they have 80 % of the words; not set: recorded, not enforced"`
	Lexical   *float64      `json:"lexical_threshold" min:"0" max:"1" doc:"least similarity by words, which are compared else; not set: recorded, not enforced"`
	Prompt    prompt.Config `json:"prompt" doc:"how a model is asked for the comment"`
}

// comment is the driver. It is safe for concurrent use.
type comment struct {
	*settings.Of[config]
}

func newComment() comment { return comment{settings.New[config]()} }

// relevance is how a comment was compared with its step, as the proof tells it.
type relevance struct {
	Method    string   `json:"method"` // embedding, word-vectors, lexical or none
	Score     *float64 `json:"score,omitempty"`
	Threshold *float64 `json:"threshold,omitempty"`
	Enforced  bool     `json:"enforced"`
	Reason    string   `json:"reason,omitempty"` // why there is no score, or one of words
}

// refuses reports whether the comment is not about the step.
func (r relevance) refuses() bool { return r.Enforced && *r.Score < *r.Threshold }

type proof struct {
	Type      string    `json:"type"`
	Text      string    `json:"text"`
	MinLength int       `json:"min_length"`
	Relevance relevance `json:"relevance"`
}

// judge decides on a comment that is long enough and no copy.
func (c comment) judge(text string, p params, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	reference := firstRunes(body(req.Step.Text), maxReference)
	if utf8.RuneCountInString(reference) < minReference {
		return accept(text, p, relevance{Method: methodNone, Reason: "the step's text is too short to compare with"})
	}
	answer, found := req.Answer(relevanceID)
	if !found {
		return driver.Need(driver.Input{
			ID: relevanceID, Kind: driver.KindSimilarity, Type: typeName,
			Description: "How close the comment is to the text of the step.",
			Similarity:  &driver.Similarity{Text: firstRunes(text, maxReference), Reference: reference},
		}), nil
	}
	measured, err := c.measured(answer.Value)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	if measured.refuses() {
		return driver.Reject(codeIrrelevant, fmt.Sprintf(
			"The comment does not seem to be about this step (similarity %.2f by %s, at least %.2f is needed). "+
				"Say what was really done in this step and what came of it; do not make it up.",
			*measured.Score, measured.Method, *measured.Threshold)), nil
	}
	return accept(text, p, measured)
}

func (c comment) measured(value json.RawMessage) (relevance, error) {
	var v struct {
		Score  *float64 `json:"score"`
		Method string   `json:"method"`
		Reason string   `json:"reason"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return relevance{}, fmt.Errorf("similarity value: %w", err)
	}
	if v.Score == nil || *v.Score < 0 || *v.Score > 1 || v.Method == "" {
		return relevance{}, fmt.Errorf("similarity value: want a score from 0 to 1 and a method")
	}
	r := relevance{Method: v.Method, Score: v.Score, Reason: v.Reason}
	switch v.Method {
	case methodEmbedding:
		threshold := c.Now().Embedding
		r.Threshold = &threshold
	case methodVectors:
		r.Threshold = c.Now().Vectors
	case methodLexical:
		r.Threshold = c.Now().Lexical
	}
	r.Enforced = r.Threshold != nil
	return r, nil
}

// output is what later steps see.
type output struct {
	Text string `json:"text" doc:"the comment"`
}

func accept(text string, p params, r relevance) (driver.AdvanceResult, error) {
	recorded, err := json.Marshal(proof{Type: typeName, Text: text, MinLength: p.MinLength, Relevance: r})
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	output, err := json.Marshal(output{text})
	return driver.Accept(recorded, output), err
}

// body is the step's text without its heading line.
func body(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "#") {
		return text
	}
	_, rest, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(rest)
}
