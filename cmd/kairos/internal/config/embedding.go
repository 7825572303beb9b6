package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/internal/openai"
)

// EmbeddingConfig says how texts are compared by meaning: with a table of word vectors,
// or by an endpoint that turns texts into vectors.
type EmbeddingConfig struct {
	// Provider is table, none, openai or tei. It follows from the other settings if it is
	// empty or auto: without an endpoint it is table.
	Provider string `yaml:"provider"`
	// Table is a file with word vectors. The default is the table of the program.
	Table string `yaml:"table"`
	// URL is an endpoint that speaks like OpenAI (Ollama, vLLM), or a TEI server.
	URL string `yaml:"url"`
	// Model is the name of a model at the endpoint: without URL at OpenAI itself. A TEI
	// server has only one.
	Model      string `yaml:"model"`
	APIKeyFile string `yaml:"api_key_file"`

	// APIKeyEnv names the environment variable of the key: OPENAI_API_KEY if the endpoint is
	// OpenAI's own, TEI_API_KEY for tei.
	APIKeyEnv string `yaml:"-"`
	// Dimension of the vectors: EMBEDDING_DIMENSION, else what the endpoint answers with.
	Dimension int `yaml:"-"`
}

// The providers.
const (
	embedNone   = "none"
	embedTable  = "table"
	embedOpenAI = "openai"
	embedTEI    = "tei"
	embedAuto   = "auto"
)

const (
	openAIURL          = "https://api.openai.com/v1"
	defaultOpenAIModel = "text-embedding-3-small"
	maxTable           = 64 << 20 // bytes of a file with word vectors
)

// overlay applies the environment, by the names of the earlier server.
func (c *EmbeddingConfig) overlay(lookup func(string) (string, bool)) error {
	env := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	c.Provider = strings.ToLower(cmp.Or(env(variables["embedding.provider"]), c.Provider))
	c.Provider = c.provider(env)
	switch c.Provider {
	case embedOpenAI:
		if v := env("OPENAI_EMBEDDING_MODEL"); v != "" {
			c.Model = v
		}
		if c.URL == "" {
			c.URL = openAIURL
		}
		if c.Model == "" && c.URL == openAIURL {
			c.Model = defaultOpenAIModel
		}
		// A key of OpenAI is not for other hosts, unless the configuration says so.
		if c.URL == openAIURL && c.APIKeyEnv == "" && c.APIKeyFile == "" {
			c.APIKeyEnv = "OPENAI_API_KEY"
		}
	case embedTEI:
		if v := env("TEI_BASE_URL"); v != "" {
			c.URL = v
		}
		if v := env("TEI_MODEL"); v != "" {
			c.Model = v
		}
		if c.Model == "" {
			c.Model = "default" // the server has only one
		}
		if c.APIKeyEnv == "" && c.APIKeyFile == "" && env("TEI_API_KEY") != "" {
			c.APIKeyEnv = "TEI_API_KEY"
		}
	}
	if v := env("EMBEDDING_DIMENSION"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("environment EMBEDDING_DIMENSION=%q: must be a whole number", v)
		}
		c.Dimension = n
	}
	return nil
}

// named is the provider that the other settings name, or "".
func (c *EmbeddingConfig) named() string {
	switch {
	case c.URL != "" && c.Model == "":
		return embedTEI
	case c.URL != "" || c.Model != "":
		return embedOpenAI
	case c.Table != "":
		return embedTable
	}
	return ""
}

// provider resolves what is not set. A key alone selects nothing: it may be there for
// other programs.
func (c *EmbeddingConfig) provider(env func(string) string) string {
	if c.Provider != "" && c.Provider != embedAuto {
		return c.Provider
	}
	if named := c.named(); named != "" {
		return named
	}
	switch {
	case env("OPENAI_EMBEDDING_MODEL") != "", c.Provider == embedAuto && env("OPENAI_API_KEY") != "":
		return embedOpenAI
	case env("TEI_BASE_URL") != "":
		return embedTEI
	}
	return embedTable
}

// Endpoint reports whether an endpoint makes the vectors.
func (c EmbeddingConfig) Endpoint() bool {
	return c.Provider == embedOpenAI || c.Provider == embedTEI
}

func (c EmbeddingConfig) problems() []error {
	switch {
	case !slices.Contains([]string{"", embedTable, embedNone, embedOpenAI, embedTEI}, c.Provider):
		return []error{fmt.Errorf("embedding.provider is %q: must be table, none, openai, tei or auto", c.Provider)}
	case c.UsesTable() && cmp.Or(c.URL, c.Model) != "":
		return []error{errors.New("embedding.provider is table, so that no endpoint is asked: remove embedding.url and embedding.model, or the provider")}
	case c.UsesTable():
		if _, err := c.ReadTable(); err != nil {
			return []error{fmt.Errorf("embedding.table: %w", err)}
		}
	case c.Endpoint() && c.Table != "":
		return []error{errors.New("embedding.table is not used, because an endpoint replaces the table: remove the table, or embedding.url and embedding.model")}
	case c.Endpoint():
		return c.endpointProblems()
	}
	return nil
}

func (c EmbeddingConfig) endpointProblems() (errs []error) {
	if c.URL == openAIURL && strings.Trim(c.Model[:min(1, len(c.Model))], "./~$") == "" && c.Model != "" {
		return []error{fmt.Errorf("embedding.model is %q, a path: name a model of an endpoint, or set embedding.table to a file with word vectors", c.Model)}
	}
	if err := c.Client("").Validate(); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			errs = append(errs, fmt.Errorf("embedding: %s", line))
		}
	}
	return errs
}

// UsesTable reports whether a table of word vectors is used.
func (c EmbeddingConfig) UsesTable() bool { return c.Provider == embedTable }

// ReadTable returns the table of word vectors.
func (c EmbeddingConfig) ReadTable() (*meaning.Table, error) {
	if c.Table == "" {
		return meaning.Default(), nil
	}
	f, err := files.Open(os.OpenFile, c.Table)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxTable {
		return nil, fmt.Errorf("%s is larger than %d MiB; `kairos db embedding table` makes smaller ones", c.Table, maxTable>>20)
	}
	t, err := meaning.Read(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s is %w; `kairos db embedding table` makes one from word vectors", c.Table, err)
	}
	return t, nil
}

// String says how texts are compared.
func (c EmbeddingConfig) String() string {
	switch {
	case c.Endpoint():
		return fmt.Sprintf("%s %s at %s", c.Provider, c.Model, c.URL)
	case c.Provider == embedNone:
		return "none: texts are compared by words alone"
	case c.Table != "":
		return "word vectors of " + c.Table
	}
	return "built-in English word vectors"
}

// Client is the configuration of a client of the endpoint.
func (c EmbeddingConfig) Client(key openai.Secret) embedding.Config {
	return embedding.Config{
		Provider: c.Provider, URL: c.URL, Model: c.Model, Key: key,
		Dimension: c.Dimension, AskDimension: c.Dimension > 0 && c.Provider == embedOpenAI,
	}
}

// Key reads the API key, "" if none is configured.
func (c EmbeddingConfig) Key() (openai.Secret, error) {
	switch {
	case c.APIKeyFile != "":
		b, err := files.Read(c.APIKeyFile)
		if err != nil {
			return "", fmt.Errorf("read embedding.api_key_file: %w", err)
		}
		return openai.Secret(strings.TrimSpace(string(b))), nil
	case c.APIKeyEnv != "":
		key := strings.TrimSpace(os.Getenv(c.APIKeyEnv))
		if key == "" {
			return "", fmt.Errorf("the environment variable %s is not set; it holds the key of the embedding endpoint", c.APIKeyEnv)
		}
		return openai.Secret(key), nil
	}
	return "", nil
}

// EmbeddingFix is what to do when the endpoint fails.
const EmbeddingFix = "see that the endpoint runs and that embedding.url, model and key are right; until then words alone decide"
