package fault_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
)

var update = flag.Bool("update", false, "write the guide and the manual anew")

const root = "../.."

// sources are the Go files of the folders that are not tests.
func sources(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			out[path] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// constant declares a code.
var constant = regexp.MustCompile(`(?m)^\s*(?:const )?(\w+)\s+(?:fault\.)?Code\s+= "(\w+)"`)

func TestEveryCodeHasOneWholeRow(t *testing.T) {
	rows := map[fault.Code]int{}
	for _, r := range fault.Table {
		rows[r.Code]++
		if rows[r.Code] > 1 || r.Meaning == "" || r.Advice == "" || r.Hint == "" {
			t.Errorf("row %+v: want one row of its code, with all texts", r)
		}
		client := r.Code == fault.ServerUnreachable || r.Code == fault.UnexpectedReply
		if (r.Status == 0) != client {
			t.Errorf("%s has status %d", r.Code, r.Status)
		}
		if strings.Contains(r.Hint, "kairos_") || strings.Contains(r.Advice, "`kairos ") {
			t.Errorf("%s: %q is not for people, or %q not for agents", r.Code, r.Hint, r.Advice)
		}
	}
	used := sources(t, "core", "cmd", "plugins")
	declared := 0
	for path, text := range used {
		for _, m := range constant.FindAllStringSubmatch(text, -1) {
			declared++
			if rows[fault.Code(m[2])] != 1 {
				t.Errorf("%s declares %s, which has no row in the table", path, m[2])
			}
			if !isUsed(used, m[1], m[2]) {
				t.Errorf("%s declares %s, and nothing uses it", path, m[2])
			}
		}
	}
	if declared != len(fault.Table) {
		t.Errorf("%d codes are declared and the table has %d rows", declared, len(fault.Table))
	}
}

// isUsed reports whether a code is used by its name, is the verdict of a shipped
// driver, or says that one could not be reached.
func isUsed(sources map[string]string, name, code string) bool {
	ofCapability := strings.ToLower(strings.TrimSuffix(code, "_FAILED"))
	if _, err := os.Stat(filepath.Join(root, "plugins", ofCapability)); err == nil && string(fault.OfRoute(ofCapability)) == code {
		return true
	}
	byName := regexp.MustCompile(`\bfault\.` + name + `\b`)
	for path, text := range sources {
		verdict := strings.Contains(path, "plugins") && strings.Contains(text, `"`+code+`"`)
		if verdict || byName.MatchString(text) {
			return true
		}
	}
	return false
}

func TestTheGuideAndTheManualAreThoseOfTheTable(t *testing.T) {
	const begin, end = "<!-- error codes: written by go test ./core/fault -update -->\n", "<!-- end of error codes -->"
	manual := filepath.Join(root, "docs/reference/error-codes.md")
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the error codes", manual)
	}
	for path, want := range map[string]string{
		filepath.Join(root, "core/server/mcp/doc/error-codes.md"): fault.Guide(),
		manual: before + begin + "\n" + fault.Reference() + "\n" + end + after,
	} {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) == want {
			continue
		}
		if !*update {
			t.Errorf("%s is not up to date: run go test ./core/fault -update", path)
			continue
		}
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Error(err)
		}
	}
}
