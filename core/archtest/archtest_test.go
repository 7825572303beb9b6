// Package archtest_test checks the architecture: a table of allowed imports.
// It reads the import clauses of every file, so it sees all platforms and tags.
package archtest_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kairos-mcp/kairos/"

// allowed lists the packages of this project that a package may import. A folder
// includes everything below it. A package that is not listed may import none.
var allowed = map[string][]string{
	"cmd/kairos":                      {},
	"cmd/kairos/internal/gctune":      {},
	"cmd/kairos/internal/files":       {},
	"cmd/kairos/internal/tty":         {},
	"cmd/kairos/internal/config":      {"cmd/kairos/internal/files", "cmd/kairos/internal/tty", "core/access", "core/decision", "core/director/budget", "core/driverhost", "core/drivers", "core/embedding", "core/meaning", "core/oidc", "core/protocol", "core/rules", "core/server/rest", "core/statement", "core/store/postgres", "core/store/qdrant", "core/yamldoc", "internal/openai", "internal/hidden", "sdk/driver", "sdk/fields", "sdk/schema"},
	"cmd/kairos/internal/app":         {"cmd/kairos/internal/config", "cmd/kairos/internal/files", "core/acceptances", "core/access", "core/adoption", "core/archive", "core/audit", "core/cache", "core/clock", "core/decision", "core/declines", "core/director", "core/driverhost", "core/embedding", "core/fault", "core/handover", "core/index", "core/library", "core/logins", "core/meaning", "core/metrics", "core/oidc", "core/outlines", "core/principal", "core/protocol", "core/replicas", "core/run", "core/runs", "core/seal", "core/server/mcp", "core/server/operations", "core/server/relay", "core/server/rest", "core/server/socket", "core/server/toolset", "core/server/web/runpage", "core/sessions", "core/setup", "core/statement", "core/store/postgres", "core/store/qdrant", "core/store/sqlite", "core/store/tables", "core/tokens", "core/usecases", "internal/mcpclient", "sdk/driver", "sdk/driverrpc", "sdk/fields"},
	"cmd/kairos/internal/cli":         {"cmd/kairos/internal/app", "cmd/kairos/internal/config", "cmd/kairos/internal/files", "cmd/kairos/internal/tty", "core/api", "core/api/client", "core/archive", "core/decision", "core/fault", "core/protocol", "core/run", "core/server/operations", "core/server/socket", "core/server/toolset", "sdk/driver", "sdk/driverrpc", "sdk/fields", "sdk/plain"},
	"cmd/kairos/internal/cli/tree":    {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/config", "cmd/kairos/internal/files", "core/api", "core/archive", "core/decision", "core/drivers", "core/library", "core/protocol", "core/rules", "core/run", "core/yamldoc", "sdk/driver", "sdk/fields"},
	"cmd/kairos/internal/cli/play":    {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/files", "cmd/kairos/internal/terminal", "core/api", "core/fault", "core/protocol", "core/run", "core/server/operations", "core/server/toolset", "internal/openai", "sdk/driver", "sdk/plain"},
	"cmd/kairos/internal/cli/runs":    {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/cli/play", "cmd/kairos/internal/files", "core/api", "core/archive", "core/director", "core/fault", "core/handover", "core/protocol", "core/run", "core/server/operations", "core/statement"},
	"cmd/kairos/internal/cli/tools":   {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/cli/servers", "cmd/kairos/internal/files", "core/server/operations", "core/server/socket", "internal/mcpclient", "sdk/plain"},
	"cmd/kairos/internal/cli/logins":  {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "core/logins", "core/server/operations", "core/server/socket", "sdk/plain"},
	"cmd/kairos/internal/cli/adopt":   {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "core/adoption", "sdk/plain"},
	"cmd/kairos/internal/cli/token":   {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "core/access", "core/tokens", "sdk/plain"},
	"cmd/kairos/internal/cli/accept":  {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "core/acceptances", "core/fault", "core/offers", "core/protocol", "core/run", "sdk/driver", "sdk/plain"},
	"cmd/kairos/internal/cli/library": {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/files", "core/access", "core/api", "core/drivers/manual", "core/fault", "core/library", "core/protocol", "core/server/operations", "sdk/driver", "sdk/plain", "sdk/schema"},
	"cmd/kairos/internal/cli/connect": {"cmd/kairos/internal/cli", "cmd/kairos/internal/config", "cmd/kairos/internal/files", "internal/mcpclient"},
	"cmd/kairos/internal/cli/servers": {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/config", "cmd/kairos/internal/files", "core/driverhost", "core/server/socket", "core/fault", "core/server/operations"},
	"cmd/kairos/internal/cli/drivers": {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/cli/servers", "cmd/kairos/internal/config", "cmd/kairos/internal/files", "core/api", "core/archive", "core/audit", "core/driverhost", "core/drivers", "core/fault", "core/rules", "core/run", "core/server/operations", "core/server/socket", "core/setup", "sdk/driver", "sdk/driverrpc", "sdk/drivertest"},
	"cmd/kairos/internal/cli/ops":     {"cmd/kairos/internal/app", "cmd/kairos/internal/cli", "cmd/kairos/internal/cli/drivers", "cmd/kairos/internal/cli/servers", "cmd/kairos/internal/config", "cmd/kairos/internal/files", "core/api", "core/archive", "core/decision", "core/driverhost", "core/drivers/manual", "core/fault", "core/handover", "core/index", "core/library", "core/meaning", "core/oidc", "core/outlines", "core/replicas", "core/search", "core/server/mcp", "core/server/operations", "core/server/socket", "core/tokens", "sdk/driver"},
	"core/api":                        {"core/fault", "sdk/driver", "sdk/plain", "sdk/shape"},
	"core/principal":                  {},
	"core/protocol":                   {"core/principal", "sdk/driver", "sdk/fields", "sdk/filecheck", "sdk/pattern", "sdk/plain", "sdk/prompt/untrusted", "sdk/schema"},
	"core/search":                     {"core/meaning", "core/protocol", "sdk/plain"},
	"core/meaning":                    {},
	"core/run":                        {"sdk/driver"},
	"core/statement":                  {"core/run", "sdk/driver"},
	"core/decision":                   {"core/yamldoc", "sdk/driver", "sdk/fields"},
	"core/yamldoc":                    {"sdk/fields"},
	"core/rules":                      {"core/decision", "core/protocol", "core/yamldoc", "sdk/driver", "sdk/fields", "sdk/plain", "sdk/schema"},
	"core/fault":                      {},
	"core/clock":                      {},
	"core/cache":                      {},
	"core/access":                     {"core/fault", "core/principal", "core/run", "sdk/driver", "sdk/plain"},
	"core/drivers":                    {"core/decision", "core/protocol", "core/rules", "core/run", "sdk/driver", "sdk/fields", "sdk/plain"},
	"core/drivers/driverstest":        {"core/decision", "core/drivers", "sdk/driver"},
	"core/outlines":                   {"core/library", "core/meaning", "core/protocol", "core/search"},
	"core/library":                    {"core/access", "core/api", "core/audit", "core/clock", "core/drivers", "core/fault", "core/meaning", "core/protocol", "core/rules", "core/run", "core/search", "sdk/driver", "sdk/plain", "sdk/schema"},
	"core/index":                      {"core/api", "core/fault", "core/library", "core/protocol", "core/search"},
	"core/replicas":                   {},
	"core/seal":                       {"core/cache"},
	"core/sessions":                   {"core/clock", "core/seal", "sdk/driver"},
	"core/logins":                     {"core/access", "core/audit", "core/clock", "core/fault", "core/principal", "internal/hidden"},
	"core/oidc":                       {"core/cache", "core/clock", "core/fault", "core/principal", "internal/hidden", "sdk/plain"},
	"core/audit":                      {"core/access", "core/clock", "core/fault", "sdk/driver", "sdk/plain"},
	"core/tokens":                     {"core/access", "core/audit", "core/cache", "core/clock", "core/fault", "core/principal", "internal/hidden"},
	"core/declines":                   {"core/clock", "core/run", "sdk/plain"},
	"core/acceptances":                {"core/access", "core/audit", "core/clock", "core/fault", "core/run", "sdk/driver"},
	"core/runs":                       {"core/access", "core/api", "core/cache", "core/clock", "core/fault", "core/protocol", "core/run", "sdk/driver", "sdk/plain"},
	"core/archive":                    {"core/access", "core/api", "core/audit", "core/clock", "core/decision", "core/drivers", "core/fault", "core/library", "core/protocol", "core/run", "core/runs", "sdk/driver", "sdk/fields", "sdk/plain"},
	"core/adoption":                   {"core/acceptances", "core/archive", "core/clock", "core/declines", "core/fault", "core/library", "core/protocol", "core/run", "core/runs", "sdk/plain"},
	"core/offers":                     {"core/acceptances", "core/access", "core/decision", "core/director/input", "core/drivers", "core/fault", "core/library", "core/protocol", "core/run", "core/runs", "sdk/driver", "sdk/plain"},
	"core/director/input":             {"core/api", "core/decision", "core/drivers", "core/fault", "core/protocol", "core/rules", "core/run", "sdk/driver", "sdk/fields", "sdk/filecheck", "sdk/plain", "sdk/prompt/untrusted", "sdk/schema"},
	"core/director/plan":              {"core/acceptances", "core/access", "core/api", "core/clock", "core/decision", "core/declines", "core/director/input", "core/director/present", "core/director/solution", "core/drivers", "core/fault", "core/protocol", "core/rules", "core/run", "core/runs", "sdk/driver", "sdk/filecheck", "sdk/plain"},
	"core/director/act":               {"core/decision", "core/director/input", "core/director/plan", "core/director/secrets", "core/drivers", "core/fault", "core/protocol", "core/run", "sdk/driver", "sdk/plain"},
	"core/director/approval":          {"core/api", "core/director/input", "core/director/plan", "core/protocol", "core/run", "core/runs", "sdk/plain"},
	"core/director/budget":            {"core/run"},
	"core/director/solution":          {"core/api", "core/decision", "core/director/input", "core/fault", "sdk/driver"},
	"core/director/observe":           {"core/decision", "core/director/input", "core/director/plan", "core/drivers", "core/fault", "core/library", "core/run", "core/runs"},
	"core/director/secrets":           {"core/cache", "core/run"},
	"core/director/present":           {"core/api", "core/protocol", "core/run", "core/runs", "sdk/driver", "sdk/filecheck", "sdk/plain"},
	"core/usecases":                   {"core/archive", "core/clock", "core/declines", "core/director", "core/drivers", "core/acceptances", "core/library", "core/meaning", "core/offers", "core/runs"},
	"core/director":                   {"core/access", "core/api", "core/archive", "core/cache", "core/clock", "core/decision", "core/drivers", "core/declines", "core/fault", "core/acceptances", "core/library", "core/offers", "core/protocol", "core/run", "core/runs", "sdk/driver", "sdk/filecheck", "sdk/plain", "sdk/schema", "core/audit"},
	"core/store/pack":                 {},
	"core/store/lazy":                 {},
	"core/store/record":               {"core/api", "core/fault", "core/library", "core/protocol", "core/run", "core/runs"},
	"core/store/tables":               {"core/acceptances", "core/access", "core/api", "core/archive", "core/cache", "core/declines", "core/fault", "core/index", "core/library", "core/logins", "core/protocol", "core/run", "core/runs", "core/sessions", "core/store/record", "core/tokens"},
	"core/store/postgres":             {"core/acceptances", "core/archive", "core/declines", "core/fault", "core/library", "core/protocol", "core/replicas", "core/run", "core/runs", "core/store/lazy", "core/store/record", "core/store/tables"},
	"core/store/sqlite":               {"core/acceptances", "core/archive", "core/cache", "core/declines", "core/fault", "core/library", "core/protocol", "core/run", "core/runs", "core/store/lazy", "core/store/pack", "core/store/record", "core/store/tables"},
	"core/store/qdrant":               {"core/api", "core/fault", "core/index", "core/library", "core/protocol", "core/search", "sdk/plain"},
	"core/store/storetest":            {"core/acceptances", "core/access", "core/api", "core/archive", "core/declines", "core/fault", "core/index", "core/library", "core/logins", "core/protocol", "core/run", "core/runs", "core/sessions", "core/tokens", "sdk/driver"},
	"core/handover":                   {"core/run", "core/runs", "sdk/plain"},
	"core/embedding":                  {"core/access", "core/library", "internal/openai"},
	"core/driverhost":                 {"core/cache", "sdk/driver", "sdk/driverrpc", "sdk/filecheck", "sdk/pattern", "sdk/plain"},
	"core/setup":                      {"core/access", "core/audit", "core/decision", "core/driverhost", "core/drivers", "core/rules", "sdk/driver"},
	"core/server/web":                 {},
	"core/server/web/webtest":         {},
	"core/server/web/runpage":         {"core/api", "core/archive", "core/decision", "core/run", "core/server/web", "sdk/driver", "sdk/plain"},
	"core/server/jsonlimit":           {},
	"core/server/toolset":             {"core/access", "core/api", "core/director", "core/fault", "sdk/driver", "sdk/fields", "sdk/shape"},
	"core/server/operations":          {"core/access", "core/api", "core/archive", "core/director", "core/driverhost", "core/fault", "core/library", "core/protocol", "core/run", "core/server/toolset", "core/setup", "core/statement", "sdk/shape"},
	"core/server/mcp":                 {"core/access", "core/api", "core/audit", "core/clock", "core/director", "core/fault", "core/run", "core/seal", "core/server/jsonlimit", "core/server/toolset", "core/sessions", "sdk/driver", "sdk/fields", "sdk/plain"},
	"core/server/relay":               {},
	"core/server/rest":                {"core/access", "core/api", "core/audit", "core/director", "core/director/approval", "core/fault", "core/run", "core/server/jsonlimit", "core/server/operations", "core/server/toolset", "core/server/web", "sdk/driver", "sdk/fields", "sdk/plain"},
	"core/metrics":                    {"core/access", "core/api", "core/decision", "core/director/observe", "core/driverhost", "core/embedding", "core/fault", "core/library", "core/protocol", "core/search", "core/server/mcp", "core/server/rest", "core/server/toolset", "core/usecases", "sdk/driver"},
	"core/server/socket":              {"core/api/client", "core/server/operations"},
	"core/api/client":                 {"core/api", "core/fault", "internal/hidden"},
	"cmd/kairos/internal/terminal":    {"cmd/kairos/internal/tty", "internal/mcpclient", "internal/openai", "sdk/fields", "sdk/pattern", "sdk/plain", "sdk/schema"},
	"sdk/driver":                      {},
	"sdk/driverpb":                    {},
	"sdk/plain":                       {},
	"sdk/pattern":                     {},
	"sdk/schema":                      {"sdk/driver", "sdk/fields", "sdk/pattern", "sdk/plain"},
	"sdk/prompt":                      {"sdk/driver"},
	"sdk/prompt/exchange":             {"sdk/driver", "sdk/fields", "sdk/plain", "sdk/schema"},
	"sdk/prompt/untrusted":            {},
	"sdk/fields":                      {"sdk/driver"},
	"sdk/filecheck":                   {"sdk/driver", "sdk/fields", "sdk/pattern", "sdk/schema"},
	"sdk/shape":                       {"sdk/driver", "sdk/fields"},
	"sdk/settings":                    {"sdk/driver", "sdk/fields", "sdk/shape"},
	"sdk/challenge":                   {"sdk/driver", "sdk/fields", "sdk/shape"},
	"sdk/driverrpc":                   {"sdk/driver", "sdk/driverpb"},
	"sdk/drivertest":                  {"sdk/driver", "sdk/driverrpc", "sdk/plain", "sdk/schema"},
	"internal/mcpclient":              {"sdk"},
	"internal/hidden":                 {},
	"internal/openai":                 {"internal/hidden", "sdk"},
	"plugins":                         {"sdk"},
	"plugins/llm":                     {"internal/openai", "sdk"},
	"plugins/tools":                   {"internal/mcpclient", "sdk"},
	"examples":                        {},
	"packaging":                       {"core/driverhost"},
	"e2e/conformance":                 {"core/server/mcp", "core/server/rest"},
	"e2e/forgery":                     {},
	"e2e/clients":                     {},
	"e2e/programs":                    {},
	"e2e/disk":                        {},
	"e2e/play":                        {"core/api", "core/archive", "e2e/programs"},
	"e2e/replicas":                    {"e2e/programs"},
}

// owners lists the packages that may import each third-party module.
var owners = map[string][]string{
	"google.golang.org/grpc":                 {"sdk/driverpb", "sdk/driverrpc", "core/driverhost", "core/store/qdrant"},
	"google.golang.org/protobuf":             {"sdk/driverpb", "sdk/driverrpc"},
	"github.com/hashicorp/go-plugin":         {"sdk/driverrpc", "core/driverhost"},
	"github.com/hashicorp/go-hclog":          {"core/driverhost"},
	"github.com/mark3labs/mcp-go/server":     {"core/server/mcp", "e2e/play", "examples"},
	"github.com/mark3labs/mcp-go/client":     {"cmd/kairos/internal/terminal", "internal/mcpclient", "e2e/play", "examples"},
	"github.com/mark3labs/mcp-go":            {"core/server/mcp", "cmd/kairos/internal/terminal", "internal/mcpclient", "e2e/play", "examples"},
	"github.com/tailscale/hujson":            {"cmd/kairos/internal/cli/connect"},
	"github.com/google/go-containerregistry": {"packaging"},
	"charm.land/huh/v2":                      {"cmd/kairos/internal/terminal"},
	"charm.land/bubbletea/v2":                {"cmd/kairos/internal/terminal"},
	"github.com/pelletier/go-toml":           {"cmd/kairos/internal/cli/connect"},
	"github.com/hanwen/go-fuse":              {"e2e/disk"},
	"modernc.org/sqlite":                     {"core/store/sqlite"},
	"github.com/klauspost/compress":          {"core/store/pack"},
	"github.com/jackc/pgx/v5":                {"core/store/postgres"},
	"github.com/qdrant/go-client":            {"core/store/qdrant"},
	"cel.dev/cel-go":                         {"core/decision"},
	"github.com/yuin/goldmark":               {"core/protocol"},
	"github.com/goccy/go-yaml":               {"core/protocol", "core/decision", "core/rules", "core/yamldoc", "e2e/clients", "e2e/forgery", "cmd/kairos/internal/terminal", "cmd/kairos/internal/config", "cmd/kairos/internal/cli/connect", "cmd/kairos/internal/cli/output"},
	"github.com/fsnotify/fsnotify":           {"core/setup"},
	"github.com/aymanbagabas/go-udiff":       {"core/protocol"},
	"github.com/hashicorp/golang-lru":        {"core/cache", "core/embedding", "core/runs", "core/server/rest"},
	"github.com/prometheus":                  {"core/metrics"},
	"github.com/spf13/cobra":                 {"cmd/kairos/internal/cli"},
	"github.com/spf13/pflag":                 {"cmd/kairos/internal/cli"},
	"github.com/santhosh-tekuri/jsonschema":  {"sdk/schema", "core/server/mcp"},
	"github.com/gowebpki/jcs":                {"core/run"},
	"github.com/secure-systems-lab":          {"core/statement"},
	"github.com/google/uuid":                 {"core/clock", "core/protocol", "core/run", "core/director", "core/library", "core/server/mcp", "core/store/storetest", "core/store/qdrant"},
	"golang.org/x/net/netutil":               {"core/server/rest"},
	"golang.org/x/time":                      {"core/audit", "core/oidc", "core/server/rest"},
	"github.com/coreos/go-oidc":              {"core/oidc"},
	"golang.org/x/oauth2":                    {"core/oidc"},
	"github.com/go-jose/go-jose":             {"core/oidc"},
	"golang.org/x/sync":                      {"core/archive", "core/library", "core/driverhost", "core/store/qdrant"},
	"github.com/google/go-cmp":               {"core/store/storetest", "sdk/drivertest"},
	"pgregory.net/rapid":                     {"core/store/storetest"},
	"golang.org/x/sys":                       {"cmd/kairos/internal/tty", "core/driverhost", "core/store/postgres", "core/store/sqlite", "sdk/driverrpc", "plugins/command", "examples"},
	"github.com/blevesearch/snowballstem":    {"core/search"},
	"mvdan.cc/sh":                            {"plugins/shell"},
	"golang.org/x/text":                      {"core/protocol", "core/search", "core/store/sqlite", "core/server/mcp", "sdk/schema", "sdk/plain", "core/embedding/embedtest"},
}

// modules are the folders of the modules that the tables cover.
var modules = []string{".", "sdk"}

type file struct {
	dir, path string // relative to the root
	imports   []string
	test      bool
}

func files(t *testing.T) []file {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var out []file
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "node_modules" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() && !slices.Contains(modules, rel) && exists(filepath.Join(path, "go.mod")) {
			return filepath.SkipDir // an example or a comparison, which has its own rules
		}
		if d.IsDir() || !strings.HasSuffix(rel, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := file{dir: strings.TrimSuffix(filepath.ToSlash(filepath.Dir(rel)), "/"), path: rel, test: strings.HasSuffix(rel, "_test.go")}
		for _, s := range parsed.Imports {
			f.imports = append(f.imports, strings.Trim(s.Path.Value, `"`))
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("found only %d files below %s; the test looks in the wrong place", len(out), root)
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func below(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }

// longest finds the most specific entry that covers the name.
func longest(name string, keys []string) (string, bool) {
	best, ok := "", false
	for _, k := range keys {
		if below(name, k) && len(k) >= len(best) {
			best, ok = k, true
		}
	}
	return best, ok
}

func keysOf(m map[string][]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	type edge struct{ from, to string }
	used := make(map[edge]bool)
	for _, f := range files(t) {
		if f.test || strings.Contains(f.dir, "testdata") {
			continue
		}
		for _, imp := range f.imports {
			ours, ok := strings.CutPrefix(imp, module)
			if !ok || ours == f.dir {
				continue
			}
			self, known := longest(f.dir, keysOf(allowed))
			if !known {
				t.Errorf("%s: package %s is not in the table; add it with what it may import", f.path, f.dir)
				break
			}
			to, may := longest(ours, allowed[self])
			switch {
			case may:
				used[edge{self, to}] = true
			case !below(ours, self):
				t.Errorf("%s imports %s, which %s may not", f.path, ours, self)
			}
		}
	}
	for self, all := range allowed {
		for _, to := range all {
			if !used[edge{self, to}] {
				t.Errorf("the table allows %s to import %s, but nothing there does; delete the entry", self, to)
			}
		}
	}
}

// Drivers are programs of their own, and what they share with the program needs
// nothing but the SDK, so that they can be developed outside of this project.
func TestProgramAndDriversStandApart(t *testing.T) {
	for _, f := range files(t) {
		for _, imp := range f.imports {
			ours, ok := strings.CutPrefix(imp, module)
			if !ok || f.test || strings.Contains(f.dir, "testdata") {
				continue
			}
			switch {
			case (below(f.dir, "cmd") || below(f.dir, "core")) && below(ours, "plugins"):
				t.Errorf("%s imports %s: the program links no package of a driver", f.path, ours)
			case below(f.dir, "internal") && !below(ours, "sdk") && !below(ours, "internal"):
				t.Errorf("%s imports %s: a package below internal imports only sdk", f.path, ours)
			}
		}
	}
}

func TestOutsideModulesHaveOwners(t *testing.T) {
	for _, f := range files(t) {
		if f.test || strings.Contains(f.dir, "testdata") {
			continue
		}
		for _, imp := range f.imports {
			if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") || strings.HasPrefix(imp, module) {
				continue
			}
			owned, ok := longest(imp, keysOf(owners))
			if !ok {
				t.Errorf("%s imports %s, which has no owner: add one here and a line in docs/design/dependencies.md", f.path, imp)
				continue
			}
			if !slices.ContainsFunc(owners[owned], func(o string) bool { return below(f.dir, o) }) {
				t.Errorf("%s imports %s, which belongs to %v", f.path, imp, owners[owned])
			}
		}
	}
}

func TestEveryEntryOfTheTablesIsUsed(t *testing.T) {
	all := files(t)
	for dir := range allowed {
		if !slices.ContainsFunc(all, func(f file) bool { return below(f.dir, dir) }) {
			t.Errorf("the table allows imports to %s, which does not exist", dir)
		}
	}
	for mod := range owners {
		if !slices.ContainsFunc(all, func(f file) bool {
			return slices.ContainsFunc(f.imports, func(i string) bool { return below(i, mod) })
		}) {
			t.Errorf("%s has owners but is imported nowhere", mod)
		}
	}
}

// The validator costs each process that links it 2 MB and 5 to 9 ms at its
// start, used or not, so packages that never validate must not link it.
func TestOnlyDriversThatValidateLinkTheValidator(t *testing.T) {
	imports := map[string][]string{}
	for _, f := range files(t) {
		if !f.test {
			imports[f.dir] = append(imports[f.dir], f.imports...)
		}
	}
	var path func(from string, seen map[string]bool) []string
	path = func(from string, seen map[string]bool) []string {
		if from == "sdk/schema" {
			return []string{from}
		}
		seen[from] = true
		for _, imp := range imports[from] {
			ours, ok := strings.CutPrefix(imp, module)
			if !ok || seen[ours] {
				continue
			}
			if rest := path(ours, seen); rest != nil {
				return append([]string{from}, rest...)
			}
		}
		return nil
	}
	for _, dir := range []string{"plugins/shell", "plugins/comment", "plugins/agent"} {
		if len(imports[dir]) == 0 {
			t.Errorf("%s does not exist", dir)
		}
		if way := path(dir, map[string]bool{}); way != nil {
			t.Errorf("the driver links the validator: %s", strings.Join(way, " imports "))
		}
	}
}

// One package makes JSON Schemas of structs: the tags of a struct mean the same in the
// configuration of a driver, in a challenge and in a tool.
func TestOnePackageReadsTheTagsOfSchemas(t *testing.T) {
	reads := regexp.MustCompile(`\bTag\.(Get|Lookup)\("(doc|min|max|enum)"`)
	for _, f := range files(t) {
		if f.test || f.dir == "sdk/shape" || !slices.Contains(f.imports, "reflect") {
			continue
		}
		b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(f.path)))
		if err != nil {
			t.Fatal(err)
		}
		if found := reads.Find(b); found != nil {
			t.Errorf("%s reads the tag %s, which sdk/shape alone does", f.path, found)
		}
	}
}

// A type is a key and its parameters are opaque: a core that names one has to
// be changed for every new one.
func TestCoreNamesNoChallengeType(t *testing.T) {
	named := regexp.MustCompile(`"(shell|mcp|user_input|comment)"`)
	for _, f := range files(t) {
		if f.test || !below(f.dir, "core") || below(f.dir, "cmd/kairos/internal/terminal") || strings.Contains(f.dir, "testdata") {
			continue
		}
		b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(f.path)))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			code, _, _ := strings.Cut(line, "//")
			code, _, _ = strings.Cut(code, "`json:") // a key of the configuration may be called like a type
			if named.MatchString(code) {
				t.Errorf("%s:%d names a challenge type: %s", f.path, i+1, strings.TrimSpace(line))
			}
		}
	}
}
