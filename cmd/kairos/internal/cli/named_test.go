package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named are the commands that texts of the program tell people to run.
var named = regexp.MustCompile("`kairos ([a-z][^`\\n]*)`")

// People copy the commands that errors and hints name, so each of them has to be one that is taken.
func TestTextsNameCommandsThatAreTaken(t *testing.T) {
	const module = "../../../.."
	n := 0
	for _, dir := range []string{"cmd", "core", "plugins", "sdk", "internal"} {
		err := filepath.WalkDir(filepath.Join(module, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(b), -1) {
				n++
				line := strings.NewReplacer("-o %s", "-o json", "--follow%s", "--follow", "%s", "X", "%q", "X", "%d", "1", `\"`, `'`).Replace(m[1])
				var words []string
				for _, w := range word.FindAllString(line, -1) {
					words = append(words, strings.ReplaceAll(w, "'", ""))
				}
				found, rest, findErr := Root("1").Find(words)
				switch {
				case findErr != nil, found.Annotations[group] != "" && len(rest) > 0:
					t.Errorf("%s names `kairos %s`, which is not a command", path, m[1])
				case found.ParseFlags(rest) != nil:
					t.Errorf("%s names `kairos %s`: %v", path, m[1], found.ParseFlags(rest))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 150 {
		t.Errorf("the texts name %d commands, want them all", n)
	}
}
