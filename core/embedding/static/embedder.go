package static

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kairos-mcp/kairos/core/library"
)

// Embedder provides the vectors of the model in a folder. It loads the model at
// first use and is safe for concurrent use.
type Embedder struct {
	folder string
	log    *slog.Logger

	mu    sync.Mutex // guards model
	model *Model     // nil until it is loaded
}

var _ library.Embedder = (*Embedder)(nil)

// New returns the embedder of the model in a folder. It does not load the model
// yet.
func New(folder string, log *slog.Logger) *Embedder { return &Embedder{folder: folder, log: log} }

// Model returns the model, loading it if this is the first use. A failed load
// is tried again by the next call.
func (e *Embedder) Model() (*Model, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.model != nil {
		return e.model, nil
	}
	m, err := Load(e.folder)
	if err != nil {
		return nil, fmt.Errorf("the embedding model in %s: %w", e.folder, err)
	}
	e.log.Debug("embedding model loaded", "folder", e.folder, "model", m.Name(), "tokens", m.Tokens(), "dimension", m.Dimension())
	e.model = m
	return m, nil
}

// Embed implements library.Embedder. It fails as a whole.
func (e *Embedder) Embed(ctx context.Context, texts []string) (library.Embedded, error) {
	m, err := e.Model()
	if err != nil {
		return library.Embedded{}, err
	}
	out := library.Embedded{Model: m.Name(), Vectors: make([][]float32, len(texts))}
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return library.Embedded{}, err
		}
		if out.Vectors[i], err = m.Vector(text); err != nil {
			return library.Embedded{}, fmt.Errorf("the embedding model: %w", err)
		}
	}
	return out, nil
}
