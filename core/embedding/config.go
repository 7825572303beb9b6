package embedding

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/internal/openai"
)

// Config describes the endpoint. URL and Model are required.
type Config struct {
	// Provider is the first part of the name that vectors are stored under.
	Provider string
	// URL of the endpoint, with or without the final /v1.
	URL   string
	Model string
	// Key is sent as a bearer token, or empty.
	Key openai.Secret
	// Dimension of every vector. The default is that of the first answer.
	Dimension int
	// AskDimension requests vectors of that length from the endpoint, which only
	// some models support.
	AskDimension bool
	// Timeout of one request. The default is 10 s.
	Timeout time.Duration
	// Budget of one Embed with all its requests and retries, if the context has no
	// earlier deadline. The default is 1 min.
	Budget time.Duration
	// Batch is how many texts go into a request. The default is 32, the default limit of TEI.
	Batch int
	// BatchCharacters is how many characters go into a request. The default is 100,000.
	// A longer text is sent alone.
	BatchCharacters int
	// Backoff is the pause before the first retry; it doubles. Zero: 250 ms.
	Backoff time.Duration
	// CoolDown is how long a failed endpoint is not called; it doubles up to 16
	// times its length while failures continue. Zero: 5 s.
	CoolDown time.Duration
	// Kept is how many vectors are cached. The default is 2048.
	Kept int
	// Observer is notified of every request; optional.
	Observer Observer
}

const (
	// maxDimension is larger than that of any model.
	maxDimension = 16384
	// maxBatch is the limit of the largest endpoint.
	maxBatch = 2048
)

// Validate reports what is wrong, without showing secrets.
func (c Config) Validate() error {
	var errs []error
	if err := openai.CheckURL(c.URL); err != nil {
		errs = append(errs, fmt.Errorf("the url %w", err))
	}
	if c.Model == "" {
		errs = append(errs, errors.New("the model is missing"))
	}
	if c.Dimension < 0 || c.Dimension > maxDimension {
		errs = append(errs, fmt.Errorf("dimension is %d: must be from 1 to %d, or 0 for what the endpoint answers", c.Dimension, maxDimension))
	}
	if c.Batch < 0 || c.Batch > maxBatch {
		errs = append(errs, fmt.Errorf("batch is %d: must be from 1 to %d, or 0 for the default", c.Batch, maxBatch))
	}
	if c.Timeout < 0 || c.Budget < 0 {
		errs = append(errs, errors.New("timeout and budget must not be negative"))
	}
	if strings.ContainsAny(string(c.Key), "\r\n") {
		errs = append(errs, errors.New("the API key has more than one line"))
	}
	return errors.Join(errs...)
}

// Exposed reports whether the key would go over the network in the clear.
func (c Config) Exposed() bool {
	u, err := url.Parse(c.URL)
	if err != nil || c.Key == "" || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		at *time.Duration
		to time.Duration
	}{{&c.Timeout, 10 * time.Second}, {&c.Budget, time.Minute}, {&c.Backoff, 250 * time.Millisecond}, {&c.CoolDown, 5 * time.Second}} {
		if *d.at == 0 {
			*d.at = d.to
		}
	}
	for _, d := range []struct {
		at *int
		to int
	}{{&c.Batch, 32}, {&c.BatchCharacters, 100_000}, {&c.Kept, 2048}} {
		if *d.at == 0 {
			*d.at = d.to
		}
	}
	return c
}
