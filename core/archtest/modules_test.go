package archtest_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// standalone are the folders of the modules that the tables do not cover, with
// the variable or target of the Makefile that tests them. `./...` stops at the
// border of a module, so a module that nobody names is never tested.
var standalone = map[string]string{
	"examples/drivers/http-check":   "GO_EXAMPLES",
	"examples/drivers/ask-folder":   "GO_EXAMPLES",
	"examples/drivers/acme-confirm": "GO_EXAMPLES",
	"e2e/provider":                  "test-e2e", // TestTheProviderLogsPeopleInAndNamesTheAudience
}

func TestEveryModuleIsKnown(t *testing.T) {
	var found []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "node_modules" || name == "bin") {
			return filepath.SkipDir
		}
		if d.Name() == "go.mod" {
			rel, _ := filepath.Rel("../..", filepath.Dir(path))
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(standalone)), modules...)))
	if slices.Sort(found); !slices.Equal(found, known) {
		t.Errorf("the modules are %v, want %v: add a new one to the tables and to the Makefile", found, known)
	}
}

// required are the versions that a go.mod names.
func required(t *testing.T, folder string) map[string]string {
	t.Helper()
	printed, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join("../..", folder, "go.mod")).Output()
	if err != nil {
		t.Fatalf("read go.mod of %s: %v", folder, err)
	}
	var mod struct {
		Go      string
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(printed, &mod); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{"go": mod.Go}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	return versions
}

// The tests of the root cover what drivers of others are built from only if
// both modules use the same versions.
func TestSDKRequiresTheVersionsOfTheRoot(t *testing.T) {
	root := required(t, ".")
	for module, version := range required(t, "sdk") {
		if root[module] != version {
			t.Errorf("sdk/go.mod requires %s %s, the root requires %q: require the same version in both", module, version, root[module])
		}
	}
}
