package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
