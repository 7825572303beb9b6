package embedding

import "time"

// Observer hears of requests to the endpoint. It is called concurrently and
// returns at once.
type Observer interface{ Requested(Request) }

// Request is one request to the endpoint. What is answered from memory is none.
type Request struct {
	Provider string
	Space    string // for whom; empty: in the background
	Texts    int
	// Dimension of the vectors; zero: it failed.
	Dimension int
	Took      time.Duration
	Err       error
}

// requested tells of a request.
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
