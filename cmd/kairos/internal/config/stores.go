package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
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

// Kind is what people call a database of this kind.
func (d Database) Kind() string {
	if d.Postgres() {
		return "PostgreSQL"
	}
	return "SQLite"
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
	if !d.Postgres() {
		*d = Database(absolute(dir, string(*d)))
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

// replicaConfig is about servers that share a database behind one proxy.
type replicaConfig struct {
	// Address is where the other replicas reach this one, such as
	// http://10.0.0.5:3300. Empty: this server is not a replica.
	Address string `yaml:"address"`
}

func (c Config) replicaProblems() []error {
	address := c.Replica.Address
	if address == "" {
		return nil
	}
	var errs []error
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		errs = append(errs, fmt.Errorf("replica.address is %q: must be scheme, host and port, such as http://10.0.0.5:3300", address))
	}
	if !c.Database.Postgres() {
		errs = append(errs, errors.New("replica.address is set, but replicas share a PostgreSQL database: set database to postgres://USER:PASSWORD@HOST/NAME, or remove replica.address"))
	}
	return errs
}

type qdrantConfig struct {
	// URL of the server. Without it there is no index.
	URL string `yaml:"url"`
	// APIKeyFile is a file with the API key; QDRANT_API_KEY comes first.
	APIKeyFile string `yaml:"api_key_file"`
	// CACert is a PEM file with the authorities that may have signed the server's certificate.
	CACert     string `yaml:"ca_cert"`
	Collection string `yaml:"collection"`
}

// On reports whether there is an index.
func (q qdrantConfig) On() bool { return q.URL != "" }

func (q qdrantConfig) problems() []error {
	if !q.On() {
		return nil
	}
	if err := q.Plain().Validate(); err != nil {
		return []error{fmt.Errorf("qdrant: %w", err)}
	}
	return nil
}

// Plain are the options without the API key.
func (q qdrantConfig) Plain() qdrant.Options {
	return qdrant.Options{
		Options:    client.Options{URL: q.URL, CACert: q.CACert},
		Collection: q.Collection,
	}
}

// Options are those of the index, with the API key from the environment or its file.
func (q qdrantConfig) Options() (qdrant.Options, error) {
	o := q.Plain()
	o.APIKey = client.Secret(os.Getenv("QDRANT_API_KEY"))
	if o.APIKey == "" && q.APIKeyFile != "" {
		b, err := files.Read(q.APIKeyFile)
		if err != nil {
			return o, fmt.Errorf("read qdrant.api_key_file: %w", err)
		}
		o.APIKey = client.Secret(strings.TrimSpace(string(b)))
	}
	return o, nil
}
