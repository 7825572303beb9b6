// Package docs_test checks the manual: links have a target, and the generated pages
// match the code.
package docs_test

import (
	"fmt"
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} (.+)$`)
	// A heading becomes an anchor in lower case, with - for spaces and without the rest.
	unanchored = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestEveryRelativeLinkLeadsSomewhere covers every Markdown page of the tree,
// anchors included. Code spans and blocks are ignored.
func TestEveryRelativeLinkLeadsSomewhere(t *testing.T) {
	pages := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "node_modules" || name == "bin" || name == "build" || name == "scaffold") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		pages++
		prose, _ := read(t, path)
		for _, found := range link.FindAllStringSubmatch(prose, -1) {
			follow(t, path, found[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 20 {
		t.Fatalf("found only %d pages; the test looks in the wrong place", pages)
	}
}

// TestPagesOfTheManualAreShort keeps pages to one subject, and every page within
// reach of the index.
func TestPagesOfTheManualAreShort(t *testing.T) {
	index := readFile(t, "README.md")
	for _, pattern := range []string{"*.md", "tutorials/*.md", "how-to/*.md", "reference/*.md", "explanation/*.md", "development/*.md", "design/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %d pages, %v; the test looks in the wrong place", pattern, len(pages), err)
		}
		for _, page := range pages {
			text := readFile(t, page)
			if lines := strings.Count(string(text), "\n"); lines > 400 {
				t.Errorf("%s has %d lines, more than 400: cut it by subject", page, lines)
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Errorf("%s does not begin with its title", page)
			}
			if page != "README.md" && !strings.Contains(string(index), "]("+page+")") {
				t.Errorf("docs/README.md does not list %s", page)
			}
		}
	}
}

func follow(t *testing.T, page, target string) {
	t.Helper()
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return // of the world outside nothing is asked
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
	}
	if _, err := os.Stat(to); err != nil {
		t.Errorf("%s: the link %s leads nowhere", page, target)
		return
	}
	if anchor == "" || filepath.Ext(to) != ".md" {
		return
	}
	if _, anchors := read(t, to); !anchors[anchor] {
		t.Errorf("%s: the link %s names no heading of %s", page, target, to)
	}
}

// read returns a page without its code, and the anchors of its headings.
func read(t *testing.T, page string) (prose string, anchors map[string]bool) {
	t.Helper()
	b := readFile(t, page)
	anchors = map[string]bool{}
	var out strings.Builder
	fence := ""
	for line := range strings.Lines(string(b)) {
		trimmed := strings.TrimSpace(line)
		switch mark := trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]; {
		case fence != "":
			if mark == fence {
				fence = ""
			}
			continue
		case len(mark) >= 3:
			fence = mark
			continue
		}
		if h := heading.FindStringSubmatch(trimmed); h != nil {
			plain := unanchored.ReplaceAllString(strings.ToLower(h[1]), "")
			anchors[strings.ReplaceAll(plain, " ", "-")] = true
		}
		out.WriteString(withoutCode(line))
	}
	return out.String(), anchors
}

// withoutCode takes out what stands between single backticks.
func withoutCode(line string) string {
	parts := strings.Split(line, "`")
	var out strings.Builder
	for i, part := range parts {
		if i%2 == 0 || i == len(parts)-1 {
			out.WriteString(part)
		}
	}
	return out.String()
}

// TestEveryDependencyHasItsReason compares go.mod with the design page.
func TestEveryDependencyHasItsReason(t *testing.T) {
	mod := readFile(t, "../go.mod")
	reasons := readFile(t, "design/dependencies.md")
	modules := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1)
	if len(modules) < 15 {
		t.Fatalf("found only %d direct modules in go.mod", len(modules))
	}
	major := regexp.MustCompile(`/v\d+$`)
	for _, m := range modules {
		if name := filepath.Base(major.ReplaceAllString(m[1], "")); !strings.Contains(string(reasons), name) {
			t.Errorf("%s is in go.mod, but design/dependencies.md does not say what for", m[1])
		}
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n// ([a-z][a-z_./]*\\.go)\n(.*?)```")

// TestQuotedCodeIsTheCode: a block of Go whose first line names a file is in that
// file, which tests compile and run.
func TestQuotedCodeIsTheCode(t *testing.T) {
	pages, err := filepath.Glob("*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := 0
	for _, page := range pages {
		text := readFile(t, page)
		for _, m := range goBlock.FindAllStringSubmatch(string(text), -1) {
			quoted++
			code, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil {
				t.Errorf("%s quotes %s: %v", page, m[1], err)
			} else if !strings.Contains(string(code), m[2]) {
				t.Errorf("%s quotes code that is not in %s:\n%s", page, m[1], m[2])
			}
		}
	}
	if quoted == 0 {
		t.Error("no page quotes code; the test looks in the wrong place")
	}
}

var (
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	testName  = regexp.MustCompile(`^(?:Test|Benchmark)[A-Z]\w+$`)
	ourFolder = regexp.MustCompile(`^(?:core|sdk|plugins|cmd|docs|examples|e2e|proto)/[\w./-]+$`)
	errorCode = regexp.MustCompile(`^[A-Z]+(?:_[A-Z]+)+$`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)[A-Z]\w*)\(`)
)

// TestPagesNameWhatExists: pages that say where everything is must be right
// about it.
func TestPagesNameWhatExists(t *testing.T) {
	tests, sources := testsAndCodes(t)
	pages := map[string]int{"development/director.md": 100, "../ARCHITECTURE.md": 40}
	design, err := filepath.Glob("design/*.md")
	if err != nil || len(design) < 10 {
		t.Fatalf("%d design pages, %v; the test looks in the wrong place", len(design), err)
	}
	for _, page := range design {
		pages[page] = 0
	}
	for page, least := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) { namesWhatExists(t, page, least, tests, sources) })
	}
}

func namesWhatExists(t *testing.T, path string, least int, tests map[string]bool, sources string) {
	t.Helper()
	page := readFile(t, path)
	named := 0
	for _, span := range codeSpan.FindAllStringSubmatch(string(page), -1) {
		name := span[1]
		switch {
		case testName.MatchString(name):
			named++
			if !tests[name] {
				t.Errorf("there is no test %s", name)
			}
		case ourFolder.MatchString(name):
			named++
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				t.Errorf("there is no %s", name)
			}
		case errorCode.MatchString(name):
			named++
			if !strings.Contains(sources, `"`+name+`"`) {
				t.Errorf("no code of ours has %s", name)
			}
		}
	}
	if named < least {
		t.Errorf("the page names %d tests, files and codes, less than %d: it says less than it should", named, least)
	}
}

// testsAndCodes are the tests of the tree by name, and the sources that hold
// error codes and environment variables.
func testsAndCodes(t *testing.T) (tests map[string]bool, sources string) {
	t.Helper()
	tests = make(map[string]bool)
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == ".git" || d.Name() == "proto") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			all.Write(text)
			return nil
		}
		for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
			tests[found[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, all.String()
}

var stepHeading = regexp.MustCompile(`(?m)^## (.+)$`)

// TestTheRecordingShowsTheExample: the picture in the README was made from the
// example as it is now, and played to its end.
func TestTheRecordingShowsTheExample(t *testing.T) {
	picture := readFile(t, "img/run.svg")
	protocol := readFile(t, "../examples/release-a-version.md")
	steps := stepHeading.FindAllStringSubmatch(string(protocol), -1)
	if len(steps) < 3 {
		t.Fatalf("the example has %d steps; the test looks in the wrong place", len(steps))
	}
	want := []string{"verified: 2 of 5 steps answered by a person, 3 seen by KAIROS"}
	for i, s := range steps {
		want = append(want, fmt.Sprintf("Step %d of %d: %s", i+1, len(steps), s[1]))
	}
	text := html.UnescapeString(string(picture))
	for _, line := range want {
		if !strings.Contains(text, line) {
			t.Errorf("img/run.svg does not show %q: go run ./docs/recording plays it anew", line)
		}
	}
}

var (
	folderLine = regexp.MustCompile(`(?m)^([\w./-]+/)(<\w+>/)? +(\S.*)$`)
	subfolder  = regexp.MustCompile(`(?:^|[\s;,])(\w+)/(?:$|[\s;,])`)
)

// TestArchitectureListsEveryFolder compares the list of folders in ARCHITECTURE.md
// with the tree, in both directions.
func TestArchitectureListsEveryFolder(t *testing.T) {
	page := readFile(t, "../ARCHITECTURE.md")
	listed := map[string]bool{} // and whether the line covers everything below it
	for _, line := range folderLine.FindAllStringSubmatch(string(page), -1) {
		folder := strings.TrimSuffix(line[1], "/")
		inside := strings.Contains(folder, "/")
		listed[folder] = line[2] != "" || !inside && folder != "cmd" && folder != "core"
		for _, sub := range subfolder.FindAllStringSubmatch(line[3], -1) {
			listed[path.Join(folder, sub[1])] = false
		}
	}
	if len(listed) < 40 {
		t.Fatalf("found only %d folders in ARCHITECTURE.md; the test looks in the wrong place", len(listed))
	}
	for folder := range listed {
		if info, err := os.Stat(filepath.Join("..", folder)); err != nil || !info.IsDir() {
			t.Errorf("ARCHITECTURE.md lists %s/, which is not a folder", folder)
		}
	}
	for _, folder := range packages(t) {
		if !covered(listed, folder) {
			t.Errorf("ARCHITECTURE.md does not list %s/: add a line, or name it in the line of the folder above", folder)
		}
	}
}

// covered: the folder itself is listed, or a line covers it together with others.
func covered(listed map[string]bool, folder string) bool {
	if _, ok := listed[folder]; ok {
		return true
	}
	for above := path.Dir(folder); above != "."; above = path.Dir(above) {
		if listed[above] || strings.HasSuffix(above, "test") {
			return true
		}
	}
	return strings.HasSuffix(folder, "test")
}

// packages returns the folders of the root module and of sdk that hold Go files.
func packages(t *testing.T) []string {
	t.Helper()
	var folders []string
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || file == ".." {
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(file, "../"))
		if name := d.Name(); strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin" || name == "testdata" {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && folder != "sdk" {
			return filepath.SkipDir // a module of its own
		}
		if files, _ := filepath.Glob(filepath.Join(file, "*.go")); len(files) > 0 {
			folders = append(folders, folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 100 {
		t.Fatalf("found only %d packages; the test looks in the wrong place", len(folders))
	}
	return folders
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An operator has to know few words. The glossary has them first, and pages for operators
// explain the others or link to them.
func TestTheGlossaryBeginsWithTheWordsOfOperators(t *testing.T) {
	const most = 16
	text := string(readFile(t, "glossary.md"))
	_, text, found := strings.Cut(text, "## The words that an operator must know\n")
	first, rest, more := strings.Cut(text, "\n## For authors of drivers and readers of records\n")
	if !found || !more {
		t.Fatal("the glossary has not its two tables")
	}
	word := regexp.MustCompile(`(?m)^\| ([a-z ]+) \| `)
	words := word.FindAllStringSubmatch(first, -1)
	if n := len(words) - 1; n > most || n < 10 { // without the head
		t.Errorf("an operator must know %d words, want at most %d", n, most)
	}
	for _, m := range words[1:] {
		if strings.Contains(rest, "\n| "+m[1]+" | ") {
			t.Errorf("%q is in both tables", m[1])
		}
	}
	tutorials, err := filepath.Glob("tutorials/*.md")
	if err != nil {
		t.Fatal(err)
	}
	// The rest, as far as a word is not also one of everyday English.
	for _, m := range word.FindAllStringSubmatch(rest, -1)[1:] {
		if !slices.Contains([]string{"capability driver", "challenge driver", "descriptor", "nonce", "principal", "provenance", "verdict", "link holder"}, m[1]) {
			continue
		}
		for _, page := range append(tutorials, "../README.md") {
			if strings.HasSuffix(page, "first-driver.md") {
				continue // for authors of drivers
			}
			prose := code.ReplaceAllString(string(readFile(t, page)), "")
			if regexp.MustCompile(`(?i)\b`+m[1]+`s?\b`).MatchString(prose) && !strings.Contains(prose, "glossary.md") {
				t.Errorf("%s says %q, which operators need not know: explain it, or link to the glossary", page, m[1])
			}
		}
	}
}

// code is what a page quotes: blocks and words of programs.
var code = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
