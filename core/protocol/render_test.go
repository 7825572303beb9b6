package protocol_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var ignoreLines = cmpopts.IgnoreFields(protocol.Step{}, "Line", "ChallengeLine", "Anchors", "Lookalike")

// chains draws chains as they are stored.
func chains() *rapid.Generator[protocol.Chain] {
	return rapid.Custom(func(t *rapid.T) protocol.Chain {
		c := protocol.Chain{
			Title:       rapid.StringMatching(`[A-Za-zé][A-Za-z0-9 :*_]{0,20}[a-z]`).Draw(t, "title"),
			Description: strings.Join(rapid.SliceOfN(blocks(), 0, 3).Draw(t, "description"), "\n\n"),
		}
		c.ID = protocol.ChainID(c.Title)
		if f := fronts().Draw(t, "front"); f.raw != "" {
			c.FrontMatter, c.Slug, c.Version, c.Tags, c.AltTitle = f.raw, f.slug, f.version, f.tags, f.title
		}
		labels := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}( [a-z]{1,8})?`), 1, 5, rapid.ID).Draw(t, "labels")
		for _, label := range labels {
			heading := rapid.SampledFrom([]string{"", "", "Step 3: ", "3-", "1.1.", "500 - ", "7) ", "12:", "2026-01-"}).Draw(t, "number")
			if strings.HasSuffix(heading, ":") || strings.HasSuffix(heading, "1-") {
				label = "30 " + label
			}
			heading += label
			body := rapid.SliceOfN(blocks(), 0, 4).Draw(t, "body")
			s := protocol.Step{
				Label:     label,
				Name:      protocol.Slug(label),
				Text:      strings.Join(append([]string{"## " + heading}, body...), "\n\n"),
				Challenge: challenges().Draw(t, "challenge"),
			}
			s.Tags = protocol.Tags(s)
			c.Steps = append(c.Steps, s)
		}
		return c
	})
}

// blocks draws Markdown that a careless parser takes for structure.
func blocks() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"text", "two\nlines", "### Deep", "- a\n- b\n\n  ## in a list", "> # quoted", "* * *", "    ## code",
		"```sh\n# no heading\n## nor this\n```", "~~~\n```\n## no\n~~~", "````md\n```\n# x\n```\n````",
		"<!--\n# x\n-->", "<div>\n## html\n</div>", "```json\n{\"example\": true}\n```", "#hash", "\\# escaped", "[a]: b", "end\\",
		"| a |\n| - |", "{{ input.x }}", "1. one\n\n   ```\n   ## x\n   ```",
	})
}

func challenges() *rapid.Generator[json.RawMessage] {
	return rapid.SampledFrom([]json.RawMessage{
		nil, json.RawMessage(`{}`), json.RawMessage(`{"type":"x","x":{"n":1.50,"s":"` + "```" + `\n## x"}}`),
		json.RawMessage("{\n    \"type\": \"x\",\n\n    \"required\": false\n  }"),
	})
}

// front is front matter and what it says.
type front struct {
	raw, slug, version, title string
	tags                      []string
}

func fronts() *rapid.Generator[front] {
	return rapid.SampledFrom([]front{
		{},
		{raw: "slug: a-b", slug: "a-b"},
		{raw: "# of ours\ntitle:  'Another: # title'   # why\nversion: 1.10\n\n", title: "Another: # title", version: "1.10"},
		{raw: "tags: [a, \"b\\tc\", 3]\nx: {y: z}\nversion: |\n  two\n  lines", tags: []string{"a", "b c", "3"}, version: "two lines"},
		{raw: "tags: x, y ,x,", tags: []string{"x", "y"}},
	})
}

func TestParseReadsWhatRenderWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := chains().Draw(t, "chain")
		got, found := protocol.Parse([]byte(protocol.Render(want)))
		if len(only(found, driver.SeverityError)) > 0 {
			t.Fatalf("Parse(Render) found %+v", found)
		}
		if diff := cmp.Diff([]protocol.Chain{want}, got, ignoreLines); diff != "" {
			t.Fatalf("Parse(Render(c)) (-want +got):\n%s", diff)
		}
	})
}

func TestParseStepReadsWhatRenderStepWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := chains().Draw(t, "chain").Steps[0]
		got, found := protocol.ParseStep([]byte(protocol.RenderStep(want)))
		if len(only(found, driver.SeverityError)) > 0 {
			t.Fatalf("ParseStep found %+v", found)
		}
		if diff := cmp.Diff(want, got, ignoreLines, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("ParseStep(RenderStep(s)) (-want +got):\n%s", diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, doc := range []string{
		"# T\n\nabout\n\n## STEP 1 — a\nx\n" + block(`{"type":"x"}`) + "## b\n- PROOF OF WORK: timeout 3s x\n",
		"a\n===\n1. b\n---\n~~~\n# c\n", "---\nslug: a\ntags: [b, \"c\"]\n---\n# T\n## a\n", "---\na: |\n  b\n...\nx", "---\ntitle: \"\\x00\"\n---\n## a", `"# T\n## a"`, "\ufeff# T\r\n##\n<!--\n## x", "- ```\n## a\n```json\n{\"challenge\": {}}\n```",
		"> ```\n# T\n## a # #\n\t## b\n", "# T\n```json\n{\"inputs\": {}}\n```\n## a",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) { readsBack(t, doc) })
}

func FuzzParseStep(f *testing.F) {
	f.Add([]byte("## a\nx\n" + block(`{"type":"x"}`)))
	f.Add([]byte("<!-- KAIROS:BODY-START -->x<!-- KAIROS:BODY-END -->"))
	f.Add([]byte("# a\n- PROOF OF WORK: x\n<div>"))
	f.Fuzz(func(t *testing.T, doc []byte) { stepReadsBack(t, doc) })
}

func FuzzParseURI(f *testing.F) {
	f.Add("kairos://mem/0189f7a0-0000-7000-8000-00000000002f")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := protocol.ParseURI(s)
		if err != nil {
			return
		}
		if again, err := protocol.ParseURI(protocol.URI(id)); err != nil || again != id || !strings.EqualFold(protocol.URI(id), s) {
			t.Fatalf("ParseURI(%q) = %q, read again %q, %v", s, id, again, err)
		}
	})
}

// lines are what documents are made of; in any order they must read back.
var lines = []string{
	"# T", "# T #", "#", "## a", "##", "## Step 1: b", "## 2. c #", "## a ## ##", "  ## d", "\t## e", "x", "x\ny", "", "", "---", "===", "- i", "- ", "1. i",
	"   i", "  ", "\t", "> q", ">", "```", "```json", "````", "~~~", "  ```", "- ```json", "> ```", "   ```json", "{\"challenge\": {}}", "  {\"challenge\": {\"name\":\"a\"}}",
	"## Natural Language Triggers", "## Completion Rule", "## Activation patterns\n\n- \"a\"\n- b: 'c'", block(`{"type":"x"}`), "```yaml\nchallenge:\n  type: x\n```", "```yaml", "challenge:", "  type: x", "```json\n{\"contract\": {\"mcp\": {}, \"required\": true}}\n```", block("{\n  \"required\": true\n }"), "- PROOF OF WORK: x", "PROOF OF WORK: timeout 3s y", "<!--", "-->", "<div>", "</div>", "<pre>", "</pre>",
	"{\"inputs\": {}}", "\ufeff", "\u00a0", "\"", "\"a\"", "\r", "x\r\n", "[a]: b", "***", "    code", "### s", "\\", "-\t## f", "+", "\v", "\f",
}

func TestAnyOrderOfLinesReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(lines), 1, 14).Draw(t, "lines")
		readsBack(t, []byte(strings.Join(drawn, "\n")))
	})
}

// The documents of the project itself, which are what people write: examples,
// built-in protocols, and those that searches are measured with.
func TestOurOwnDocumentsReadBack(t *testing.T) {
	for _, pattern := range []string{
		"../../examples/*.md", "../../examples/*/*.md", "../../examples/*/*/*.md", "../library/builtin/*.md", "../../testdata/retrieval/protocols/*.md",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: found %d documents, %v", pattern, len(files), err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				doc, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if found := protocol.ForAuthors(found(string(doc))); len(found) > 0 {
					t.Errorf("lint found %+v", found)
				}
				readsBack(t, doc)
			})
		}
	}
}

// failer is the part of testing.T and rapid.T that readsBack needs.
type failer interface {
	Fatalf(format string, args ...any)
}

func readsBack(t failer, doc []byte) {
	first, found := protocol.Parse(doc)
	if len(only(found, driver.SeverityError)) > 0 {
		return
	}
	if len(first) == 0 {
		t.Fatalf("Parse(%q) gave neither a chain nor an error", doc)
	}
	for _, want := range first {
		again, found := protocol.Parse([]byte(protocol.Render(want)))
		if errs := only(found, driver.SeverityError); len(errs) > 0 {
			t.Fatalf("Render gave %q, of which Parse found %+v", protocol.Render(want), errs)
		}
		if diff := cmp.Diff([]protocol.Chain{want}, again, ignoreLines); diff != "" {
			t.Fatalf("Parse(Render(c)) of %q (-want +got):\n%s", doc, diff)
		}
		updatesBack(t, want)
		if once, twice := protocol.Render(want), protocol.Render(again[0]); once != twice {
			t.Fatalf("Render is not a fixed point for %q:\n%s", doc, cmp.Diff(once, twice))
		}
	}
}

func TestAnyOrderOfLinesIsAStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(lines), 1, 10).Draw(t, "lines")
		stepReadsBack(t, []byte(strings.Join(drawn, "\n")))
	})
}

func stepReadsBack(t failer, doc []byte) {
	s, found := protocol.ParseStep(doc)
	if len(only(found, driver.SeverityError)) > 0 {
		return
	}
	again, found := protocol.ParseStep([]byte(protocol.RenderStep(s)))
	if errs := only(found, driver.SeverityError); len(errs) > 0 {
		t.Fatalf("RenderStep gave %q, of which ParseStep found %+v", protocol.RenderStep(s), errs)
	}
	if diff := cmp.Diff(s, again, ignoreLines, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("ParseStep(RenderStep(s)) of %q (-want +got):\n%s", doc, diff)
	}
}

func TestRenderHeadsEveryStep(t *testing.T) {
	c := protocol.Chain{Title: "T", Steps: []protocol.Step{{Label: "A", Text: "## A\na"}, {Label: "B", Text: "b"}}}
	want := "# T\n\n## A\na\n\n## B\n\nb\n"
	if diff := cmp.Diff(want, protocol.Render(c)); diff != "" {
		t.Errorf("Render (-want +got):\n%s", diff)
	}
}

// The protocols that are shipped show how to write one: most of their steps rest on what
// KAIROS saw or a person answered, not on the agent's word.
func TestShippedProtocolsDemandMoreThanTheAgentsWord(t *testing.T) {
	steps, demanding := 0, 0
	for _, pattern := range []string{"../../examples/*.md", "../../examples/drivers/*/protocol.md", "../library/builtin/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: found %d documents, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if filepath.Base(file) == "README.md" {
				continue
			}
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			chains, _ := protocol.Parse(doc)
			for _, step := range chains[0].Steps {
				steps++
				if common, err := protocol.CommonOf(step.Challenge); err == nil && common.Evidence.Provenances() != nil {
					demanding++
				}
			}
		}
	}
	if demanding*100 < steps*60 {
		t.Errorf("%d of %d steps demand a person or the server, want at least 60 %%", demanding, steps)
	}
}
