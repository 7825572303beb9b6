package filecheck_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"

// one is the only check of a list that must be sound.
func one(t *testing.T, entry string) filecheck.Check {
	t.Helper()
	checks, found := filecheck.Parse(json.RawMessage("[" + entry + "]"))
	if len(found) > 0 || len(checks) != 1 {
		t.Fatalf("Parse(%s) = %+v, %v, want one check", entry, checks, found)
	}
	return checks[0]
}

func TestAListOfFilesIsReadOrRefusedAtItsPlace(t *testing.T) {
	deep := strings.Repeat("**/", 5) + "x"
	for name, tc := range map[string]struct{ files, want string }{
		"one path":           {`[{"path":"out/report.md"}]`, ""},
		"everything":         {`[{"path":"a","exists":true,"min_size":1,"max_size":9,"sha256":"` + strings.ToUpper(digest) + `","contains":"x","regex":"^x","json_schema":{"type":"object"},"newer_than_run":true}]`, ""},
		"a glob":             {`[{"glob":"out/**/*.md","min_count":0,"max_count":3}]`, ""},
		"absent":             {`[{"path":"a","absent":true},{"glob":"*.tmp","absent":true},{"path":"b","exists":false}]`, ""},
		"said twice, agreed": {`[{"path":"a","exists":false,"absent":true}]`, ""},
		"unicode":            {`[{"path":"Übung/日本.txt"}]`, ""},
		"null is nothing":    {`null`, ""},
		"null members":       {`[{"path":"a","glob":null,"json_schema":null}]`, ""},

		"an object":            {`{"path":"a"}`, `must be a list, not an object`},
		"empty":                {`[]`, `from 1 to 64`},
		"too many":             {`[` + strings.Repeat(`{"path":"a"},`, 64) + `{"path":"a"}]`, `from 1 to 64`},
		"a string":             {`["a"]`, `/0: must be an object, not a string`},
		"no name":              {`[{"exists":true}]`, `/0/path: is missing`},
		"two names":            {`[{"path":"a","glob":"b"}]`, `/0/glob: stands beside path`},
		"the second is wrong":  {`[{"path":"a"},{"path":7}]`, `/1/path: must be a string, not a number`},
		"absolute":             {`[{"path":"/etc/passwd"}]`, `/0/path: must be relative`},
		"climbs":               {`[{"path":"a/../../b"}]`, `/0/path: must name a file below a root`},
		"climbs in a glob":     {`[{"glob":"../*"}]`, `/0/glob: must name a file below a root`},
		"a dot":                {`[{"path":"./a"}]`, `/0/path: must name a file`},
		"the root":             {`[{"path":"."}]`, `/0/path: must name a file`},
		"a folder's slash":     {`[{"path":"a/"}]`, `/0/path: must name a file`},
		"nothing":              {`[{"path":""}]`, `/0/path: must name a file`},
		"backslashes":          {`[{"path":"a\\b"}]`, `/0/path: must have slashes`},
		"NUL":                  {`[{"path":"a\u0000"}]`, `/0/path: must be readable text`},
		"long":                 {`[{"path":"` + strings.Repeat("a", 1025) + `"}]`, `/0/path: must have at most 1024 bytes`},
		"misspelt":             {`[{"path":"a","sha_256":"x"}]`, `/0/sha_256: is not known`},
		"exists and absent":    {`[{"path":"a","exists":true,"absent":true}]`, `/0/absent: contradicts exists`},
		"absent with a size":   {`[{"path":"a","absent":true,"min_size":1}]`, `/0/min_size: cannot be true of a file that must not be there`},
		"absent and new":       {`[{"path":"a","exists":false,"newer_than_run":true}]`, `/0/newer_than_run: cannot`},
		"half a byte":          {`[{"path":"a","min_size":0.5}]`, `/0/min_size: must be a whole number`},
		"negative":             {`[{"path":"a","max_size":-1}]`, `/0/max_size: must be a whole number`},
		"sizes crossed":        {`[{"path":"a","min_size":2,"max_size":1}]`, `/0/min_size: is more than max_size`},
		"counts crossed":       {`[{"glob":"a","min_count":2,"max_count":1}]`, `/0/min_count: is more than max_count`},
		"counts of a path":     {`[{"path":"a","max_count":1}]`, `/0/max_count: counts the files of a glob`},
		"short digest":         {`[{"path":"a","sha256":"ba78"}]`, `/0/sha256: must be 64 hexadecimal digits`},
		"contains nothing":     {`[{"path":"a","contains":""}]`, `/0/contains: must have from 1`},
		"no expression":        {`[{"path":"a","regex":"(("}]`, `/0/regex: is not a regular expression of RE2: missing closing )`},
		"a look-ahead":         {`[{"path":"a","regex":"(?=a)"}]`, `/0/regex: is not a regular expression`},
		"no schema":            {`[{"path":"a","json_schema":{"type":"objekt"}}]`, `/0/json_schema: not a valid JSON Schema`},
		"a schema elsewhere":   {`[{"path":"a","json_schema":{"$ref":"file:///etc/passwd"}}]`, `/0/json_schema: not a usable`},
		"a schema that is one": {`[{"path":"a","json_schema":true}]`, `/0/json_schema: must be a JSON Schema, an object`},
		"an open bracket":      {`[{"glob":"a[b"}]`, `/0/glob: the part "a[b" is not a pattern`},
		"** with more":         {`[{"glob":"a**/b"}]`, `/0/glob: ** must stand alone`},
		"** at the end":        {`[{"glob":"a/**"}]`, `/0/glob: must end in the name of a file`},
		"too many **":          {`[{"glob":"` + deep + `"}]`, `/0/glob: ** may stand in it at most 4 times`},
		"a key twice":          {`[{"path":"a","path":"b"}]`, `occurs twice`},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := filecheck.Parse(json.RawMessage(tc.files))
			if text := fields.Text(found); (tc.want == "") != (text == "") || !strings.Contains(text, tc.want) {
				t.Errorf("Parse(%.200s) finds %q, want %q", tc.files, text, tc.want)
			}
		})
	}
}

func TestTemplatesStandOnlyWhereAValueIsNotAPattern(t *testing.T) {
	template := regexp.MustCompile(`\{\{[^}]*\}\}`)
	for files, want := range map[string]string{
		`[{"path":"out/{{ input.name }}.md","sha256":"{{ steps.a.sum }}","contains":"{{ input.name }}"}]`: "",
		`[{"path":"{{ input.path }}"}]`:                        "",
		`[{"path":"../{{ input.name }}"}]`:                     "/0/path: must name a file below a root",
		`[{"path":"/{{ input.name }}"}]`:                       "/0/path: must be relative",
		`[{"glob":"{{ input.name }}/*"}]`:                      "/0/glob: no template may stand here",
		`[{"path":"a","regex":"^{{ input.name }}$"}]`:          "/0/regex: no template may stand here",
		`[{"path":"a","json_schema":{"const":"{{ input }}"}}]`: "/0/json_schema: no template may stand here",
		`[{"path":"a","sha256":"abc"}]`:                        "/0/sha256: must be 64",
	} {
		if text := fields.Text(filecheck.Lint(json.RawMessage(files), template)); (want == "") != (text == "") || !strings.Contains(text, want) {
			t.Errorf("Lint(%s) finds %q, want %q", files, text, want)
		}
	}
}

func TestAGlobMatchesWholePathsExactly(t *testing.T) {
	for _, tc := range []struct {
		glob, path string
		want       bool
	}{
		{"*.md", "a.md", true},
		{"*.md", "x/a.md", false},
		{"*.md", "a.MD", false},
		{"*", ".hidden", true},
		{"x/?.md", "x/ä.md", true},
		{"x/[a-c].md", "x/d.md", false},
		{"**/*.md", "a.md", true},
		{"**/*.md", "x/y/z/a.md", true},
		{"x/**/y/*.md", "x/y/a.md", true},
		{"x/**/y/*.md", "x/1/2/y/a.md", true},
		{"x/**/y/*.md", "x/1/2/a.md", false},
		{"**/x/**/x/*", "x/a/x/x/b", true},
		{"x", "x", true},
		{"x", "x/y", false},
		{"*/../y", "", false},
		{"*", "../x", false},
	} {
		checks, _ := filecheck.Parse(json.RawMessage(fmt.Sprintf(`[{"glob":%q}]`, tc.glob)))
		if got := len(checks) == 1 && checks[0].Glob.Match(tc.path); got != tc.want {
			t.Errorf("glob %s matches %s: %v, want %v", tc.glob, tc.path, got, tc.want)
		}
	}
}

func TestAWalkEndsWhereNothingCanMatch(t *testing.T) {
	w := one(t, `{"glob":"src/**/test/*.go"}`).Glob.Start()
	if w.Only() != "src" || w.Takes("src") || !w.Enter("lib").Over() {
		t.Errorf("in the root: only %q, takes src %v, enters lib %v", w.Only(), w.Takes("src"), !w.Enter("lib").Over())
	}
	w = w.Enter("src")
	if w.Over() || w.Only() != "" || w.Takes("a.go") || !w.Enter("test").Takes("a.go") || !w.Enter("x").Enter("test").Takes("a.go") {
		t.Error("src/**/test/*.go does not walk below src")
	}
	if flat := one(t, `{"glob":"a/*"}`).Glob.Start().Enter("a"); !flat.Enter("b").Over() {
		t.Error("a/* walks below a/b")
	}
}

func TestWhatAFileFailsIsNamed(t *testing.T) {
	for name, tc := range map[string]struct{ entry, content, want string }{
		"digest":           {`{"path":"a","sha256":"` + digest + `"}`, "abc", ""},
		"another digest":   {`{"path":"a","sha256":"` + strings.Repeat("0", 64) + `"}`, "abc", "sha256"},
		"text":             {`{"path":"a","contains":"b"}`, "abc", ""},
		"no text":          {`{"path":"a","contains":"B"}`, "abc", "contains"},
		"expression":       {`{"path":"a","regex":"^a.c$"}`, "abc", ""},
		"no expression":    {`{"path":"a","regex":"^b"}`, "abc", "regex"},
		"schema":           {`{"path":"a","json_schema":{"type":"object","required":["x"]}}`, `{"x":1}`, ""},
		"no match":         {`{"path":"a","json_schema":{"type":"object","required":["x"]}}`, `{"y":1}`, "json_schema"},
		"no JSON":          {`{"path":"a","json_schema":{}}`, `x`, "json_schema"},
		"JSON nested deep": {`{"path":"a","json_schema":{}}`, strings.Repeat("[", 5000), "json_schema"},
		"too small":        {`{"path":"a","min_size":4}`, "abc", "min_size"},
		"too large":        {`{"path":"a","max_size":2}`, "abc", "max_size"},
		"just right":       {`{"path":"a","min_size":3,"max_size":3}`, "abc", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := one(t, tc.entry)
			failed, why := c.Size(int64(len(tc.content)))
			if failed == "" {
				failed, why = c.Content(t.Context(), []byte(tc.content), digest)
			}
			if failed != tc.want || (why == "") != (tc.want == "") {
				t.Errorf("%s of %q fails %q (%s), want %q", tc.entry, tc.content, failed, why, tc.want)
			}
		})
	}
}

// slow is an expression that costs much for each character.
const slow = `((a{0,30}){0,30}){0,1}[^a]$`

// patience is a context that is done once somebody has looked at it often enough.
type patience struct {
	context.Context
	left, looks int
}

func (p *patience) Err() error {
	if p.looks++; p.looks <= p.left {
		return nil
	}
	return context.DeadlineExceeded
}

func TestMatchingEndsWithTheTimeOfTheLook(t *testing.T) {
	long := strings.Repeat("a", 100_000) // a thousand looks, if nobody heeds them
	for entry, content := range map[string]string{
		`{"path":"a","regex":"` + slow + `"}`:                                     long,
		`{"path":"a","json_schema":{"pattern":"` + slow + `"}}`:                   `"` + long + `"`,
		`{"path":"a","json_schema":{"patternProperties":{"` + slow + `":false}}}`: `{"` + long + `":1}`,
	} {
		c, ctx := one(t, entry), &patience{Context: t.Context(), left: 10}
		failed, why := c.Content(ctx, []byte(content), "")
		if failed == "" || !strings.Contains(why, "too long") || ctx.looks <= ctx.left || ctx.looks > ctx.left+10 {
			t.Errorf("%.60s: %q because %q after %d looks, want it given up after %d", entry, failed, why, ctx.looks, ctx.left)
		}
	}
}

func TestExpressionsThatCostTooMuchAreRefused(t *testing.T) {
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprintf(`"p%d":{"pattern":"%d.{900}"}`, i, i)
	}
	for _, entry := range []string{
		`{"path":"a","regex":"` + strings.Repeat("(ab?){999}", 10) + `"}`,
		`{"path":"a","json_schema":{"pattern":"` + strings.Repeat("(ab?){999}", 10) + `"}}`,
		`{"path":"a","json_schema":{"properties":{` + strings.Join(many, ",") + `}}}`,
	} {
		_, found := filecheck.Parse(json.RawMessage("[" + entry + "]"))
		if len(found) != 1 || !strings.Contains(found[0].Message, "steps") {
			t.Errorf("Parse(%.80s) finds %v, want that it takes too many steps", entry, found)
		}
	}
}

func TestReasonsQuoteNoValueOfTheContent(t *testing.T) {
	const secret = "hunter2"
	for _, entry := range []string{
		`{"path":"a","contains":"x"}`, `{"path":"a","regex":"x"}`, `{"path":"a","sha256":"` + digest + `"}`,
		`{"path":"a","json_schema":{"properties":{"key":{"const":1}}}}`, `{"path":"a","json_schema":{"additionalProperties":false}}`,
		`{"path":"a","json_schema":{"properties":{"key":{"pattern":"^x"}}}}`,
	} {
		if failed, why := one(t, entry).Content(t.Context(), []byte(`{"key":"`+secret+`"}`), ""); failed == "" || strings.Contains(why, secret) {
			t.Errorf("%s fails %q: %q", entry, failed, why)
		}
	}
}

func TestCountsAreOfFilesThatMatch(t *testing.T) {
	for _, tc := range []struct {
		entry string
		n     int
		want  string
	}{
		{`{"glob":"*"}`, 0, "min_count"},
		{`{"glob":"*"}`, 1, ""},
		{`{"glob":"*","min_count":2}`, 1, "min_count"},
		{`{"glob":"*","max_count":2}`, 3, "max_count"},
		{`{"glob":"*","max_count":0}`, 0, ""},
		{`{"glob":"*","absent":true}`, 1, "absent"},
		{`{"glob":"*","absent":true}`, 0, ""},
	} {
		if failed, _ := one(t, tc.entry).Count(tc.n); failed != tc.want {
			t.Errorf("%s with %d files fails %q, want %q", tc.entry, tc.n, failed, tc.want)
		}
	}
}

func TestAReportIsComparedWithWhatIsDemanded(t *testing.T) {
	file := func(path string, size int) string {
		return fmt.Sprintf(`{"path":%q,"exists":true,"size":%d,"sha256":%q}`, path, size, digest)
	}
	const invalid = "not a report: "
	for name, tc := range map[string]struct{ checks, files, want string }{
		"as demanded":      {`{"path":"a","min_size":3,"sha256":"` + digest + `"}`, file("a", 3), ""},
		"with one more":    {`{"path":"a"}`, file("a", 3) + "," + file("b", 3), ""},
		"content unseen":   {`{"path":"a","contains":"x"}`, file("a", 3), ""},
		"absent":           {`{"path":"a","absent":true}`, `{"path":"a","exists":false}`, ""},
		"upper case":       {`{"path":"a","sha256":"` + digest + `"}`, strings.Replace(file("a", 3), digest, strings.ToUpper(digest), 1), ""},
		"not reported":     {`{"path":"a"}`, file("b", 3), "a: it is not reported"},
		"absence unsaid":   {`{"path":"a","absent":true}`, file("b", 3), "a: it is not reported"},
		"not there":        {`{"path":"a"}`, `{"path":"a","exists":false}`, "a: it must be there"},
		"there":            {`{"path":"a","absent":true}`, file("a", 3), "a: it must not be there"},
		"small":            {`{"path":"a","min_size":4}`, file("a", 3), "a: it has 3 bytes"},
		"another digest":   {`{"path":"a","sha256":"` + strings.Repeat("0", 64) + `"}`, file("a", 3), "another than demanded"},
		"glob":             {`{"glob":"*.md","min_count":2}`, file("a.md", 3) + "," + file("b.md", 3), ""},
		"too few":          {`{"glob":"*.md","min_count":2}`, file("a.md", 3) + `,{"path":"b.md","exists":false}`, "*.md: 1 files match"},
		"one is small":     {`{"glob":"*.md","min_size":4}`, file("a.md", 9) + "," + file("b.md", 3), "b.md: it has 3 bytes"},
		"glob absent":      {`{"glob":"*.tmp","absent":true}`, file("a.tmp", 1), "1 files match it, none may"},
		"size left out":    {`{"path":"a"}`, `{"path":"a","exists":true,"sha256":"` + digest + `"}`, invalid + "/files/0/size: is missing"},
		"digest left out":  {`{"path":"a"}`, `{"path":"a","exists":true,"size":1}`, invalid + "/files/0/sha256: is missing"},
		"digest made up":   {`{"path":"a"}`, `{"path":"a","exists":true,"size":1,"sha256":"yes"}`, invalid + "/files/0/sha256: must be 64"},
		"exists left out":  {`{"path":"a"}`, `{"path":"a"}`, invalid + "/files/0/exists: is missing"},
		"twice":            {`{"path":"a"}`, file("a", 3) + "," + file("a", 4), invalid + "/files/1/path: is reported twice"},
		"an absolute path": {`{"path":"a"}`, file("/a", 3), invalid + "/files/0/path: must be relative"},
		"no object":        {`{"path":"a"}`, `"a"`, invalid + "/files/0: must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			report, problems := filecheck.ReadReport(json.RawMessage(`{"files":[` + tc.files + `]}`))
			got := strings.Join(report.Contradictions([]filecheck.Check{one(t, tc.checks)}), "; ")
			if len(problems) > 0 {
				got = invalid + fields.Text(problems)
			}
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s against %s: %q, want %q", tc.files, tc.checks, got, tc.want)
			}
		})
	}
	for _, value := range []string{`{}`, `{"files":{}}`, `[]`, `"all is well"`, `{"files":null}`} {
		if _, problems := filecheck.ReadReport(json.RawMessage(value)); len(problems) == 0 {
			t.Errorf("ReadReport(%s) finds nothing wrong", value)
		}
	}
}

func TestOnlyAResultThatSaysSoHasPassed(t *testing.T) {
	for value, want := range map[string]struct{ read, passed bool }{
		`{"passed":true}`: {true, true}, `{"passed":false}`: {true, false}, `{"passed":null}`: {}, `{}`: {}, `{"passed":"yes"}`: {}, `[]`: {},
	} {
		if r, ok := filecheck.ReadResult(json.RawMessage(value)); ok != want.read || r.Passed != want.passed {
			t.Errorf("ReadResult(%s) = %+v, %v", value, r, ok)
		}
	}
}

func TestARootIsAFolderOfThisMachine(t *testing.T) {
	for text, want := range map[string]string{
		"/srv/": "/srv", "/srv/../x": "/x", "file:///srv/a%20b": "/srv/a b", "file://localhost/srv": "/srv", "FILE:///srv": "/srv",
		"file:/srv": "/srv", "File:/srv/x": "/srv/x", "file:///a%b": "", `\\server\share`: "", "file:srv": "", "mailto:/x": "",
		"work": "", "": "", "file://host/work": "", "https://host/work": "", "file:///a?b": "", "file:///%00": "", "file://": "", "~": "",
	} {
		got, err := filecheck.Root(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Root(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// Any list is read without a panic, and a name that is taken
// stays below its root.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{
		`[{"path":"a/b"}]`, `[{"glob":"**/[a-z]*"}]`, `[{"path":"..","sha256":"x"}]`, `[{"path":"a","regex":"(a|b)*$","json_schema":{"type":"string"}}]`, `[[]]`, `{"0":{}}`,
	} {
		f.Add([]byte(seed), "a/b")
	}
	f.Fuzz(func(t *testing.T, files []byte, name string) {
		checks, found := filecheck.Parse(files)
		if fields.AnyError(found) {
			return
		}
		for _, c := range checks {
			if strings.HasPrefix(c.Name(), "/") || strings.Contains("/"+c.Name()+"/", "/../") || c.Name() == "" {
				t.Errorf("Parse(%s) takes the name %q", files, c.Name())
			}
			c.Content(t.Context(), []byte(name), "")
			if c.Path == "" && c.Glob.Match(name) && strings.Contains("/"+name+"/", "/../") {
				t.Errorf("%q matches %q", c.Name(), name)
			}
		}
	})
}

// A report that is read never passes a file that it says is missing.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"files":[{"path":"a","exists":false}]}`))
	f.Add([]byte(`{"files":[{"path":"a","exists":true,"size":3,"sha256":"` + digest + `"}]}`))
	checks, _ := filecheck.Parse(json.RawMessage(`[{"path":"a"}]`))
	f.Fuzz(func(t *testing.T, value []byte) {
		report, problems := filecheck.ReadReport(value)
		if len(problems) == 0 && len(report.Contradictions(checks)) == 0 && !strings.Contains(string(value), "true") {
			t.Errorf("the report %s passes", value)
		}
	})
}
