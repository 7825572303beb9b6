package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// locate returns the URI to begin with.
func (p *play) locate(ctx context.Context) (string, error) {
	cfg := p.host.cfg
	switch {
	case cfg.Document != "":
		return p.mint(ctx, cfg.Document)
	case cfg.Query != "":
		return p.search(ctx, cfg.Query)
	}
	return cfg.URI, nil
}

func (p *play) mint(ctx context.Context, document string) (string, error) {
	raw, err := p.call(ctx, "kairos_mint", map[string]any{
		"markdown_doc": document, "llm_model_id": modelID, "force_update": true,
	})
	if err != nil {
		return "", err
	}
	var minted struct {
		Items []struct {
			URI string `json:"uri"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &minted); err != nil || len(minted.Items) == 0 {
		return "", fmt.Errorf("kairos_mint stored nothing: %s", clip(string(raw)))
	}
	return minted.Items[0].URI, nil
}

func (p *play) search(ctx context.Context, query string) (string, error) {
	raw, err := p.call(ctx, "kairos_search", map[string]any{"query": query})
	if err != nil {
		return "", err
	}
	var found struct {
		Confidence string `json:"confidence"`
		Choices    []struct {
			URI        string  `json:"uri"`
			ChainLabel *string `json:"chain_label"`
			Role       string  `json:"role"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(raw, &found); err != nil {
		return "", fmt.Errorf("decode the search result: %w", err)
	}
	// Best first; the choices that are not matches offer help, not a protocol.
	var matches []string
	for _, c := range found.Choices {
		if c.Role != "match" || c.ChainLabel == nil {
			continue
		}
		if found.Confidence == "sure" {
			p.host.console.say("found: %s (%s)", *c.ChainLabel, c.URI)
			return c.URI, nil
		}
		matches = append(matches, fmt.Sprintf("%q (%s)", *c.ChainLabel, c.URI))
	}
	if len(matches) == 0 {
		return "", &StopError{Code: StopNotFound, Message: fmt.Sprintf("no protocol matches %q", query)}
	}
	return "", &StopError{
		Code: StopNotFound, Message: fmt.Sprintf("it is not certain which protocol %q means; perhaps %s", query, strings.Join(matches, " or ")),
		NextAction: "name the protocol by its exact title or its URI",
	}
}
