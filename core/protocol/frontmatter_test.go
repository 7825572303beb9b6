package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestFrontMatter(t *testing.T) {
	const body = "\n# T\n\nabout\n\n## S\nx\n"
	type said struct {
		Title, Alt, Slug, Version string
		Tags                      []string
	}
	for name, tc := range map[string]struct {
		doc, raw string
		want     said
	}{
		"all keys": {
			"---\nslug: rotate-keys\nversion: 1.10\ntitle: Key rotation\ntags:\n  - ops\n  - 'on call'\n---\n" + body,
			"slug: rotate-keys\nversion: 1.10\ntitle: Key rotation\ntags:\n  - ops\n  - 'on call'",
			said{"T", "Key rotation", "rotate-keys", "1.10", []string{"ops", "on call"}},
		},
		"a title like the H1":          {"---\ntitle: ' t'\n---\n" + body, "title: ' t'", said{Title: "T"}},
		"a title instead of an H1":     {"---\ntitle: X  Y #\n---\n## S\nx\n", "title: X  Y #", said{Title: "X Y"}},
		"a title of plain text":        {"---\ntitle: X\n---\njust text", "title: X", said{Title: "X"}},
		"a title beside an H1 of text": {"---\ntitle: X\n---\n# T\njust text", "title: X", said{Title: "T", Alt: "X"}},
		"tags as one text":             {"---\ntags: a, b c,,a\n---\n" + body, "tags: a, b c,,a", said{Title: "T", Tags: []string{"a", "b c"}}},
		"dots at the end":              {"---\nslug: a\n...\n" + body, "slug: a", said{Title: "T", Slug: "a"}},
		"CRLF and a byte order mark": {
			strings.ReplaceAll("\ufeff---\nslug: a\n---\n"+body, "\n", "\r\n"), "slug: a", said{Title: "T", Slug: "a"},
		},
		"in a JSON literal":   {`"---\nslug: a\n---\n# T\n## S"`, "slug: a", said{Title: "T", Slug: "a"}},
		"blank lines around":  {"\n\n---\n\nslug: a\n\n---\n" + body, "\nslug: a\n", said{Title: "T", Slug: "a"}},
		"comments kept":       {"---\n# c\nslug: a # b\n---\n" + body, "# c\nslug: a # b", said{Title: "T", Slug: "a"}},
		"unknown keys kept":   {"---\nauthor: [a, {b: c}]\n---\n" + body, "author: [a, {b: c}]", said{Title: "T"}},
		"no value":            {"---\nslug:\ntags:\n---\n" + body, "slug:\ntags:", said{Title: "T"}},
		"a thematic break":    {"---\n" + body, "", said{Title: "T"}},
		"two breaks":          {"---\n---\n" + body, "", said{Title: "T"}},
		"breaks around an H1": {"---\n\n# T\n\nabout: this\n\n---\n\n## S\nx\n", "", said{Title: "T"}},
		"prose and a break":   {"---\nNote: this: that\n\n---\n" + body, "", said{Title: "T"}},
		"not at the start":    {"# T\n\n---\nslug: a\n\n---\n## S\nx\n", "", said{Title: "T"}},
		"indented":            {" ---\nslug: a\n ---\n" + body, "", said{Title: "T"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := parseOne(t, tc.doc)
			got := said{c.Title, c.AltTitle, c.Slug, c.Version, c.Tags}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("front matter says (-want +got):\n%s", diff)
			}
			if c.FrontMatter != tc.raw {
				t.Errorf("kept %q, want %q", c.FrontMatter, tc.raw)
			}
			if c.ID != protocol.ChainID(c.Title) {
				t.Errorf("ID = %s, want that of %q", c.ID, c.Title)
			}
			readsBack(t, []byte(tc.doc))
		})
	}
}

// Skills have a name and a description, and mostly an H1 besides.
func TestSkillsAreRead(t *testing.T) {
	type said struct{ Title, Alt, Summary string }
	const skill = "name: pdf-forms\ndescription: >\n  Fills in PDFs. Needed when\n  a form has to be completed."
	const summary = "Fills in PDFs. Needed when a form has to be completed."
	for doc, want := range map[string]said{
		"---\n" + skill + "\n---\n# Forms\n## S\nx\n":                       {"Forms", "pdf-forms", summary},
		"---\n" + skill + "\ntitle: Papers\n---\n# Forms\n## S\nx\n":        {"Forms", "Papers", summary},
		"---\n" + skill + "\ntitle: forms\n---\n# Forms\n## S\nx\n":         {"Forms", "pdf-forms", summary},
		"---\nname: Forms\ndescription: '  '\n---\n# Forms\n## S\nx\n":      {"Forms", "", ""},
		"---\ndescription: 7\n---\n# Forms\n\nabout\n\n## S\nx\n":           {"Forms", "", "7"},
		"---\n# a comment\ndescription: |\n  a\n\n  b\n---\n# T\n## S\nx\n": {"T", "", "a b"},
	} {
		c := parseOne(t, doc)
		if diff := cmp.Diff(want, said{c.Title, c.AltTitle, c.Summary}); diff != "" {
			t.Errorf("of %q is read (-want +got):\n%s", doc, diff)
		}
		readsBack(t, []byte(doc))
	}
	chains, _ := protocol.Parse([]byte("---\ndescription: About both.\n---\n# T\n## S\nx\n\n# U\n## S\nx\n"))
	if len(chains) != 2 || chains[0].Summary != "About both." || chains[1].Summary != "About both." {
		t.Errorf("of a document with two protocols is read %+v", chains)
	}
}

func TestTriggersAreRead(t *testing.T) {
	for doc, want := range map[string][]string{
		"triggers:\n  - the site is down\n  - Die Seite ist weg\n  - the site is down": {"the site is down", "Die Seite ist weg"},
		"triggers: nothing works, help": {"nothing works, help"},
		"triggers: [' a  b ', '']":      {"a b"},
		"triggers:":                     nil,
		"slug: a":                       nil,
	} {
		doc = "---\n" + doc + "\n---\n# T\n## S\nx\n"
		if diff := cmp.Diff(want, parseOne(t, doc).Triggers); diff != "" {
			t.Errorf("triggers of %q (-want +got):\n%s", doc, diff)
		}
		readsBack(t, []byte(doc))
	}
}

func TestFrontMatterOfSeveralProtocols(t *testing.T) {
	chains := mustParse(t, "---\nversion: 2\ntags: [a]\n---\n# A\n## a\n# B\n## b\n")
	for _, c := range chains {
		if c.Version != "2" || len(c.Tags) != 1 || c.Slug != "" {
			t.Errorf("%s: %+v, want version and tags", c.Title, c)
		}
	}
	if len(chains) != 2 {
		t.Errorf("got %d chains, want 2", len(chains))
	}
}

func TestFrontMatterDiagnostics(t *testing.T) {
	const body = "---\n# T\n## S\n"
	long := strings.Repeat("x", 201)
	for name, tc := range map[string]struct {
		doc          string
		severity     driver.Severity
		line, column int
		substring    string
	}{
		"an unknown key":         {"---\nslug: a\nowner: b\n" + body, driver.SeverityWarning, 3, 1, `"owner" is kept`},
		"a key in other case":    {"---\nTags: a\n" + body, driver.SeverityWarning, 2, 1, `did you mean "tags"`},
		"no value":               {"---\nslug: a\ntitle:\n" + body, driver.SeverityWarning, 3, 8, "no value"},
		"an odd slug":            {"---\nslug: a b\n" + body, driver.SeverityWarning, 2, 7, "slug"},
		"a slug that is a list":  {"---\nslug: [a]\n" + body, driver.SeverityError, 2, 7, "must be text"},
		"tags that are a map":    {"---\ntags: {a: b}\n" + body, driver.SeverityError, 2, 7, "must be text"},
		"a tag that is a list":   {"---\ntags:\n  - a\n  - [b]\n" + body, driver.SeverityError, 4, 5, "must be text"},
		"a long tag":             {"---\ntags: [é, " + long + "]\n" + body, driver.SeverityError, 2, 11, "201 characters"},
		"many tags":              {"---\ntags: [" + strings.Repeat("a, ", 101) + "]\n" + body, driver.SeverityError, 2, 7, "101 tags"},
		"a long title":           {"---\ntitle: " + strings.Repeat("x", 5001) + "\n" + body, driver.SeverityError, 2, 8, "5001 characters"},
		"NUL by an escape":       {"---\ntitle: \"a\\0b\"\n" + body, driver.SeverityError, 2, 8, "control characters"},
		"bad YAML":               {"---\nslug: a\ntags: [b\n" + body, driver.SeverityError, 3, 7, "not found"},
		"a duplicate key":        {"---\nslug: a\nslug: b\n" + body, driver.SeverityError, 3, 1, "already defined"},
		"an alias":               {"---\nslug: &a b\nversion: *a\n" + body, driver.SeverityError, 2, 7, "aliases"},
		"deep nesting":           {"---\nslug: a\nx: " + strings.Repeat("[", 99) + "\n" + body, driver.SeverityError, 3, 36, "nested"},
		"many triggers":          {"---\ntriggers: [" + strings.Repeat("a, ", 21) + "]\n" + body, driver.SeverityError, 2, 11, "21 triggers"},
		"a long trigger":         {"---\ntriggers: [a, " + long + "]\n" + body, driver.SeverityError, 2, 15, "201 characters"},
		"triggers as a map":      {"---\ntriggers: {a: b}\n" + body, driver.SeverityError, 2, 11, "must be text"},
		"triggers for two":       {"---\ntriggers: [a]\n" + body + "# U\n## S\n", driver.SeverityError, 2, 1, "2 protocols"},
		"too many tokens":        {"---\nslug: a\nx: [" + strings.Repeat("a,", 9000) + "]\n" + body, driver.SeverityError, 2, 1, "tokens"},
		"not closed":             {"---\nslug: a\n# T\n## S\n", driver.SeverityError, 1, 1, "not closed"},
		"more than 64 KiB":       {"---\nslug: a\n" + strings.Repeat("# x\n", 17<<10) + body, driver.SeverityError, 1, 1, "64 KiB"},
		"nothing else":           {"---\nslug: a\n---\n", driver.SeverityError, 1, 1, "empty"},
		"a slug for two":         {"---\nversion: 1\nslug: a\n" + body + "# U\n## S\n", driver.SeverityError, 3, 1, "2 protocols"},
		"a title for two":        {"---\ntitle: a\n" + body + "# U\n## S\n", driver.SeverityError, 2, 1, "2 protocols"},
		"prose between breaks":   {"---\nNote: a: b\n" + body, driver.SeverityWarning, 2, 7, "read as Markdown"},
		"a list between breaks":  {"---\na: b\n- c\n" + body, driver.SeverityWarning, 3, 1, "read as Markdown"},
		"lines below it are his": {"---\nslug: a\n---\n\n# T\n## S\n##\n", driver.SeverityWarning, 7, 1, "empty H2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := protocol.Parse([]byte(tc.doc))
			for _, d := range found {
				if d.Severity == tc.severity && d.Line == tc.line && d.Column == tc.column && strings.Contains(d.Message, tc.substring) {
					return
				}
			}
			t.Errorf("Parse found %v, want a %s at %d:%d with %q", found, tc.severity, tc.line, tc.column, tc.substring)
		})
	}
}

// YAML that makes parsers slow must not make this one slow.
func TestHostileFrontMatterTakesLittleTime(t *testing.T) {
	const size = 60 << 10
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var keys, steps strings.Builder
	for i := 0; keys.Len() < size; i++ {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	for i := 0; steps.Len() < size; i++ {
		steps.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, yaml := range map[string]string{
		"brackets": fill("["), "braces": fill("{a: "), "entries": "\n " + fill("- "), "questions": fill("? "), "quotes": fill("\""),
		"anchors": fill("&a "), "aliases": fill("*a "), "tags": fill("!!x "), "blocks": fill("|\n "), "commas": "[" + fill(","),
		"colons": fill(": "), "comments": "b\n" + fill("#\n"), "flow": "[" + fill("a: b,"), "plain": fill("x\n  "), "escapes": "\"" + fill("\\n"),
		"keys": "b\n" + keys.String(), "steps": "\n" + steps.String(), "breaks": fill("\n"), "merges": fill("<<: "), "percent": "\n" + fill("%\n"),
	} {
		costsLikeProse(t, name, "---\nslug: "+yaml+"\n---\n# T\n## S\n")
	}
}

func TestPositionsAreThoseOfTheDocument(t *testing.T) {
	doc := "---\nslug: a\n---\n# T\r\n## S\n\n- do\n\n  " + fence + "json\n  {\n    \"challenge\": {\n      \"type\": \"é\", \"é\": {\"a/b\": [1, {\"c\": 2}]}\n    }\n  }\n  " + fence + "\n"
	s := parseOne(t, doc).Steps[0]
	for pointer, want := range map[string]protocol.Place{
		"":              {11, 18},
		"/type":         {12, 15},
		"/é":            {12, 25},
		"/é/a~1b":       {12, 33},
		"/é/a~1b/0":     {12, 34},
		"/é/a~1b/1/c":   {12, 43},
		"/é/a~1b/1/d/e": {12, 37}, // there is none: the object it would be in
		"/nothing":      {11, 18},
		"no pointer":    {11, 18},
	} {
		if got := s.Position(pointer); got != want {
			t.Errorf("Position(%q) = %+v, want %+v", pointer, got, want)
		}
	}
	legacy := parseOne(t, "# T\n## S\n\nPROOF OF WORK: make\n").Steps[0]
	if got := legacy.Position("/cmd"); got != (protocol.Place{Line: 4, Column: 1}) {
		t.Errorf("Position in a legacy line = %+v, want 4:1", got)
	}
	if got := (protocol.Step{}).Position("/x"); got != (protocol.Place{Line: 1, Column: 1}) {
		t.Errorf("Position without a document = %+v, want 1:1", got)
	}
}

func TestFrontMatterEndsWithAWholeLine(t *testing.T) {
	// The line that only begins like the end of the front matter is where the
	// look for that ends.
	for before := 64<<10 - 8; before <= 64<<10; before++ {
		head := "slug: a\n# "
		document := "---\n" + head + strings.Repeat("x", before-len(head)-1) + "\n---not the end\n---\n\n# T\n\n## A\n\na\n"
		chains, found := protocol.Parse([]byte(document))
		for _, c := range chains {
			if c.FrontMatter != "" {
				t.Errorf("with %d bytes before it a line that begins with dashes ends the front matter: %v", before, found)
			}
		}
	}
}
