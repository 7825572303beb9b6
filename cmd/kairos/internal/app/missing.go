package app

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// missing says what happens where the database of a command does not exist.
func missing(s Options, d config.Database) tables.Missing {
	switch {
	case s.Creates && s.Files:
		return tables.Missing{} // `kairos run` says it
	case s.Creates:
		return tables.Missing{Made: func() { fmt.Fprintf(os.Stderr, "kairos: made the database %s\n", d) }}
	}
	return tables.Missing{Refuse: func() error { return NoDatabase(d) }}
}

// NoDatabase is the error of a command that only reads where there is no database.
func NoDatabase(d config.Database) *fault.Error {
	const makes = "`kairos serve`, `mint`, `import`, `run`, `spaces create` and `token create` make one"
	if d.Postgres() {
		return fault.New(fault.StoreUnavailable, "the database %s has no tables of KAIROS", d).
			WithHint("see whether that is the database that you mean; " + makes)
	}
	path := d.Files()[0]
	f := fault.New(fault.StoreUnavailable, "there is no database at %s", path)
	if meant := similar(path); meant != "" {
		return f.WithHint("did you mean %s? --db or KAIROS_DB names one; "+makes, meant)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return f.WithHint("the folder %s does not exist either; --db or KAIROS_DB names another database, and "+makes, filepath.Dir(path))
	}
	return f.WithHint("--db or KAIROS_DB names another one; " + makes)
}

// DatabaseExists reports whether there is a database, or it is on a server.
func DatabaseExists(d config.Database) bool {
	for _, file := range d.Files() {
		if info, err := os.Stat(file); err != nil || info.Mode().IsRegular() && info.Size() == 0 {
			return false
		}
	}
	return true
}

// mostNames bounds how many files are compared with a name.
const mostNames = 1000

// similar is a file beside the path whose name is almost the same, or "".
func similar(path string) string {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return ""
	}
	defer func() { _ = dir.Close() }() // only read
	entries, _ := dir.ReadDir(mostNames)
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() > 0 && filepath.Ext(e.Name()) != ".lock" {
			names = append(names, e.Name())
		}
	}
	if meant := fields.Closest(filepath.Base(path), names); meant != "" {
		return filepath.Join(filepath.Dir(path), meant)
	}
	return ""
}
