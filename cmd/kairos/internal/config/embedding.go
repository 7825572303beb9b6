package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/static"
	"github.com/kairos-mcp/kairos/internal/openai"
)

// EmbeddingConfig says which endpoint or local model turns texts into vectors.
type EmbeddingConfig struct {
	// URL is an endpoint that speaks like OpenAI (Ollama, vLLM), or a TEI server.
	URL string `yaml:"url"`
	// Model is a folder with a model, or the name of one at the endpoint: without URL at
	// OpenAI itself. A TEI server has only one.
	Model      string `yaml:"model"`
	APIKeyFile string `yaml:"api_key_file"`

	// Provider follows from the above, or EMBEDDING_PROVIDER says it: none, openai, tei,
	// static, or auto.
	Provider string `yaml:"-"`
	// APIKeyEnv names the environment variable of the key: OPENAI_API_KEY if the endpoint is
	// OpenAI's own, TEI_API_KEY for tei.
	APIKeyEnv string `yaml:"-"`
	// Dimension of the vectors: EMBEDDING_DIMENSION, else what the endpoint answers with.
	Dimension int `yaml:"-"`
}

// The providers.
const (
	EmbedNone   = "none"
	embedOpenAI = "openai"
	embedTEI    = "tei"
	EmbedStatic = "static"
	embedAuto   = "auto"
)

const (
	openAIURL          = "https://api.openai.com/v1"
	defaultOpenAIModel = "text-embedding-3-small"
)

// isFolder reports whether the model is written as a path, or is a folder although it
// could be a name.
func (c *EmbeddingConfig) isFolder(dir string) bool {
	if filepath.IsAbs(c.Model) || slices.ContainsFunc([]string{"./", "../", "~", "$"}, func(begin string) bool { return strings.HasPrefix(c.Model, begin) }) {
		return true
	}
	info, err := os.Stat(filepath.Join(dir, c.Model))
	return c.Model != "" && c.URL == "" && err == nil && info.IsDir()
}

// relativeTo makes paths of a file relative to its folder, and settles what the section
// means: a folder, an endpoint, or OpenAI itself.
func (c *EmbeddingConfig) relativeTo(dir string) (err error) {
	switch {
	case c.isFolder(dir):
		c.Provider = EmbedStatic
		c.Model, err = understoodPath(c.Model)
		c.Model = absolute(dir, c.Model)
	case c.URL != "" && c.Model == "":
		c.Provider = embedTEI
	case c.URL != "" || c.Model != "":
		c.Provider = embedOpenAI
	}
	return err
}

// overlay applies the environment, by the names of the earlier server.
func (c *EmbeddingConfig) overlay(lookup func(string) (string, bool)) error {
	env := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	if v := env("EMBEDDING_PROVIDER"); v != "" {
		c.Provider = strings.ToLower(v)
	}
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

// provider resolves what is left to the environment. A key alone selects
// nothing: it may be there for other programs.
func (c *EmbeddingConfig) provider(env func(string) string) string {
	if c.Provider != "" && c.Provider != embedAuto {
		return c.Provider
	}
	switch {
	case env("OPENAI_EMBEDDING_MODEL") != "", c.Provider == embedAuto && env("OPENAI_API_KEY") != "":
		return embedOpenAI
	case env("TEI_BASE_URL") != "":
		return embedTEI
	}
	return EmbedNone
}

// On reports whether texts are compared by meaning.
func (c EmbeddingConfig) On() bool { return c.Provider != EmbedNone && c.Provider != "" }

func (c EmbeddingConfig) problems() []error {
	var errs []error
	if p := c.Provider; p != "" && !slices.Contains([]string{EmbedNone, embedOpenAI, embedTEI, EmbedStatic}, p) {
		return append(errs, fmt.Errorf("environment EMBEDDING_PROVIDER is %q: must be none, openai, tei, static or auto", p))
	}
	if c.Provider == EmbedStatic {
		return append(errs, c.staticProblems()...)
	}
	if !c.On() {
		return errs
	}
	if err := c.Client("").Validate(); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			errs = append(errs, fmt.Errorf("embedding: %s", line))
		}
	}
	return errs
}

// staticProblems are what is wrong with a model in a folder.
func (c EmbeddingConfig) staticProblems() []error {
	switch {
	case c.Model == "":
		return []error{errors.New("embedding.model is not set: EMBEDDING_PROVIDER=static needs the folder of the model there")}
	case c.URL != "" || c.APIKeyFile != "":
		return []error{errors.New("embedding.model is a folder, so that no endpoint is asked: remove embedding.url and embedding.api_key_file, or name the model of the endpoint")}
	}
	if err := static.Check(c.Model); err != nil {
		return []error{fmt.Errorf("embedding.model: the folder must hold model.safetensors, tokenizer.json and config.json: %w", err)}
	}
	return nil
}

// At is where the vectors come from.
func (c EmbeddingConfig) At() string {
	if c.Provider == EmbedStatic {
		return c.Model
	}
	return c.URL
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

// Fix is what to do when the vectors fail.
func (c EmbeddingConfig) Fix() string {
	if c.Provider == EmbedStatic {
		return "put a model into the folder embedding.model names and see `kairos db embedding check`; until then words alone decide"
	}
	return "see that the endpoint runs and that embedding.url, model and key are right; until then words alone decide"
}
