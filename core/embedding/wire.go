package embedding

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/internal/openai"
)

// maxAnswer is more bytes than the vectors of this many texts take.
func maxAnswer(texts int) int64 {
	const number, most = 32, 128 << 20
	return min(64<<10+int64(texts)*number*maxDimension, most)
}

// once sends one request and notifies the observer.
func (c *Client) once(ctx context.Context, texts []string) ([][]float32, error) {
	began := time.Now()
	out, err := c.request(ctx, texts)
	c.requested(access.SpaceOf(ctx), len(texts), out, time.Since(began), err)
	return out, err
}

// request sends one request and validates the answer.
func (c *Client) request(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req := openai.EmbeddingRequest{Input: texts, Model: c.cfg.Model}
	if c.cfg.AskDimension {
		req.Dimensions = c.cfg.Dimension
	}
	items, err := c.api.Embed(ctx, c.at, req, maxAnswer(len(texts)))
	if err != nil {
		return nil, err
	}
	return ordered(items, len(texts))
}
