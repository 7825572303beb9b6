package protocol_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const fence = "```"

func block(challenge string) string {
	return fence + "json\n{\"challenge\": " + challenge + "}\n" + fence + "\n"
}

func mustParse(t testing.TB, doc string) []protocol.Chain {
	t.Helper()
	chains, found := protocol.Parse([]byte(doc))
	if errs := only(found, driver.SeverityError); len(errs) > 0 {
		t.Fatalf("Parse(%q) found %+v, want no errors", doc, errs)
	}
	return chains
}

func parseOne(t testing.TB, doc string) protocol.Chain {
	t.Helper()
	chains := mustParse(t, doc)
	if len(chains) != 1 {
		t.Fatalf("Parse(%q) gave %d chains, want 1", doc, len(chains))
	}
	return chains[0]
}

func only(found []protocol.Diagnostic, severity driver.Severity) []protocol.Diagnostic {
	var out []protocol.Diagnostic
	for _, d := range found {
		if d.Severity == severity {
			out = append(out, d)
		}
	}
	return out
}

func labels(c protocol.Chain) []string {
	var out []string
	for _, s := range c.Steps {
		out = append(out, s.Label)
	}
	return out
}

func names(c protocol.Chain) []string {
	var out []string
	for _, s := range c.Steps {
		out = append(out, s.Name)
	}
	return out
}

func TestChainIDWorkedValues(t *testing.T) {
	for title, want := range map[string]string{
		"Three Step":                       "6929eee2-bf5b-516c-8fca-294a4bfe72c2",
		"  three \t\n STEP ":               "6929eee2-bf5b-516c-8fca-294a4bfe72c2",
		"Create New KAIROS Protocol Chain": "8184db3b-edd9-5cac-b1ba-2e6e476a520b",
	} {
		if got := protocol.ChainID(title); got != want {
			t.Errorf("ChainID(%q) = %s, want %s", title, got, want)
		}
	}
}

func TestLabelsLoseTheNumbersOfHeadings(t *testing.T) {
	for heading, want := range map[string]string{
		"STEP 1 — Foo":                 "Foo",
		"Step 99: Bar":                 "Bar",
		"007 — Baz":                    "Baz",
		"3. Commit":                    "Commit",
		"Step 07: Hygiene":             "Hygiene",
		"Step 1 — Third Protocol Step": "Third Protocol Step",
		"step 2 • Foo":                 "Foo",
		"STEP 1 — 2) Foo":              "Foo",
		"Step 1 Step 2 Foo":            "Foo",
		"2b) Foo":                      "Foo",
		"Normal Step":                  "Normal Step",
		"Step A":                       "Step A",
		"Step One":                     "Step One",
		"Step 1":                       "Step 1",
		"Step 1 —":                     "Step 1 —",
		"Step 1:###":                   "Step 1:###",
		"3D printing":                  "3D printing",
		"2nd phase":                    "2nd phase",
		"2024 roadmap":                 "2024 roadmap",
		"Stepping 3: stones":           "Stepping 3: stones",
		"日本語":                          "日本語",
	} {
		c := parseOne(t, "# T\n\n## "+heading+"\nbody\n")
		if diff := cmp.Diff([]string{want}, labels(c)); diff != "" {
			t.Errorf("label of %q (-want +got):\n%s", heading, diff)
		}
		if got := c.Steps[0].Text; got != "## "+heading+"\nbody" || c.Steps[0].Heading() != heading {
			t.Errorf("text of %q = %q, heading %q", heading, got, c.Steps[0].Heading())
		}
	}
}

func TestDocumentStructure(t *testing.T) {
	type chain struct {
		Title, Description string
		Texts              []string
	}
	for name, tc := range map[string]struct {
		doc  string
		want []chain
	}{
		"two steps": {
			"# T\n\n## One\nFirst body\n\n## Two\nSecond body\n",
			[]chain{{"T", "", []string{"## One\nFirst body", "## Two\nSecond body"}}},
		},
		"a JSON string literal": {
			`"# T\n\n## One\nbody"`, []chain{{"T", "", []string{"## One\nbody"}}},
		},
		"a literal in a literal": {
			`"\"# T\\n## One\""`, []chain{{"T", "", []string{"## One"}}},
		},
		"a description": {
			"# T\n\n    code\n\nabout\n\n## One\n", []chain{{"T", "    code\n\nabout", []string{"## One"}}},
		},
		"no H1": {
			"about\n\n## Step 1: One\na\n## Two\n", []chain{{"One", "about", []string{"## Step 1: One\na", "## Two"}}},
		},
		"several H1s are several chains": {
			"# A\n## a1\n## a2\n# B\n## b1\n# C\njust text\n",
			[]chain{{"A", "", []string{"## a1", "## a2"}}, {"B", "", []string{"## b1"}}, {"C", "", []string{"# C\njust text"}}},
		},
		"an H1 without anything is dropped": {
			"# A\n# B\n## b\n", []chain{{"B", "", []string{"## b"}}},
		},
		"text before the first H1 is dropped": {
			"intro\n\n## lost\n\n# A\n## a\n", []chain{{"A", "", []string{"## a"}}},
		},
		"no H2": {
			"# T\n\nbody\n", []chain{{"T", "", []string{"# T\n\nbody"}}},
		},
		"no heading": {
			"\n\n  just text\nmore\n", []chain{{"just text", "", []string{"  just text\nmore"}}},
		},
		"any heading names a document without H2": {
			"text\n\n### Deep\n", []chain{{"Deep", "", []string{"text\n\n### Deep"}}},
		},
		"a heading in a fence names nothing": {
			fence + "\n# no\n" + fence + "\n# yes\n", []chain{{"yes", "", []string{fence + "\n# no\n" + fence + "\n# yes"}}},
		},
		"all H2s empty": {
			"# T\n##\n##  \nbody\n", []chain{{"T", "", []string{"# T\n##\n##  \nbody"}}},
		},
		"several H1s without H2 are one memory": {
			"# A\na\n# B\nb\n", []chain{{"A", "", []string{"# A\na\n# B\nb"}}},
		},
		"headings in fences are text": {
			"# T\n## One\n" + fence + "sh\n# comment\n## STEP 1 — kept\n" + fence + "\n## Two\n",
			[]chain{{"T", "", []string{"## One\n" + fence + "sh\n# comment\n## STEP 1 — kept\n" + fence, "## Two"}}},
		},
		"tilde fences": {
			"# T\n## One\n~~~\n## no\n" + fence + "\n~~~\n## Two\n",
			[]chain{{"T", "", []string{"## One\n~~~\n## no\n" + fence + "\n~~~", "## Two"}}},
		},
		"a long fence around a short one": {
			"# T\n## One\n````\n```\n## no\n```\n````\n## Two\n",
			[]chain{{"T", "", []string{"## One\n````\n```\n## no\n```\n````", "## Two"}}},
		},
		"an unclosed fence swallows the rest": {
			"# T\n## One\n" + fence + "\n## no\n# no\n", []chain{{"T", "", []string{"## One\n" + fence + "\n## no\n# no"}}},
		},
		"setext headings": {
			"Title\nlong\n=====\nabout\n\nSTEP 1: One\n---\nbody\n\n---\nrest\n",
			[]chain{{"Title long", "about", []string{"## STEP 1: One\nbody\n\n---\nrest"}}},
		},
		"a setext heading on the last line": {
			"# T\n## One\n\nTwo\n---\n", []chain{{"T", "", []string{"## One", "## Two"}}},
		},
		"an underlined heading at the end": {
			"# T\n## One\nTwo\n---", []chain{{"T", "", []string{"## One", "## Two"}}},
		},
		"an underlined heading that nobody sees, at the end": {
			"# T\n## One\n\u00a0\n---\n", []chain{{"T", "", []string{"## One\n\u00a0\n---"}}},
		},
		"closing sequences": {
			"# T #\n## One ##\n## C#\n## D \\#\n", []chain{{"T", "", []string{"## One", "## C#", "## D \\#"}}},
		},
		"indented headings": {
			"   # T\n  ## One\n    ## code\n", []chain{{"T", "", []string{"## One\n    ## code"}}},
		},
		"headings in quotes, lists and HTML are text": {
			"# T\n## One\n> ## quote\n\n- ## list\n\n<!--\n## html\n-->\n",
			[]chain{{"T", "", []string{"## One\n> ## quote\n\n- ## list\n\n<!--\n## html\n-->"}}},
		},
		"not headings": {
			"# T\n## One\n##nospace\n####### seven\n", []chain{{"T", "", []string{"## One\n##nospace\n####### seven"}}},
		},
		"CRLF": {
			"# T\r\n\r\n## One\r\nbody\r\n", []chain{{"T", "", []string{"## One\nbody"}}},
		},
		"a byte order mark": {
			"\ufeff\n\ufeff# T\n## One\n", []chain{{"T", "", []string{"## One"}}},
		},
		"a long line of dashes": {
			"# T\n## A\n\n" + strings.Repeat("-", 500) + "\n", []chain{{"T", "", []string{"## A\n\n" + strings.Repeat("-", 500)}}},
		},
		"duplicate labels": {
			"# T\n## A\n## A\n", []chain{{"T", "", []string{"## A", "## A"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []chain
			for _, c := range mustParse(t, tc.doc) {
				g := chain{Title: c.Title, Description: c.Description}
				for _, s := range c.Steps {
					g.Texts = append(g.Texts, s.Text)
				}
				got = append(got, g)
				if c.ID != protocol.ChainID(c.Title) {
					t.Errorf("ID of %q = %s", c.Title, c.ID)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongFallbackTitleIsCut(t *testing.T) {
	c := parseOne(t, strings.Repeat("ä", 130))
	if want := strings.Repeat("ä", 120); c.Title != want || c.Steps[0].Label != want {
		t.Errorf("title = %q, want 120 characters", c.Title)
	}
}

func TestLinesAreThoseOfTheDocument(t *testing.T) {
	c := parseOne(t, "\ufeff\n# T\r\n\r\n## One\r\nbody\r\n"+block(`{"type":"x","x":{}}`)+"\n## Two\n")
	got := []int{c.Steps[0].Line, c.Steps[0].ChallengeLine, c.Steps[1].Line}
	if diff := cmp.Diff([]int{4, 6, 10}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestChallengeBlocks(t *testing.T) {
	const x = `{"type":"x","x":{"a":1.50}}`
	for name, tc := range map[string]struct{ body, text, challenge string }{
		"json":               {"body\n\n" + block(x), "body", x},
		"no language":        {"body\n" + fence + "\n{\"challenge\":" + x + "}\n" + fence, "body", x},
		"tildes":             {"body\n~~~~json\n{\"challenge\":" + x + "}\n~~~~\n\n \t\n", "body", x},
		"only the block":     {block(x), "", x},
		"as written":         {fence + "json\n{\n  \"challenge\": {\n    \"type\": \"x\"\n  }\n}\n" + fence, "", "{\n    \"type\": \"x\"\n  }"},
		"in a list item":     {"1. do\n\n   " + fence + "json\n   {\"challenge\": " + x + "}\n   " + fence + "\n", "1. do", x},
		"no type":            {block(`{"cmd":"make"}`), "", `{"cmd":"make"}`},
		"last of two":        {block(`{"type":"y"}`) + "\n" + block(x), strings.TrimSpace(block(`{"type":"y"}`)), x},
		"other blocks":       {fence + "json\n{\"a\":1}\n" + fence + "\n" + block(x), fence + "json\n{\"a\":1}\n" + fence, x},
		"other JSON":         {fence + "json\n{\"a\":{\"challenge\":1}}\n" + fence, fence + "json\n{\"a\":{\"challenge\":1}}\n" + fence, ""},
		"a JSON Schema":      {fence + "json\n{\"a\":{\"type\":\"object\",\"properties\":{},\"required\":[\"b\"]}}\n" + fence, fence + "json\n{\"a\":{\"type\":\"object\",\"properties\":{},\"required\":[\"b\"]}}\n" + fence, ""},
		"invalid other JSON": {fence + "json\n{a\n" + fence, fence + "json\n{a\n" + fence, ""},
		"other language":     {fence + "sh\necho '{\"challenge\": {}}'\n" + fence, fence + "sh\necho '{\"challenge\": {}}'\n" + fence, ""},
		"upper-case":         {fence + "JSON\n{\"challenge\": {}}\n" + fence, fence + "JSON\n{\"challenge\": {}}\n" + fence, ""},
		"in a quote":         {"> " + fence + "\n> {\"challenge\": {}}\n> " + fence, "> " + fence + "\n> {\"challenge\": {}}\n> " + fence, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := parseOne(t, "# T\n## S\n"+tc.body+"\n## next\n").Steps[0]
			if want := strings.TrimSpace("## S\n" + tc.text); s.Text != want {
				t.Errorf("text = %q, want %q", s.Text, want)
			}
			if string(s.Challenge) != tc.challenge {
				t.Errorf("challenge = %s, want %s", s.Challenge, tc.challenge)
			}
		})
	}
}

func TestDocumentWithoutStepsHasNoChallenge(t *testing.T) {
	doc := "# T\n\nbody\n\n" + block(`{"type":"x"}`)
	chains, found := protocol.Parse([]byte(doc))
	if len(chains) != 1 || chains[0].Steps[0].Challenge != nil || !strings.Contains(chains[0].Steps[0].Text, "challenge") {
		t.Errorf("Parse gave %+v, want the block in the text", chains)
	}
	if len(only(found, driver.SeverityWarning)) != 1 {
		t.Errorf("found %+v, want one warning", found)
	}
}

func TestDiagnostics(t *testing.T) {
	step := func(body string) string { return "# T\n## S\n" + body }
	for name, tc := range map[string]struct {
		doc                string
		severity           driver.Severity
		line, column       int
		pointer, substring string
	}{
		"empty":                  {"", driver.SeverityError, 1, 1, "", "empty"},
		"blank":                  {" \n\t\n", driver.SeverityError, 1, 1, "", "empty"},
		"an empty literal":       {`""`, driver.SeverityError, 1, 1, "", "empty"},
		"NUL":                    {"# a\nbé\x00", driver.SeverityError, 2, 3, "", "NUL"},
		"NUL in a literal":       {`"# a\u0000"`, driver.SeverityError, 1, 4, "", "NUL"},
		"not UTF-8":              {"# a\nb\uFFFD\xff", driver.SeverityError, 2, 3, "", "0xff"},
		"a long title":           {"# " + strings.Repeat("é", 5001) + "\n## S", driver.SeverityError, 1, 1, "", "5001 characters"},
		"a long heading":         {step("x\n## " + strings.Repeat("é", 5001)), driver.SeverityError, 4, 1, "", "5001 characters"},
		"no title":               {"#\n## S", driver.SeverityError, 1, 1, "", "title"},
		"the same title twice":   {"# T\n## a\n# t\n## b", driver.SeverityError, 3, 1, "", "two protocols"},
		"deep nesting":           {"a\n" + strings.Repeat(">", 201), driver.SeverityError, 2, 1, "", "nests"},
		"nothing but empty H1s":  {"## a\n# A\n", driver.SeverityError, 1, 1, "", "no step"},
		"text before the H1":     {"x\n# T\n## S", driver.SeverityWarning, 1, 1, "", "dropped"},
		"an empty H1":            {"# A\n# T\n## S", driver.SeverityWarning, 1, 1, "", "dropped"},
		"an empty H2":            {"# T\n## S\n##\n", driver.SeverityWarning, 3, 1, "", "empty H2"},
		"invalid JSON":           {step(fence + "json\n{\"challenge\":\n  {\"é\" 1}}\n" + fence), driver.SeverityError, 5, 8, "", "invalid JSON"},
		"truncated JSON":         {step(fence + "json\n{\"challenge\": {\n" + fence), driver.SeverityError, 4, 16, "", "invalid JSON"},
		"text behind JSON":       {step(fence + "json\n{\"challenge\": {}} x\n" + fence), driver.SeverityError, 4, 19, "", "invalid JSON"},
		"indented invalid JSON":  {step("- a\n  " + fence + "json\n  {\"challenge\": x}\n  " + fence), driver.SeverityError, 5, 17, "", "invalid JSON"},
		"duplicate keys":         {step(block(`{"type":"x","x":{"a":1,"a":2}}`)), driver.SeverityError, 4, 38, "", `duplicate key "a"`},
		"escaped duplicate keys": {step(block(`{"type":"x","typ\u0065":"y"}`)), driver.SeverityError, 4, 27, "", `duplicate key "type"`},
		"deep JSON":              {step(block(`{"type":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}`)), driver.SeverityError, 4, 85, "", "nested"},
		"text after":             {step(block(`{"type":"x"}`) + "\nmore"), driver.SeverityError, 7, 1, "", "text follows"},
		"not closed":             {step(strings.TrimSuffix(block(`{"type":"x"}`), fence+"\n")), driver.SeverityError, 3, 1, "", "not closed"},
		"not an object":          {step(block(`["x"]`)), driver.SeverityError, 4, 15, "", "must be an object"},
		"another key beside":     {step(fence + "json\n{\"challenge\": {}, \"a\": 1}\n" + fence), driver.SeverityWarning, 4, 19, "", `"a" beside`},
		"two blocks":             {step(block(`{"type":"y"}`) + block(`{"type":"x"}`)), driver.SeverityWarning, 3, 1, "", "last one counts"},
		"only an earlier block":  {step(block(`{"type":"y"}`) + fence + "sh\nls\n" + fence), driver.SeverityWarning, 3, 1, "", "last thing"},
		"JSON in upper case":     {step(fence + "JSON\n{\"challenge\": {}}\n" + fence), driver.SeverityWarning, 3, 1, "", "write json"},
		"a block in a quote":     {step("> " + fence + "\n> {\"challenge\": {}}\n> " + fence), driver.SeverityWarning, 3, 1, "", "quote"},
		"an unknown key":         {step(block(`{"type":"x","x":{},"y/z":1}`)), driver.SeverityWarning, 4, 34, "/y~1z", "unknown key"},
		"a name":                 {step(block(`{"type":"x","name":"2a"}`)), driver.SeverityError, 4, 34, "/name", "lower-case letters of any language, digits and _"},
		"an empty name":          {step(block(`{"type":"x","name":""}`)), driver.SeverityError, 4, 34, "/name", "lower-case letters of any language, digits and _"},
		"a name with a line end": {step(block(`{"type":"x","name":"a\n"}`)), driver.SeverityError, 4, 34, "/name", "lower-case letters of any language, digits and _"},
		"a wrong type":           {step(block(`{"type":1}`)), driver.SeverityError, 4, 23, "/type", "number"},
		"an empty type":          {step(block(`{"type":""}`)), driver.SeverityError, 4, 23, "/type", "non-empty"},
		"a wrong key's case":     {step(block(`{"type":"x","Required":false}`)), driver.SeverityError, 4, 27, "/Required", `"required"`},
		"an output_schema":       {step(block(`{"type":"x","output_schema":true}`)), driver.SeverityError, 4, 43, "/output_schema", "object"},
		"an approval mode":       {step(block(`{"type":"x","approval_mode":"never"}`)), driver.SeverityError, 4, 43, "/approval_mode", "never"},
		"a phrase with template": {step(block(`{"type":"x","approval":{"phrase":"go {{ input.x }}"}}`)), driver.SeverityError, 4, 48, "/approval/phrase", "templates"},
		"a phrase of two lines":  {step(block(`{"type":"x","approval":{"phrase":"go\nnow"}}`)), driver.SeverityError, 4, 48, "/approval/phrase", "one line"},
		"a phrase nobody types":  {step(block(`{"type":"x","approval":{"phrase":"go"},"approval_mode":"auto"}`)), driver.SeverityError, 4, 38, "/approval", "contradicts approval_mode"},
		"a sampling block":       {step(block(`{"type":"x","sampling":{"max_tokens":"many"}}`)), driver.SeverityError, 4, 52, "/sampling/max_tokens", "string"},
		"no tokens":              {step(block(`{"type":"x","sampling":{"max_tokens":0}}`)), driver.SeverityError, 4, 52, "/sampling/max_tokens", "from 1 to 1000000, not 0"},
		"negative tokens":        {step(block(`{"type":"x","sampling":{"max_tokens":-5}}`)), driver.SeverityError, 4, 52, "/sampling/max_tokens", "not -5"},
		"too many tokens":        {step(block(`{"type":"x","sampling":{"max_tokens":1000001}}`)), driver.SeverityError, 4, 52, "/sampling/max_tokens", "1000000"},
		"half a token":           {step(block(`{"type":"x","sampling":{"max_tokens":1.5}}`)), driver.SeverityError, 4, 52, "/sampling/max_tokens", "max_tokens must be a whole number, not 1.5"},
		"a temperature":          {step(block(`{"type":"x","sampling":{"temperature":2.1}}`)), driver.SeverityError, 4, 53, "/sampling/temperature", "from 0 to 2"},
		"a top_p":                {step(block(`{"type":"x","sampling":{"top_p":-0.1}}`)), driver.SeverityError, 4, 47, "/sampling/top_p", "from 0 to 1"},
		"a misspelt sampling":    {step(block(`{"type":"x","x":1,"sampling":{"temprature":1}}`)), driver.SeverityError, 4, 45, "/sampling/temprature", `did you mean "temperature"?`},
		"a misspelt judge":       {step(block(`{"type":"x","x":1,"judge":{"requird":true}}`)), driver.SeverityError, 4, 42, "/judge/requird", `did you mean "required"?`},
		"a misspelt question":    {step(block(`{"type":"x","x":1,"judge":{"qestion":"Is it?"}}`)), driver.SeverityError, 4, 42, "/judge/qestion", `did you mean "question"?`},
		"a judge's word":         {step(block(`{"type":"x","judge":{"required":"yes"}}`)), driver.SeverityError, 4, 47, "/judge/required", "judge.required must be true or false, not a string"},
		"the same name twice": {
			step(block(`{"type":"x","name":"a"}`) + "## S2\n" + block(`{"type":"x","name":"a"}`)), driver.SeverityError, 8, 34, "/name", `"a" is already`,
		},
		"inputs": {"# T\n" + fence + "json\n{\"inputs\": 1}\n" + fence + "\n## S", driver.SeverityError, 3, 12, "", "inputs"},
		"invalid inputs": {
			"# T\n" + fence + "json\n{\"inputs\": {]}\n" + fence + "\n## S", driver.SeverityError, 3, 13, "", "invalid JSON",
		},
		"inputs twice": {
			"# T\n" + strings.Repeat(fence+"json\n{\"inputs\": {}}\n"+fence+"\n", 2) + "## S", driver.SeverityError, 6, 2, "", "twice",
		},
		"a legacy line in front of an open fence": {step("PROOF OF WORK: make\n" + fence + "\nx"), driver.SeverityError, 1, 1, "", "open"},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := protocol.Parse([]byte(tc.doc))
			for _, d := range found {
				if d.Severity == tc.severity && d.Line == tc.line && d.Column == tc.column &&
					d.Pointer == tc.pointer && strings.Contains(d.Message, tc.substring) {
					return
				}
			}
			t.Errorf("Parse found %+v, want a %s at %d:%d %q with %q", found, tc.severity, tc.line, tc.column, tc.pointer, tc.substring)
		})
	}
}

func TestLimits(t *testing.T) {
	for name, doc := range map[string]string{
		"10 MB":        "# T\n## S\n" + strings.Repeat("x", 10<<20),
		"10,000 steps": "# T\n" + strings.Repeat("## S\n", 10_001),
		"1 MiB a text": "# T\n## S\n" + strings.Repeat("x", 1<<20+1),
		"5,000 a head": "# T\n## " + strings.Repeat("h", 5_001) + "\nx",
		"5,000 a name": "# " + strings.Repeat("t", 5_001) + "\n## S\nx",
	} {
		if _, found := protocol.Parse([]byte(doc)); len(only(found, driver.SeverityError)) != 1 {
			t.Errorf("%s: found %+v, want one error", name, found)
		}
	}
	c := parseOne(t, "# T\n"+strings.Repeat("## S\n", 10_000))
	if len(c.Steps) != 10_000 || c.Steps[9_999].Name != "s_10000" {
		t.Errorf("got %d steps, the last named %q", len(c.Steps), c.Steps[len(c.Steps)-1].Name)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	_, found := protocol.Parse([]byte("# T\n## a\n" + strings.Repeat("##\n", 3000) + block(`{"type":1}`)))
	if len(found) > 1001 || len(only(found, driver.SeverityError)) != 1 {
		t.Errorf("got %d findings, want 1000 and the error", len(found))
	}
	_, found = protocol.Parse([]byte(strings.Repeat("# T\nx\n", 50_001) + "## a\n"))
	if len(only(found, driver.SeverityError)) == 0 {
		t.Error("found no error in 50,001 protocols")
	}
}

// The memory that a document costs is bounded by limits that are looked at while
// it is read: one of 10 MB must not take a gigabyte before it is refused.
func TestTheMemoryThatADocumentCostsIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED with -short: the race detector, which make test runs with -short, allocates ten times as much")
	}
	full := func(s string) string { return strings.Repeat(s, protocol.MaxDocument/len(s)) }
	for name, doc := range map[string]string{
		"step headings":      full("## h\n"),
		"long step headings": "# T\n" + strings.Repeat("## h"+strings.Repeat("x", 40)+"\n", 200_000),
		"headings":           "# T\n" + strings.Repeat("### h\n", 400_000) + "## h\n",
		"list fences":        "# T\n## S\n" + strings.Repeat("- "+fence+"\n\n", 200_000),
		"short lines":        "# T\n## S\n" + full("a\n"),
	} {
		var found []protocol.Diagnostic
		if got := allocated(func() { _, found = protocol.Parse([]byte(doc)) }); got > 200<<20 {
			t.Errorf("%s: Parse allocated %d MiB to refuse %d bytes, want at most 200", name, got>>20, len(doc))
		}
		if len(only(found, driver.SeverityError)) != 1 {
			t.Errorf("%s: found %+v, want one error", name, found)
		}
	}
	for name, doc := range map[string]string{
		"list fences": "# T\n## S\n" + strings.Repeat("- "+fence+"\n\n", 60_000),
		"deep lists":  strings.Repeat("- ", 90) + "a\n" + strings.Repeat(strings.Repeat("  ", 90)+"a\n", 5_000),
		"open code":   fence + "\n" + strings.Repeat("xxxxxxxxxxxxxxx\n", 480_000),
	} {
		if got := allocated(func() { protocol.Parse([]byte(doc)) }); got > 400<<20 {
			t.Errorf("%s: Parse allocated %d MiB for %d bytes, want at most 400 in all", name, got>>20, len(doc))
		}
	}
}

// allocated is how many bytes f allocates, those that it gives back included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Blocks are taken from the parser's tree as soon as they are closed. What is
// found must not depend on that.
func TestBlocksOfLongListsAndQuotesAreFound(t *testing.T) {
	var b strings.Builder
	b.WriteString("# T\n\n## A\n\n")
	for i := range 50 {
		fmt.Fprintf(&b, "- item\n\n  > %s\n  > ## no step\n  > %[1]s\n\n  1. %[1]s\n     ## no step\n     func name%d() {}\n     %[1]s\n", fence, i)
	}
	b.WriteString("\ntext\n## B\n- " + fence + "\n  ## no step\n\nC\n---\n<!--\n## no step\n-->\n" + block(`{"type":"comment","comment":{}}`))
	c := parseOne(t, b.String())
	var labels []string
	for _, s := range c.Steps {
		labels = append(labels, s.Label)
	}
	if diff := cmp.Diff([]string{"A", "B", "C"}, labels); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if !slices.Contains(c.Steps[0].Tags, "name0") {
		t.Errorf("tags of A = %v, want the name in the first list's code", c.Steps[0].Tags)
	}
	if c.Steps[2].Challenge == nil {
		t.Error("the challenge behind the comment is not found")
	}
}

// Documents that make parsers slow must not make this one slow: neither by what
// is in them, nor by being as long as can be.
func TestHostileDocumentsTakeLittleTime(t *testing.T) {
	size, most := 512<<10, protocol.MaxDocument-4<<10
	if testing.Short() {
		size, most = 64<<10, 64<<10
	}
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	full := func(s string) string { return strings.Repeat(s, most/len(s)) }
	for name, doc := range map[string]string{
		"quotes":       fill(strings.Repeat(">", 199) + "\n"),
		"lists":        fill(strings.Repeat("- ", 199) + "\n"),
		"nested lists": nestedLists(190),
		"open fences":  fill("- " + fence + "\n"),
		"fences":       "# T\n## S\n" + fill(fence+"\n"+fence+"\n"),
		"legacy lines": "# T\n## S\n" + fence + "\n" + fill("PROOF OF WORK: x\n") + fence,
		"headings":     "# T\n" + full("a\n#\n##\n"),
		"H1s":          fill("# a\nb\n") + "## c",
		"paragraph":    fill("a\n"),
		"brackets":     fill("["),
		"links":        "# T\n## a\n" + fill("[a]("),
		"emphasis":     "# T\n## a\n" + fill("*a **b _"),
		"tags":         "# T\n## a\n" + fill("<a <!--"),
		"hashes":       "# a" + fill(" #") + "\n## a",
		"numbers":      "# T\n## a\n## " + strings.Repeat("1. ", 1500),
		"definitions":  fill("[a]: b\n"),
		"quotations":   fill(`"`),
	} {
		costsLikeProse(t, name, doc)
	}
}

// costsLikeProse compares with prose of the same length, on the same machine at
// the same time. Quadratic work costs minutes, and many
// thousand times as much.
func costsLikeProse(t *testing.T, name, doc string) {
	t.Helper()
	const times, least = 300, time.Minute
	took := func(doc string) time.Duration {
		start := time.Now()
		protocol.Parse([]byte(doc))
		return time.Since(start)
	}
	prose := took("# T\n## S\n" + strings.Repeat("Some words that mean nothing, until the line ends.\n\n", 1+len(doc)/52))
	if hostile := took(doc); hostile > max(least, times*prose) {
		t.Errorf("%s of %d bytes took %v, prose of that length %v", name, len(doc), hostile, prose)
	}
}

func nestedLists(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", 2*i) + "- a\n")
	}
	return b.String()
}

func TestLegacyLines(t *testing.T) {
	for line, want := range map[string]string{
		"PROOF OF WORK: make test":                   `{"cmd":"make test","timeout_seconds":60,"required":true}`,
		"PROOF OF WORK: timeout 5m make":             `{"cmd":"make","timeout_seconds":300,"required":true}`,
		"PROOF OF WORK: timeout 500ms make":          `{"cmd":"make","timeout_seconds":0.5,"required":true}`,
		"PROOF OF WORK: timeout 30 make":             `{"cmd":"timeout 30 make","timeout_seconds":60,"required":true}`,
		"- **PROOF OF WORK:** timeout 2h `a && b`  ": `{"cmd":"a && b","timeout_seconds":7200,"required":true}`,
		"**proof of work**: [timeout 3s] x <y>":      `{"cmd":"x <y>","timeout_seconds":3,"required":true}`,
	} {
		c := parseOne(t, "# T\n## S\nbefore\n"+line+"\nafter\nPROOF OF WORK: second\n")
		s := c.Steps[0]
		if string(s.Challenge) != want {
			t.Errorf("challenge of %q = %s, want %s", line, s.Challenge, want)
		}
		if text := "## S\nbefore\n\nafter\nPROOF OF WORK: second"; s.Text != text {
			t.Errorf("text of %q = %q, want %q", line, s.Text, text)
		}
		if diff := cmp.Diff(c, parseOne(t, protocol.Render(c)), ignoreLines); diff != "" {
			t.Errorf("Parse(Render) of %q (-want +got):\n%s", line, diff)
		}
	}
	if s := parseOne(t, "# T\n## S\nx\n- PROOF OF WORK: y\n---\n").Steps[0]; s.Text != "## S\nx\n\n---" {
		t.Errorf("text = %q, want no heading where the line was", s.Text)
	}
	for name, body := range map[string]string{
		"in a fence":   fence + "\nPROOF OF WORK: x\n" + fence,
		"in a comment": "<!--\nPROOF OF WORK: x\n-->",
		"in a text":    "the PROOF OF WORK: x",
		"empty":        "PROOF OF WORK:",
	} {
		if s := parseOne(t, "# T\n## S\n"+body).Steps[0]; s.Challenge != nil || s.Text != "## S\n"+body {
			t.Errorf("%s: got %q with %s, want it unchanged", name, s.Text, s.Challenge)
		}
	}
	s := parseOne(t, "# T\n## S\nPROOF OF WORK: x\n"+block(`{"type":"y"}`)).Steps[0]
	if string(s.Challenge) != `{"type":"y"}` || s.Text != "## S\nPROOF OF WORK: x" {
		t.Errorf("got %q with %s, want the JSON block to count", s.Text, s.Challenge)
	}
}

func TestNames(t *testing.T) {
	c := parseOne(t, "# T\n## Find Slot!\n## find_slot\n## 日本語\n## 3D\n## x\n"+block(`{"type":"x","name":"find_slot_2"}`))
	want := []string{"find_slot", "find_slot_3", "日本語", "_3d", "find_slot_2"}
	if diff := cmp.Diff(want, names(c)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := protocol.Slug(strings.Repeat("ab ", 100)); len(got) > 64 {
		t.Errorf("Slug is %d long", len(got))
	}
}

func TestInputs(t *testing.T) {
	about := "Needs:\n\n" + fence + "json\n{\"inputs\": {\"properties\": {\"who\": {}}}}\n" + fence
	c := parseOne(t, "# T\n\n"+about+"\n\n## S\n")
	if string(c.Inputs) != `{"properties": {"who": {}}}` || c.Description != about {
		t.Errorf("inputs = %s, description = %q", c.Inputs, c.Description)
	}
}

func TestTags(t *testing.T) {
	for text, want := range map[string][]string{
		"## Step One":  {"step", "one"},
		"# Bare Steps": {"bare", "steps"},
		"## The one two three four five six seven":                                                           {"the", "one", "two", "three", "four", "five"},
		"## A\n- Run the linter now\n* Run all tests":                                                        {"linter", "tests"},
		"## Do it\n```go\nfunc (s *S) Parse() {}\ntype Chain struct{}\nfunc Parse() {}\n```":                 {"parse", "chain"},
		"## Do it\nfunc Parse()":                                                                             nil,
		"## Do it\n~~~\nimport { useState }\nclass\tclass Ab\nfn 9abc\ntype\u00e9 Not_This(x)\ndef _x9\n~~~": {"usestate", "_x9"},
	} {
		if diff := cmp.Diff(want, protocol.Tags(protocol.Step{Text: text})); diff != "" {
			t.Errorf("Tags(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestTagsAreReadFromTheBeginningOfALongStep(t *testing.T) {
	const read = 128 << 10
	// The two bytes of é are on both sides of the bound.
	before := "## Do it\n" + fence + "\nfunc first()\n"
	text := before + strings.Repeat("-", read-len(before)-1) + "é\nfunc second()\n" + fence + "\n- Third fourth\n"
	if diff := cmp.Diff([]string{"first"}, protocol.Tags(protocol.Step{Text: text})); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	early := strings.Replace(text, "-----", "", 5000)
	if diff := cmp.Diff([]string{"third", "fourth", "first", "second"}, protocol.Tags(protocol.Step{Text: early})); diff != "" {
		t.Errorf("tags of the same text in less than the bound (-want +got):\n%s", diff)
	}
}

func TestParseURI(t *testing.T) {
	const id = "0189f7a0-0000-7000-8000-00000000002f"
	for in, want := range map[string]string{
		"kairos://mem/" + id:                  id,
		"KAIROS://mem/" + strings.ToUpper(id): id,
		protocol.URI(id):                      id,
		id:                                    "",
		"kairos://mem/" + id + "\n":           "",
		" kairos://mem/" + id:                 "",
		"kairos://mem/" + id + "0":            "",
		"kairos://mem/" + id[1:]:              "",
		"kairos://memory/" + id:               "",
		"":                                    "",
	} {
		got, err := protocol.ParseURI(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseURI(%q) = %q, %v, want %q", in, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "kairos://mem/<uuid>") {
			t.Errorf("ParseURI(%q) error %q does not say what is expected", in, err)
		}
	}
}

func TestParseStep(t *testing.T) {
	type step struct{ Label, Name, Text, Challenge string }
	for name, tc := range map[string]struct {
		doc  string
		want step
	}{
		"a step":         {"## 2. New\nbody\n\n" + block(`{"type":"x","name":"n"}`), step{"New", "n", "## 2. New\nbody", `{"type":"x","name":"n"}`}},
		"no heading":     {"body\n\n" + block(`{"type":"x"}`), step{"", "", "body", `{"type":"x"}`}},
		"an H1 before":   {"# T\n## S\nbody", step{"S", "s", "## S\nbody", ""}},
		"only an H1":     {"# T\nbody", step{"T", "t", "## T\nbody", ""}},
		"markers":        {"# x\n<!--kairos:body-start-->\n## S\nbody\n<!-- KAIROS:BODY-END -->\n## y", step{"S", "s", "## S\nbody", ""}},
		"a string":       {`"## S\nbody"`, step{"S", "s", "## S\nbody", ""}},
		"a legacy line":  {"## S\nPROOF OF WORK: x", step{"S", "s", "## S", `{"cmd":"x","timeout_seconds":60,"required":true}`}},
		"only challenge": {"## S\n" + block(`{"type":"x"}`), step{"S", "s", "## S", `{"type":"x"}`}},
	} {
		s, found := protocol.ParseStep([]byte(tc.doc))
		if errs := only(found, driver.SeverityError); len(errs) > 0 {
			t.Errorf("%s: found %+v", name, errs)
		}
		if diff := cmp.Diff(tc.want, step{s.Label, s.Name, s.Text, string(s.Challenge)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, doc := range map[string]string{
		"empty":            "",
		"empty markers":    "<!-- KAIROS:BODY-START --> <!-- KAIROS:BODY-END -->",
		"two steps":        "## A\n## B",
		"another protocol": "## A\n# B",
		"two protocols":    "# A\n# B",
		"an open fence":    "## A\n" + fence + "\nx",
		"an open comment":  "body\n<!-- x",
		"broken JSON":      "## A\n" + block(`{`),
	} {
		if _, found := protocol.ParseStep([]byte(doc)); len(only(found, driver.SeverityError)) == 0 {
			t.Errorf("%s: no error found", name)
		}
	}
}

func TestCommonOf(t *testing.T) {
	c, err := protocol.CommonOf(json.RawMessage(`{"type":"x","required":false,"sampling":{"temperature":0.2}}`))
	if err != nil || c.Type != "x" || c.IsRequired() || *c.Sampling.Temperature != 0.2 {
		t.Errorf("CommonOf = %+v, %v", c, err)
	}
	if c, err := protocol.CommonOf(nil); err != nil || !c.IsRequired() {
		t.Errorf("CommonOf(nil) = %+v, %v", c, err)
	}
	if _, err := protocol.CommonOf(json.RawMessage(`[]`)); err == nil {
		t.Error("CommonOf of a list gave no error")
	}
}

func ExampleRender() {
	chains, _ := protocol.Parse([]byte("# Greet\n## STEP 1 — Say hello\nTo all.\n"))
	fmt.Print(protocol.Render(chains[0]))
	// Output:
	// # Greet
	//
	// ## STEP 1 — Say hello
	// To all.
}
