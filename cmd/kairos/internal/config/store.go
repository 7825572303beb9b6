package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
)

// Where protocols are kept.
const (
	storeSQLite   = "sqlite"
	storePostgres = "postgres"
	StoreQdrant   = "qdrant"
)

type qdrantConfig struct {
	// URL of the server; it selects Qdrant where store is not set.
	URL string `yaml:"url"`
	// APIKeyEnv names the environment variable with the API key. Default QDRANT_API_KEY.
	APIKeyEnv string `yaml:"api_key_env"`
	// APIKeyFile is a file with the API key; the environment comes first.
	APIKeyFile string `yaml:"api_key_file"`
	// CACert is a PEM file with who may have signed the server's certificate.
	CACert     string   `yaml:"ca_cert"`
	Collection string   `yaml:"collection"`
	Timeout    Duration `yaml:"timeout"`
	// Rescore compares the best matches by their whole vectors. Default true.
	Rescore *bool `yaml:"rescore"`
}

// KeepsIn says where protocols are kept.
func (c Config) KeepsIn() string {
	switch {
	case c.Store != "":
		return c.Store
	case c.Qdrant.URL != "":
		return StoreQdrant
	}
	return c.sqlStore()
}

// sqlStore is the kind of the database.
func (c Config) sqlStore() string {
	if c.Database.Postgres() {
		return storePostgres
	}
	return storeSQLite
}

func (c Config) storeProblems() []error {
	switch {
	case c.Store != "" && c.Store != c.sqlStore() && c.Store != StoreQdrant:
		return []error{fmt.Errorf("store is %q: must be %s, which is what database names, or qdrant", c.Store, c.sqlStore())}
	case c.KeepsIn() != StoreQdrant:
		return nil
	case c.Qdrant.URL == "":
		return []error{errors.New("store is qdrant, but qdrant.url and QDRANT_URL are not set")}
	}
	if c.Qdrant.Timeout < 0 {
		return []error{fmt.Errorf("qdrant.timeout is %s: must not be negative", c.Qdrant.Timeout)}
	}
	if err := c.Qdrant.Plain().Validate(); err != nil {
		return []error{fmt.Errorf("qdrant: %w", err)}
	}
	return nil
}

// Plain are the options without the API key.
func (q qdrantConfig) Plain() qdrant.Options {
	return qdrant.Options{
		URL: q.URL, CACert: q.CACert, Collection: q.Collection, Timeout: time.Duration(q.Timeout), NoRescore: q.Rescore != nil && !*q.Rescore,
	}
}

// Options are those of the store, with the API key from the environment or its file.
func (q qdrantConfig) Options() (qdrant.Options, error) {
	o := q.Plain()
	o.APIKey = qdrant.Secret(os.Getenv(cmp.Or(q.APIKeyEnv, "QDRANT_API_KEY")))
	switch {
	case o.APIKey != "":
	case q.APIKeyEnv != "":
		return o, fmt.Errorf("qdrant.api_key_env names %s, which is not set", q.APIKeyEnv)
	case q.APIKeyFile != "":
		b, err := files.Read(q.APIKeyFile)
		if err != nil {
			return o, fmt.Errorf("read qdrant.api_key_file: %w", err)
		}
		o.APIKey = qdrant.Secret(strings.TrimSpace(string(b)))
	}
	return o, nil
}
