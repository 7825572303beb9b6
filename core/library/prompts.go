package library

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Limits of prompts. Clients load the whole list when they connect and show it as a
// menu, so it must stay one that a person can read.
const (
	MaxPrompts         = 100 // kairos_search finds the other protocols
	maxPromptArguments = 16
	maxPromptTitle     = 200 // bytes
	maxPromptText      = 300 // bytes of a description of an argument
	maxPromptLine      = 64  // bytes of a description of a prompt
	maxPromptName      = 50  // bytes, without the digits that make it unique
)

// Prompts lists the protocols that a caller can start from a menu: at most MaxPrompts
// of the spaces it reads, its own first, each by title.
//
// The name is the slug of the front matter, or of the title. If another protocol in the
// list has it already, or it is one of reserved, digits that depend only on the
// protocol's space and title follow.
func (l *Library) Prompts(ctx context.Context, c access.Caller, reserved ...string) ([]api.Prompt, error) {
	if err := l.catalog.ready(ctx); err != nil {
		return nil, err
	}
	var out []api.Prompt
	taken := make(map[string]bool)
	for _, name := range reserved {
		taken[name] = true
	}
	for _, space := range c.Spaces() {
		if len(out) == MaxPrompts {
			break
		}
		chains, _, err := l.catalog.protocols.List(ctx, space, "", MaxPrompts-len(out))
		if err != nil {
			return nil, fmt.Errorf("list space %s: %w", space, err)
		}
		for _, chain := range chains {
			p := promptOf(chain)
			if taken[p.Name] {
				p.Name = uniqueName(p.Name, chain)
			}
			taken[p.Name] = true
			out = append(out, p)
		}
	}
	return out, nil
}

func promptOf(chain protocol.Chain) api.Prompt {
	title := plain.LineWithin(chain.Title, maxPromptTitle)
	return api.Prompt{
		Name: promptName(chain), Title: title, URI: protocol.URI(chain.Steps[0].UUID),
		Description: cmp.Or(firstSentence(chain.Summary), firstSentence(chain.Description), fmt.Sprintf("Run the protocol %q", title)),
		Arguments:   promptArguments(chain.Inputs),
	}
}

// promptName is a name that a person can type. A title without letters and digits
// gets one that is unique at once.
func promptName(chain protocol.Chain) string {
	if name := protocol.Hyphenated(cmp.Or(chain.Slug, chain.Title), maxPromptName); name != "" {
		return name
	}
	return uniqueName("protocol", chain)
}

// uniqueName depends on nothing but the protocol, so that it stays when others come
// and go.
func uniqueName(name string, chain protocol.Chain) string {
	sum := sha256.Sum256([]byte(chain.Space + "\x00" + chain.ID))
	return name + "-" + hex.EncodeToString(sum[:4])
}

// firstSentence returns the first sentence of Markdown: what the protocol is for. The menu
// has one for each protocol, and some clients show all of it to their model.
func firstSentence(markdown string) string {
	paragraph := firstParagraph(markdown)
	for at := range paragraph {
		if at >= shortestSentence && strings.HasPrefix(paragraph[at:], ". ") {
			paragraph = paragraph[:at+1]
			break
		}
	}
	return plain.LineWithin(paragraph, maxPromptLine)
}

// shortestSentence is how many bytes a sentence has at least: what ends before is an
// abbreviation.
const shortestSentence = 20

// firstParagraph returns the first paragraph of Markdown as one line.
func firstParagraph(markdown string) string {
	var lines []string
	fenced := false
	for line := range strings.Lines(markdown) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			fenced = !fenced
			line = ""
		case fenced, strings.HasPrefix(line, "#"):
			line = ""
		}
		if line == "" && len(lines) > 0 {
			break
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return plain.LineWithin(strings.Join(lines, " "), maxPromptText)
}

// promptArguments returns the declared inputs; nil if the schema names none.
func promptArguments(schema json.RawMessage) []api.PromptArgument {
	var declared struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &declared) != nil {
		return nil
	}
	var out []api.PromptArgument
	for name, property := range members(declared.Properties) {
		if len(out) == maxPromptArguments {
			break
		}
		a := promptArgument(property)
		a.Name, a.Required = name, slices.Contains(declared.Required, name)
		out = append(out, a)
	}
	return out
}

func promptArgument(schema json.RawMessage) api.PromptArgument {
	var s struct {
		Type        any             `json:"type"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Enum        []any           `json:"enum"`
		Items       json.RawMessage `json:"items"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return api.PromptArgument{Kind: api.ArgumentText} // true, or a schema of another shape
	}
	a := api.PromptArgument{Description: plain.LineWithin(cmp.Or(s.Description, s.Title), maxPromptText), Kind: api.ArgumentJSON}
	types, several := s.Type.([]any)
	var item struct {
		Type any `json:"type"`
	}
	_ = json.Unmarshal(s.Items, &item) // none, or a schema of another shape
	switch {
	case s.Type == nil, s.Type == "string", several && slices.Contains(types, any("string")):
		a.Kind = api.ArgumentText
	case s.Type == "array" && item.Type == "string":
		a.Kind = api.ArgumentList
	}
	if s.Type == "boolean" {
		a.Values = []string{"true", "false"}
	}
	for _, v := range s.Enum {
		a.Values = append(a.Values, fmt.Sprint(v))
	}
	return a
}

// members yields the members of a JSON object in the order in which they are written.
func members(object json.RawMessage) func(yield func(string, json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		d := json.NewDecoder(bytes.NewReader(object))
		if open, err := d.Token(); err != nil || open != json.Delim('{') {
			return
		}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return
			}
			var value json.RawMessage
			if d.Decode(&value) != nil || !yield(fmt.Sprint(name), value) {
				return
			}
		}
	}
}
