package embedding

import "time"

// Observer is notified of requests to the endpoint. It is called concurrently and
// returns at once.
type Observer interface{ Requested(Request) }

// Request is one request to the endpoint. Cache hits are not requests.
type Request struct {
	Provider string
	Space    string // of the caller; empty: in the background
	Texts    int
	// Dimension of the vectors, or 0 after a failure.
	Dimension int
	Took      time.Duration
	Err       error
}

// requested notifies the observer of a request.
func (c *Client) requested(space string, texts int, vectors [][]float32, took time.Duration, err error) {
	if c.cfg.Observer == nil {
		return
	}
	r := Request{Provider: c.cfg.Provider, Space: space, Texts: texts, Took: took, Err: err}
	if err == nil && len(vectors) > 0 {
		r.Dimension = len(vectors[0])
	}
	c.cfg.Observer.Requested(r)
}
