package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// Where protocols are kept.
const (
	storeSQLite = "sqlite"
	storeQdrant = "qdrant"
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
	Timeout    duration `yaml:"timeout"`
	// Rescore compares the best matches by their whole vectors. Default true.
	Rescore *bool `yaml:"rescore"`
}

// keepsIn says where protocols are kept.
func (c config) keepsIn() string {
	switch {
	case c.Store != "":
		return c.Store
	case c.Qdrant.URL != "":
		return storeQdrant
	}
	return storeSQLite
}

func (c config) storeProblems() []error {
	switch {
	case c.Store != "" && c.Store != storeSQLite && c.Store != storeQdrant:
		return []error{fmt.Errorf("store is %q: must be sqlite or qdrant", c.Store)}
	case c.keepsIn() != storeQdrant:
		return nil
	case c.Qdrant.URL == "":
		return []error{errors.New("store is qdrant, but qdrant.url and QDRANT_URL are not set")}
	}
	if c.Qdrant.Timeout < 0 {
		return []error{fmt.Errorf("qdrant.timeout is %s: must not be negative", c.Qdrant.Timeout)}
	}
	if err := c.Qdrant.plain().Validate(); err != nil {
		return []error{fmt.Errorf("qdrant: %w", err)}
	}
	return nil
}

// plain are the options without the API key.
func (q qdrantConfig) plain() qdrant.Options {
	return qdrant.Options{
		URL: q.URL, CACert: q.CACert, Collection: q.Collection, Timeout: time.Duration(q.Timeout), NoRescore: q.Rescore != nil && !*q.Rescore,
	}
}

// options are those of the store, with the API key from the environment or its file.
func (q qdrantConfig) options() (qdrant.Options, error) {
	o := q.plain()
	o.APIKey = qdrant.Secret(os.Getenv(cmp.Or(q.APIKeyEnv, "QDRANT_API_KEY")))
	switch {
	case o.APIKey != "":
	case q.APIKeyEnv != "":
		return o, fmt.Errorf("qdrant.api_key_env names %s, which is not set", q.APIKeyEnv)
	case q.APIKeyFile != "":
		b, err := readFile(q.APIKeyFile)
		if err != nil {
			return o, fmt.Errorf("read qdrant.api_key_file: %w", err)
		}
		o.APIKey = qdrant.Secret(strings.TrimSpace(string(b)))
	}
	return o, nil
}

// protocolStore keeps everything but runs.
type protocolStore interface {
	engine.Protocols
	engine.ProtocolWriter
	engine.ProtocolHistory
	engine.Searcher
	engine.Vectors
	engine.Ratings
}

// openStores opens the database of the runs, and of the protocols where they
// are not in the same one (nil otherwise).
func (c config) openStores(clock *clock.Clock, log *slog.Logger) (*sqlite.Store, *qdrant.Store, error) {
	runs, err := sqlite.OpenLimited(c.Database, c.DatabaseLimits.limits(), log)
	if err != nil || c.keepsIn() != storeQdrant {
		return runs, nil, err
	}
	o, err := c.Qdrant.options()
	if err != nil {
		return nil, nil, errors.Join(err, runs.Close())
	}
	o.Clock = clock
	protocols, err := qdrant.Open(o, log)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("qdrant: %w", err), runs.Close())
	}
	return runs, protocols, nil
}

// engineStore puts the engine's store together.
func (a *app) engineStore() engine.Store {
	var protocols protocolStore = a.store
	if a.qdrant != nil {
		protocols = a.qdrant
	}
	return engine.Store{
		Protocols: protocols, Writer: protocols, Versions: protocols, Searcher: protocols, Vectors: protocols, Ratings: protocols,
		Runs: a.store, Index: a.store, Archive: a.store, History: a.store, Eraser: a.store,
	}
}

// checkQdrant looks whether the server of the protocols can be used, if there is one.
func (a *app) checkQdrant(ctx context.Context) error {
	if a.qdrant == nil {
		return nil
	}
	return a.qdrant.Check(ctx)
}

// closeStores closes both.
func (a *app) closeStores() error {
	if a.qdrant == nil {
		return a.store.Close()
	}
	return errors.Join(a.qdrant.Close(), a.store.Close())
}
