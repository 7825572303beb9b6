package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
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
