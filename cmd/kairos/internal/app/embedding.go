package app

import (
	"fmt"
	"log/slog"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/static"
	"github.com/kairos-mcp/kairos/core/library"
)

// Embedder returns the configured endpoint or model, which is not asked yet, or nil.
func Embedder(c config.EmbeddingConfig, observer embedding.Observer, log *slog.Logger) (library.Embedder, error) {
	if !c.On() {
		return nil, nil
	}
	if c.Provider == config.EmbedStatic {
		return static.New(c.Model, log), nil
	}
	key, err := c.Key()
	if err != nil {
		return nil, err
	}
	cfg := c.Client(key)
	cfg.Observer = observer
	if cfg.Exposed() {
		log.Warn("the key of the embedding endpoint crosses the network in the clear; use https", "url", c.URL)
	}
	client, err := embedding.New(cfg, log)
	if err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	return client, nil
}
