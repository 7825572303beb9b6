package embedding

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/internal/openai"
)

// Client gets the vectors of one model from one endpoint. It is safe for
// concurrent use, starts nothing in the background and needs no Close.
type Client struct {
	cfg     Config
	api     *openai.Client
	at      openai.Endpoint
	circuit *circuit
	log     *slog.Logger
	kept    *lru.Cache[[sha256.Size]byte, []float32] // by the sum of the text

	mu        sync.Mutex // guards dimension
	dimension int        // of the vectors in kept; 0: not known yet
}

var _ library.Embedder = (*Client)(nil)

// New returns a client. It sends nothing yet.
func New(cfg Config, log *slog.Logger) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	kept, err := lru.New[[sha256.Size]byte, []float32](cfg.Kept)
	if err != nil {
		return nil, fmt.Errorf("make the cache of vectors: %w", err)
	}
	at := openai.Endpoint{URL: openai.Versioned(cfg.URL), Key: cfg.Key}
	log = log.With("url", at.URL, "model", cfg.Model)
	return &Client{
		cfg: cfg, api: openai.New(), at: at, circuit: &circuit{first: cfg.CoolDown, log: log},
		log: log, kept: kept, dimension: cfg.Dimension,
	}, nil
}

// errOtherLength reports that the length of the endpoint's vectors changed.
var errOtherLength = errors.New("the endpoint changes the length of its vectors")

// probe is embedded only to learn the dimension.
const probe = "kairos"

// Close closes idle connections. The client can still be used.
func (c *Client) Close() { c.api.Close() }

// Embed implements library.Embedder. All vectors of a reply belong to one model
// and have unit length; callers must not change them. It fails as a whole.
func (c *Client) Embed(ctx context.Context, texts []string) (library.Embedded, error) {
	if len(texts) == 0 {
		if n := c.known(); n > 0 {
			return library.Embedded{Model: c.name(n)}, nil
		}
		out, err := c.Embed(ctx, []string{probe})
		return library.Embedded{Model: out.Model}, err
	}
	if out, missing := c.remembered(texts); len(missing) == 0 {
		return out, nil
	}
	if err := c.circuit.enter(); err != nil {
		return library.Embedded{}, err
	}
	started := time.Now()
	within, cancel := context.WithTimeout(ctx, c.cfg.Budget)
	defer cancel()
	out, err := c.embed(within, texts)
	if errors.Is(err, errOtherLength) {
		// The cached vectors belong to another model: start again.
		out, err = c.embed(within, texts)
	}
	c.judge(ctx, time.Since(started), err)
	if err != nil {
		var r *openai.Refusal
		if errors.As(err, &r) && r.Content() {
			return library.Embedded{}, fmt.Errorf("the embedding endpoint: %w: %w", library.ErrTextRefused, err)
		}
		return library.Embedded{}, fmt.Errorf("the embedding endpoint: %w", err)
	}
	return out, nil
}

// judge reports the outcome of an Embed to the circuit breaker.
func (c *Client) judge(ctx context.Context, took time.Duration, err error) {
	var r *openai.Refusal
	switch {
	case err == nil:
		c.circuit.answered()
	case errors.As(err, &r) && r.Content():
		c.circuit.answered() // it examined a text, so it works
	case errors.Is(ctx.Err(), context.Canceled), ctx.Err() != nil && took < min(time.Second, c.cfg.Timeout):
		c.circuit.gaveUp() // the caller had no time for it
	case r != nil:
		c.circuit.failed(err, r.After)
	default:
		c.circuit.failed(err, 0)
	}
}

func (c *Client) name(dimension int) string {
	return fmt.Sprintf("%s/%s/%d", c.cfg.Provider, c.cfg.Model, dimension)
}

func (c *Client) known() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dimension
}

// remembered looks texts up in the cache; missing are those that are not there,
// each once.
func (c *Client) remembered(texts []string) (out library.Embedded, missing []string) {
	c.mu.Lock() // so that all are of one dimension
	defer c.mu.Unlock()
	out.Model, out.Vectors = c.name(c.dimension), make([][]float32, len(texts))
	requested := make(map[string]bool)
	for i, text := range texts {
		v, ok := c.kept.Get(sha256.Sum256([]byte(text)))
		if ok {
			out.Vectors[i] = v
		} else if !requested[text] {
			requested[text] = true
			missing = append(missing, text)
		}
	}
	return out, missing
}

// remember caches vectors. Vectors of another length empty the cache:
// errOtherLength.
func (c *Client) remember(texts []string, vectors [][]float32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(vectors[0])
	if c.cfg.Dimension != 0 && n != c.cfg.Dimension {
		return &openai.Unusable{Problem: fmt.Sprintf("its vectors have %d numbers, the configured dimension is %d", n, c.cfg.Dimension)}
	}
	before := c.dimension
	if before != n {
		c.kept.Purge()
		c.dimension = n
	}
	for i, text := range texts {
		c.kept.Add(sha256.Sum256([]byte(text)), vectors[i])
	}
	if before != 0 && before != n {
		c.log.Warn("the embedding endpoint answers with another dimension, so everything is embedded anew", "before", before, "now", n)
		return errOtherLength
	}
	return nil
}

// embed gets the vectors that are not cached, batch by batch.
func (c *Client) embed(ctx context.Context, texts []string) (library.Embedded, error) {
	out, missing := c.remembered(texts)
	fresh := make(map[string][]float32, len(missing))
	for len(missing) > 0 {
		n := c.batch(missing)
		vectors, err := c.ask(ctx, missing[:n])
		if err != nil {
			return out, err
		}
		if err := c.remember(missing[:n], vectors); err != nil {
			return out, err
		}
		for i, text := range missing[:n] {
			fresh[text] = vectors[i]
		}
		missing = missing[n:]
	}
	for i, text := range texts {
		if out.Vectors[i] == nil {
			out.Vectors[i] = fresh[text]
		}
		if len(out.Vectors[i]) != len(out.Vectors[0]) {
			return out, errOtherLength // another call emptied the cache meanwhile
		}
	}
	out.Model = c.name(len(out.Vectors[0]))
	return out, nil
}

// batch is how many of the texts fit into a request.
func (c *Client) batch(texts []string) int {
	characters := 0
	for i, text := range texts {
		characters += utf8.RuneCountInString(text)
		if i == c.cfg.Batch || i > 0 && characters > c.cfg.BatchCharacters {
			return i
		}
	}
	return len(texts)
}

// shortest is the length in bytes below which a text is not shortened any more.
const shortest = 500

// ask gets the vectors of a batch. If the endpoint finds it too large, it is
// split; a single text that is too long is shortened, like endpoints do that
// truncate texts themselves.
func (c *Client) ask(ctx context.Context, texts []string) ([][]float32, error) {
	out, err := c.persist(ctx, texts)
	var r *openai.Refusal
	if !errors.As(err, &r) || !r.Content() {
		return out, err
	}
	if len(texts) == 1 {
		if len(texts[0]) < shortest {
			return nil, err
		}
		return c.ask(ctx, []string{beginning(texts[0])})
	}
	half := len(texts) / 2
	first, err := c.ask(ctx, texts[:half])
	if err != nil {
		return nil, err
	}
	second, err := c.ask(ctx, texts[half:])
	if err != nil {
		return nil, err
	}
	if len(first[0]) != len(second[0]) {
		return nil, &openai.Unusable{Problem: fmt.Sprintf("its vectors have different lengths: %d and %d", len(first[0]), len(second[0]))}
	}
	return append(first, second...), nil
}

// beginning is the first half of a text, in whole characters.
func beginning(text string) string {
	at := len(text) / 2
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at]
}

// attempts bounds how often one request is sent.
const attempts = 5

// persist sends a request until it succeeds, fails permanently, or the time is up.
func (c *Client) persist(ctx context.Context, texts []string) ([][]float32, error) {
	pause := c.cfg.Backoff
	for i := 1; ; i++ {
		out, err := c.once(ctx, texts)
		if err == nil {
			return out, nil
		}
		var r *openai.Refusal
		if bad := (*openai.Unusable)(nil); errors.As(err, &bad) || errors.As(err, &r) && !r.Passing() || ctx.Err() != nil || i == attempts {
			return nil, err
		}
		// Jitter, so that many servers do not retry at the same moment.
		wait := pause/2 + rand.N(pause/2+1)
		if r != nil {
			wait = max(wait, r.After)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
		pause *= 2
	}
}
