package protocol_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// TestNearMissesOfTexts has what is almost right in headings, names and front matter:
// nothing of it passes in silence. A row whose said is empty must find nothing.
func TestNearMissesOfTexts(t *testing.T) {
	step := "\n\nx\n\n" + block(`{"type":"x"}`)
	named := func(name, template string) string {
		return "# T\n\n## A" + "\n\nx\n\n" + block(`{"type":"x","name":"`+name+`"}`) + "\n## B\n\nx\n\n" + block(`{"type":"x","x":{"a":"{{ steps.`+template+`.v }}"}}`)
	}
	front := func(yaml string) string { return "---\n" + yaml + "\n---\n\n# T\n\n## A" + step }
	headed := func(heading string) string { return "# T\n\n## " + heading + step }
	for _, row := range []struct{ name, doc, said string }{
		{"a word that begins with a number", headed("3-way merge"), `the label loses "3-"`},
		{"a dotted number", headed("1.1.2 Require a second factor"), `the label loses "1.1."`},
		{"a time", headed("12:30 stand-up"), `the label loses "12:"`},
		{"a date", headed("2026-01-31 cut-over"), `the label loses "2026-01-"`},
		{"an error code", headed("500 - internal server error"), `the label loses "500 -"`},
		{"a decimal number", headed("3.5 mm jack"), `the label loses "3."`},
		{"a day in German", headed("10. Oktober: Stichtag"), `the label loses "10."`},
		{"a version", headed("1.2.3 release"), `the label loses "1.2."`},
		{"a duration", headed("5-minute smoke test"), `the label loses "5-"`},
		{"a number of its step", headed("1. Prepare"), ""},
		{"Step and a number", headed("Step 12: Ship"), ""},
		{"a number without separator", headed("401 errors"), ""},
		{"a word with a digit", headed("3D printing"), ""},
		{"numbers that count up", "# T\n\n## 7. A" + step + "\n## 8. B" + step, ""},
		{"a name in capitals", named("Größe", "größe"), "must be lower-case letters of any language"},
		{"a name that begins with a digit", named("2größe", "a"), "not starting with a digit"},
		{"a name with a blank", named("größe prüfen", "a"), "must be lower-case letters"},
		{"a name with a hyphen", named("größe-prüfen", "a"), "must be lower-case letters"},
		{"a template in other letters", named("größe", "groesse"), ""},
		{"a template that was not composed", named("größe", "gro\u0308ße"), ""},
		{"a name that was not composed", named("gro\u0308ße", "größe"), ""},
		{"a template in Han", named("確認", "確認"), ""},
		{"a template that loses a letter", named("größe", "grosse"), `no step named "grosse"`},
		{"the former name of an umlaut", named("größe", "gr__e"), `no step named "gr__e"`},
		{"one name in two spellings", "# T\n\n## A\n\n" + block(`{"type":"x","name":"größe"}`) + "\n## B\n\n" + block(`{"type":"x","name":"groesse"}`), `is the name "größe" of another step in other letters`},
		{"a colon in a description", front("name: rotate\ndescription: Rotates keys: use when one leaked"), `3:14: error: front matter: mapping value is not allowed in this context; put the value in quotes: description: "Rotates keys: use when one leaked"`},
		{"a colon in a title", front("title: Deploy: production"), `put the value in quotes: title: "Deploy: production"`},
		{"a colon in a trigger", front("triggers:\n  - deploy: now\n  - b"), "a trigger must be text"},
		{"a glob", front("globs: **/*.ts\nalwaysApply: false"), `put the value in quotes: globs: "**/*.ts"`},
		{"a percent sign", front("name: a\nload: %cpu"), `put the value in quotes: load: "%cpu"`},
		{"an at sign", front("owner: @team\nname: a"), `put the value in quotes: owner: "@team"`},
		{"a backquote", front("name: a\nrun: `ls`"), "put the value in quotes: run: \"`ls`\""},
		{"quotes in the value", front("name: a\ndescription: Say \"no\": always"), `put the value in quotes: description: "Say \"no\": always"`},
		{"a quote that is not closed", front("name: \"a"), "error: front matter:"},
		{"a bracket that is not closed", front("tags: [a, b"), "error: front matter:"},
		{"a tab", front("name: a\n\ttags: b"), "error: front matter:"},
		{"front matter that is not closed", "---\ntitle: A\n\n# T" + step, "not closed by a line ---"},
		{"a key in capitals", front("Title: A"), `did you mean "title"?`},
		{"an unknown key", front("author: A"), `the key "author" is kept, but means nothing`},
		{"a key with a letter too many", front("descriptions: A"), `the key "descriptions" is kept, but means nothing; did you mean "description"?`},
		{"a key with a letter less", front("trigger: A"), `the key "trigger" is kept, but means nothing; did you mean "triggers"?`},
		{"a list as description", front("description: [A]"), "description must be text"},
		{"a description without a value", front("description:"), "description has no value"},
		{"a description of two protocols", front("description: A") + "\n# U\n\n## A" + step, ""},
		{"a list as title", front("title: [A]"), "title must be text"},
		{"an object as name", front("name: {a: b}"), "name must be text"},
		{"a name without a value", front("name:"), "name has no value"},
		{"too many triggers", front("triggers: [" + strings.Repeat("a, ", 21) + "b]"), "at most 20 are allowed"},
		{"a key twice", front("title: A\ntitle: B"), "already defined"},
		{"a sentence between lines", front("Note: this: that\n"), "read as Markdown"},
		{"a name in quotes", front("name: \"a: b\""), ""},
		{"comments and a URL", front("# x: y: z\nname: a http://b"), ""},
		{"an H1 without text", "#\n\n## A" + step, "the H1 has no text"},
		{"two H1s of one title", "# T\n\n## A" + step + "\n# t \n\n## B" + step, "two protocols of the document have the title"},
		{"text before the H1", "Read me.\n\n# T\n\n## A" + step, "belongs to no protocol and is dropped"},
		{"an H1 without anything", "# T\n\n## A" + step + "\n# U\n", "it is dropped"},
		{"an empty H2", "# T\n\n## A" + step + "\n##\n\nx", "an empty H2 begins no step"},
		{"an H2 without a blank", "# T\n\n##A" + step, "a document without H2 has no challenge; give the step an H2 heading"},
		{"dashes below text", "# T\n\n## A\n\nNote\n---" + step, "the line of dashes below makes this text a step heading"},
		{"no H2", "# T\n\nDo it.", "the document has no H2, so it is one step without a challenge"},
		{"a step without a challenge", "# T\n\n## A\n\nx", "the step has no challenge"},
		{"steps below a step", "# T\n\n## Steps\n\n### 1. One\n\na\n\n### 2. Two" + step, "2 numbered headings below it are not H2"},
		{"files that an agent reports", "# T\n\n## A\n\nx\n\n" + block(`{"type":"x","files":[{"path":"a"}]}`), `at /files: KAIROS checks these files only where the client has roots`},
		{"files that are required", "# T\n\n## A\n\nx\n\n" + block(`{"type":"x","files":[{"path":"a"}],"files_required":true}`), ""},
		{"nothing", "", "the document is empty"},
		{"blanks", " \n\t\n", "the document is empty"},
		{"front matter alone", "---\nname: a\n---\n", "empty but for its front matter"},
		{"bytes that are not text", "# T\n\xff", "not valid UTF-8: the byte here is 0xff"},
		{"a program", "\x7fELF\x00\x01", "a NUL character"},
		{"UTF-16", "\xff\xfe#\x00 \x00T\x00", "not valid UTF-8"},
		{"eleven megabytes", strings.Repeat("# T\n", 3<<20), "at most 10485760 are allowed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			chains, found := protocol.Parse([]byte(row.doc))
			for _, c := range chains {
				found = append(found, protocol.CheckReferences(c)...)
				found = append(found, protocol.Advise(c, found)...)
			}
			var all []string
			for _, d := range found {
				all = append(all, d.String())
			}
			said := strings.Join(all, "\n")
			if row.said == "" && said != "" || !strings.Contains(said, row.said) {
				t.Errorf("found %q, want %q", said, row.said)
			}
		})
	}
}

func TestNamesKeepLettersOfEveryLanguage(t *testing.T) {
	for label, want := range map[string]string{
		"Größe prüfen": "groesse_pruefen", "GRO\u0308SSE": "groesse", "Überblick holen": "ueberblick_holen", "確認": "確認", "データの確認 2": "データの確認_2",
		"Vérifier l'état": "verifier_l_etat", "Œuvre": "oeuvre", "Sjekk nøkkelen på bånd": "sjekk_noekkelen_paa_baand", "Zażółć gęślą jaźń": "zazolc_gesla_jazn",
		"Ελέγξτε": "ελέγξτε", "Проверить ёлку": "проверить_ёлку", "जाँच करें": "जाँच_करें", "İstanbul": "istanbul", "ﬁle": "file", "Ｆｕｌｌ": "full",
		"Þórr": "thorr", "Tiếng Việt": "tieng_viet", "تحقق": "تحقق", "3-D": "_3_d", "🚀": "", "…": "",
	} {
		if got := protocol.Slug(label); got != want {
			t.Errorf("Slug(%q) = %q, want %q", label, got, want)
		}
	}
}

func TestANameOfAChallengeWinsOverThoseOfHeadings(t *testing.T) {
	c := parseOne(t, "# T\n\n## Größe\n\nx\n\n## B\n\n"+block(`{"type":"x","name":"größe"}`))
	if got := strings.Join(names(c), " "); got != "groesse_2 größe" {
		t.Errorf("names = %s", got)
	}
}

func TestAFileWithoutATitleIsTitledByItsName(t *testing.T) {
	for name, row := range map[string]struct{ doc, file, title, label, from string }{
		"an H1":                   {"# T\n\n## A\n", "a.md", "T", "A", ""},
		"a title":                 {"---\ntitle: U\n---\n\n## A\n", "a.md", "U", "A", ""},
		"a name":                  {"---\nname: rotate-keys\n---\n\n## A\n", "a.md", "rotate-keys", "A", "front matter"},
		"a name and no blank":     {"---\nname: rotate-keys\n---\n## A\n", "a.md", "rotate-keys", "A", "front matter"},
		"neither":                 {"## Reason\n\nx\n", "no-h1/cache.md", "cache", "Reason", "the file"},
		"neither and a blank":     {"\n\n## Reason\n\nx\n", "cache.md", "cache", "Reason", "the file"},
		"a table":                 {"| Action | A |\n|---|---|\n| do | x |\n", "pe01.md", "pe01", "pe01", "the file"},
		"a skill":                 {"Do it.\n", "skills/rotate/SKILL.md", "rotate", "rotate", "the file"},
		"a hash in the file name": {"x\n", "a ##.md", "a", "a", "the file"},
		"no file":                 {"## Reason\n\nx\n", "", "Reason", "Reason", ""},
		"a table and no file":     {"| Action | A |\n|---|---|\n\nDo the thing.\n", "", "Do the thing.", "Do the thing.", ""},
		"only a table":            {"| Action | A |\n|---|---|\n", "", "Memory", "Memory", ""},
		"a comment":               {"<!-- licence -->\n\nDo it.\n", "", "Do it.", "Do it.", ""},
	} {
		chains, found := protocol.ParseFile([]byte(row.doc), row.file)
		if len(chains) != 1 || chains[0].Title != row.title || chains[0].Steps[0].Label != row.label {
			t.Errorf("%s: got %+v, %v", name, chains, found)
			continue
		}
		said := len(found) > 0 && strings.Contains(found[0].Message, "its title is") && strings.Contains(found[0].Message, row.from)
		if said != (row.from != "") {
			t.Errorf("%s: found %v", name, found)
		}
		if line := strings.Count(row.doc[:max(strings.Index(row.doc, "## "), 0)], "\n") + 1; chains[0].Steps[0].Line != line {
			t.Errorf("%s: the step is at line %d, want %d", name, chains[0].Steps[0].Line, line)
		}
		readsBack(t, protocol.TitleFile([]byte(row.doc), row.file).Document)
	}
}
