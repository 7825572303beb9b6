// Package docs_test checks the manual: links have a target, and the generated pages
// match the code.
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
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*.md", "tutorials/*.md", "how-to/*.md", "reference/*.md", "explanation/*.md", "development/*.md", "design/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %d pages, %v; the test looks in the wrong place", pattern, len(pages), err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
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
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
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
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile("design/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
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
