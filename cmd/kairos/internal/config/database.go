package config

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/store/postgres"
)

// Database is where runs are kept, and protocols if no other store keeps them: the
// path of a SQLite file, or the address of a PostgreSQL database. An address may have
// a password, so that only Address returns all of it.
type Database string

// Postgres reports whether it is the address of a PostgreSQL database.
func (d Database) Postgres() bool { return postgres.Is(string(d)) }

// Address is all of it, with the password.
func (d Database) Address() string { return string(d) }

// Files is the absolute path of the file, if it is one.
func (d Database) Files() []string {
	if d.Postgres() {
		return nil
	}
	return files.Absolute(string(d))
}

// String hides the password.
func (d Database) String() string {
	if d.Postgres() {
		return postgres.Redacted(string(d))
	}
	return string(d)
}

// GoString hides the password.
func (d Database) GoString() string { return fmt.Sprintf("%q", d.String()) }

// LogValue hides the password.
func (d Database) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText hides the password, in JSON and YAML.
func (d Database) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// relativeTo makes the path of a file relative to a folder.
func (d *Database) relativeTo(dir string) {
	if *d != "" && !d.Postgres() && !filepath.IsAbs(string(*d)) {
		*d = Database(filepath.Join(dir, string(*d)))
	}
}

// folder is where keys are kept that belong to the database: beside its file, else
// with the user's data.
func (d Database) folder() (string, error) {
	if d.Postgres() {
		return dataDir()
	}
	return filepath.Dir(string(d)), nil
}
