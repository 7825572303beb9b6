package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/run"
)

// roundTrips is the shortest time that a message to one client and its reply took: of the handshake, and of
// requests that no person answers. The zero value is ready.
type roundTrips struct {
	mu       sync.Mutex // guards the fields below
	greeted  time.Time  // when the reply to initialize was made; zero: the client has confirmed it
	shortest time.Duration
}

// greet notes that the reply to initialize is sent.
func (r *roundTrips) greet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.greeted = time.Now()
}

// confirmed notes that the client has confirmed the handshake.
func (r *roundTrips) confirmed() {
	r.mu.Lock()
	greeted := r.greeted
	r.greeted = time.Time{}
	r.mu.Unlock()
	if !greeted.IsZero() {
		r.took(time.Since(greeted))
	}
}

// took notes how long the client took for a message that it answers without its person.
func (r *roundTrips) took(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shortest == 0 || d < r.shortest {
		r.shortest = d
	}
}

// known is the shortest round trip; zero: none is known.
func (r *roundTrips) known() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shortest
}

// delayed is how long the answer to a question took, after it was sent; nil: it was not measured.
func (c *connection) delayed(q *question, human bool) *run.Delay {
	if q.after == nil {
		return nil
	}
	if !human {
		c.trips.took(*q.after)
	}
	return &run.Delay{After: *q.after, RoundTrip: c.trips.known()}
}

// measureHandshakes has the server time how long clients take to confirm the handshake.
func measureHandshakes(s *server.MCPServer) {
	s.AddNotificationHandler("notifications/initialized", func(ctx context.Context, _ mcp.JSONRPCNotification) {
		if conn := originOf(ctx).conn; conn != nil {
			conn.trips.confirmed()
		}
	})
}
