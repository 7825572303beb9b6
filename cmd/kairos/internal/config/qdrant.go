package config

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

type qdrantConfig struct {
	// URL of the server. Without it there is no index.
	URL string `yaml:"url"`
	// APIKeyEnv names the environment variable with the API key. Default QDRANT_API_KEY.
	APIKeyEnv string `yaml:"api_key_env"`
	// APIKeyFile is a file with the API key; the environment comes first.
	APIKeyFile string `yaml:"api_key_file"`
	// CACert is a PEM file with the authorities that may have signed the server's certificate.
	CACert     string   `yaml:"ca_cert"`
	Collection string   `yaml:"collection"`
	Timeout    Duration `yaml:"timeout"`
}

// On reports whether there is an index.
func (q qdrantConfig) On() bool { return q.URL != "" }

func (q qdrantConfig) problems() []error {
	if !q.On() {
		return nil
	}
	if q.Timeout < 0 {
		return []error{fmt.Errorf("qdrant.timeout is %s: must not be negative", q.Timeout)}
	}
	if err := q.Plain().Validate(); err != nil {
		return []error{fmt.Errorf("qdrant: %w", err)}
	}
	return nil
}

// Plain are the options without the API key.
func (q qdrantConfig) Plain() qdrant.Options {
	return qdrant.Options{
		Options:    client.Options{URL: q.URL, CACert: q.CACert, Timeout: time.Duration(q.Timeout)},
		Collection: q.Collection,
	}
}

// Options are those of the index, with the API key from the environment or its file.
func (q qdrantConfig) Options() (qdrant.Options, error) {
	o := q.Plain()
	o.APIKey = client.Secret(os.Getenv(cmp.Or(q.APIKeyEnv, "QDRANT_API_KEY")))
	switch {
	case o.APIKey != "":
	case q.APIKeyEnv != "":
		return o, fmt.Errorf("qdrant.api_key_env names %s, which is not set", q.APIKeyEnv)
	case q.APIKeyFile != "":
		b, err := files.Read(q.APIKeyFile)
		if err != nil {
			return o, fmt.Errorf("read qdrant.api_key_file: %w", err)
		}
		o.APIKey = client.Secret(strings.TrimSpace(string(b)))
	}
	return o, nil
}
