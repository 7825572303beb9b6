// Package manualtest holds tables of the manual against what they are made of.
package manualtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Table compares a table with the one between the comments "name" and "end of name" of a page.
// The page is named below the root of the repository, which is two folders up. With update it is
// written; the error says which package's test does that.
func Table(t *testing.T, update bool, pkg, page, name, table string) {
	t.Helper()
	path := filepath.Join("..", "..", page)
	old, err := os.ReadFile(path) //nolint:gosec // a page of this repository
	if err != nil {
		t.Fatal(err)
	}
	from, to := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	head, rest, begins := strings.Cut(string(old), from)
	_, tail, ends := strings.Cut(rest, to)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table of %s", page, name)
	}
	switch now := head + from + table + to + tail; {
	case now == string(old):
	case update:
		if err := os.WriteFile(path, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of %s is not as it is made now; run go test ./%s -run Manual -update:\n%s", page, pkg, table)
	}
}
