package library_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
)

func (w *world) prompts(c access.Caller) []api.Prompt {
	w.t.Helper()
	all, err := w.Prompts(w.t.Context(), c, "contextual-prompt")
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func promptNames(all []api.Prompt) (out []string) {
	for _, p := range all {
		out = append(out, p.Name)
	}
	return out
}

const oneStep = "\n\n## One\n\nx\n"

func TestAPromptHasTheInputsThatItsProtocolDeclares(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("---\ndescription: Makes a version public. Needed on Fridays.\n---\n# Release a version\n\n```json\n" + `{"inputs": {"type": "object", "required": ["version"], "properties": {
		"version": {"type": "string", "description": "As in 1.2.0"}, "attempts": {"type": "integer"}, "dry_run": {"type": "boolean"},
		"channel": {"type": ["string", "null"], "enum": ["stable", "beta"]}, "about": true,
		"people": {"type": "array", "items": {"type": "string"}}, "sizes": {"type": "array", "items": true}}}}` + "\n```\n\nBuilds it,\nand publishes it.\n\nMore." + oneStep)
	want := api.Prompt{
		Name: "release-a-version", Title: "Release a version", Description: "Makes a version public.", URI: uris[0],
		Arguments: []api.PromptArgument{
			{Name: "version", Description: "As in 1.2.0", Required: true, Kind: api.ArgumentText}, {Name: "attempts", Kind: api.ArgumentJSON},
			{Name: "dry_run", Kind: api.ArgumentJSON, Values: []string{"true", "false"}}, {Name: "channel", Kind: api.ArgumentText, Values: []string{"stable", "beta"}},
			{Name: "about", Kind: api.ArgumentText}, {Name: "people", Kind: api.ArgumentList}, {Name: "sizes", Kind: api.ArgumentJSON},
		},
	}
	if diff := cmp.Diff(want, w.prompts(w.caller)[0]); diff != "" {
		t.Errorf("prompt (-want +got):\n%s", diff)
	}
}

func TestNamesOfPromptsAreUniqueAndStay(t *testing.T) {
	w := newWorld(t, nil)
	group := access.Caller{Principal: "you", Space: "group:test:ours"}
	both := w.caller
	both.Groups = []string{group.Space}
	mint := func(c access.Caller, title string) {
		if _, err := w.Mint(t.Context(), c, api.MintRequest{Document: "# " + title + oneStep, ModelID: "m", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	mint(group, "Deploy")
	mint(w.caller, "Contextual prompt")
	mint(w.caller, "日本語")
	mint(w.caller, "Größe prüfen")
	long := strings.Repeat("very long title ", 10)
	mint(w.caller, long)
	before := promptNames(w.prompts(both))
	mint(w.caller, "Deploy")
	mint(w.caller, "De-ploy!")
	mint(w.caller, "de ploy")
	after := promptNames(w.prompts(both))
	for _, name := range before {
		if name != "deploy" && !slices.Contains(after, name) {
			t.Errorf("the prompt %s is gone: %v", name, after)
		}
	}
	seen := map[string]bool{"contextual-prompt": true}
	for _, name := range after {
		if seen[name] || len(name) > 60 || strings.Trim(name, "日本語abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("the name %q is taken, long or cannot be typed", name)
		}
		seen[name] = true
	}
	if !seen["deploy"] || !seen["de-ploy"] || !seen["日本語"] || !seen["groesse-pruefen"] {
		t.Errorf("names = %v, want the plain ones too", after)
	}
	if again := promptNames(w.prompts(both)); !slices.Equal(after, again) {
		t.Errorf("names = %v, then %v", after, again)
	}
}

func TestPromptsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	var inputs strings.Builder
	for i := range 40 {
		fmt.Fprintf(&inputs, `,"i%02d":{}`, i)
	}
	w.mint("# A\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{" + inputs.String()[1:] + "}}}\n```\n\n" + strings.Repeat("word ", 500) + oneStep)
	var documents strings.Builder
	for i := range library.MaxPrompts {
		fmt.Fprintf(&documents, "# Protocol %03d%s\n", i, oneStep)
	}
	w.mint(documents.String())
	all := w.prompts(w.caller)
	if len(all) != library.MaxPrompts || len(all[0].Arguments) != 16 || len(all[0].Description) > 310 {
		t.Errorf("%d prompts, the first with %d arguments and %d bytes", len(all), len(all[0].Arguments), len(all[0].Description))
	}
}

func TestEveryChangeOfProtocolsIsReportedWithItsSpace(t *testing.T) {
	var mu sync.Mutex
	var changed []string
	w := newWorld(t, func(c *library.Options) {
		c.Changed = func(space string) {
			mu.Lock()
			defer mu.Unlock()
			changed = append(changed, space)
		}
	})
	took := func(do func() error) []string {
		changed = nil
		if err := do(); err != nil {
			t.Fatal(err)
		}
		return changed
	}
	var uri string
	for name, do := range map[string]func() error{
		"mint": func() error { uri = w.mint("# A" + oneStep + "\n# B" + oneStep)[0]; return nil },
		"update": func() error {
			_, err := w.Update(t.Context(), w.caller, api.UpdateRequest{URIs: []string{uri}, Documents: []string{"## One\n\ny"}})
			return err
		},
		"import": func() error {
			_, err := w.Import(t.Context(), w.caller, library.ImportInput{Space: "personal", Items: []library.ImportItem{{Document: "# C" + oneStep}}})
			return err
		},
		"delete": func() error {
			_, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{uri}})
			return err
		},
	} {
		if uri == "" {
			uri = w.mint("# A" + oneStep)[0]
		}
		if got := took(do); !slices.Contains(got, w.caller.Space) || len(slices.Compact(got)) != 1 {
			t.Errorf("%s changed %v, want %s", name, got, w.caller.Space)
		}
		uri = w.mint("# A" + oneStep)[0]
	}
	if got := took(func() error { _, err := w.Spaces(t.Context(), w.caller, api.SpacesRequest{}); return err }); len(got) != 0 {
		t.Errorf("reading changed %v", got)
	}
}

// Clients load the whole menu when they connect, and some show all of it to their model.
func TestTheMenuOfPromptsIsShort(t *testing.T) {
	w := newWorld(t, nil)
	examples, err := filepath.Glob("../../examples/*.md")
	if err != nil || len(examples) < 8 {
		t.Fatalf("examples: %q, %v", examples, err)
	}
	for _, path := range examples {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == "README.md" {
			continue
		}
		if _, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: string(text), ModelID: "m", Force: true}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	type argument struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Required    bool   `json:"required,omitempty"`
	}
	type prompt struct {
		Name        string     `json:"name"`
		Title       string     `json:"title,omitempty"`
		Description string     `json:"description"`
		Arguments   []argument `json:"arguments,omitempty"`
	}
	var list []prompt // as prompts/list has it
	for _, p := range w.prompts(w.caller) {
		one := prompt{Name: p.Name, Description: p.Description}
		if !strings.EqualFold(strings.ReplaceAll(p.Title, " ", "-"), p.Name) {
			one.Title = p.Title
		}
		for _, a := range p.Arguments {
			one.Arguments = append(one.Arguments, argument{a.Name, a.Description, a.Required})
		}
		list = append(list, one)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	const policy = 330 // the prompt that is always there
	t.Logf("%d prompts have %d bytes: %s", len(list), len(text), text)
	if len(text)+policy > 3<<10 {
		t.Errorf("the prompts of the examples have %d bytes, want at most 3 KB with the one that is always there", len(text))
	}
}
