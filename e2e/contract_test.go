package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestContractHasATestForEachFact holds the table in contract.test.mjs against
// the tests that there are.
func TestContractHasATestForEachFact(t *testing.T) {
	const file = "tests/contract.test.mjs"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^// \| (.*) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) < 40 {
		t.Fatalf("%s has a table of %d lines, want the whole contract", file, len(rows))
	}
	for _, row := range rows {
		if row[1] == "fact" {
			continue
		}
		for held := range strings.SplitSeq(row[2], "; ") {
			if why := missing(string(text), held); why != "" {
				t.Errorf("%s: %s: %s", file, row[1], why)
			}
		}
	}
}

// missing says why a test does not exist; empty: it does.
func missing(scenarios, held string) string {
	name, here := strings.CutPrefix(held, "this: ")
	dir, test, elsewhere := strings.Cut(held, " ")
	switch {
	case held == "every call below" || strings.HasPrefix(held, "none: "):
		return ""
	case here && strings.Contains(scenarios, "facts('"+name+"'"):
		return ""
	case here || !elsewhere:
		return "there is no scenario " + held
	case strings.HasSuffix(test, ".txtar"):
		if _, err := os.Stat(filepath.Join("..", dir, test)); err != nil {
			return err.Error()
		}
		return ""
	}
	return notDefined(filepath.Join("..", dir), test)
}

// notDefined says that no test file of a folder or below has that test.
func notDefined(dir, test string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return err.Error()
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "func "+test+"(") {
			return ""
		}
	}
	return "there is no test " + test + " in " + dir
}
