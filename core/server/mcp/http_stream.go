package mcp

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

// writeWait limits how long a client may take to read one message.
const writeWait = 30 * time.Second

var errStreamOver = errors.New("the stream has ended")

// carrier carries messages to a client. Methods are called concurrently.
type carrier interface {
	send(v any) error
	// lost reports whether what was sent last may not have arrived.
	disconnected() bool
}

// postStream is the response to a POST. It is one JSON document, unless a message is
// sent before the reply: then it is a stream of events.
type postStream struct {
	w      http.ResponseWriter
	cancel func() // ends the call, whose reply cannot be sent any more
	able   bool   // can stream

	mu      sync.Mutex // guards the fields below and writes to w
	started bool       // as a stream
	ended   bool

	failed atomic.Bool
}

func newPostStream(w http.ResponseWriter, cancel func()) *postStream {
	return &postStream{w: w, cancel: cancel, able: canFlush(w)}
}

// canFlush checks the writer below all wrappers.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// open reports whether a message can still be sent before the reply.
func (s *postStream) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.able && !s.ended
}

// disconnected does not wait for a write.
func (s *postStream) disconnected() bool { return s.failed.Load() }

func (s *postStream) send(v any) error {
	text, err := api.Encode(v, "")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.able || s.ended {
		return errStreamOver
	}
	if !s.started {
		s.started = true
		startEvents(s.w)
	}
	if err := writeEvent(s.w, text); err != nil {
		s.ended = true
		s.failed.Store(true)
		s.cancel()
		return err
	}
	return nil
}

// finish sends the reply, unless it is nil.
func (s *postStream) finish(status int, r *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	switch {
	case r == nil && !s.started:
		s.w.WriteHeader(http.StatusAccepted)
	case r == nil:
	case !s.started:
		deadline(s.w)
		writeJSON(s.w, status, r)
	default:
		text, err := api.Encode(r, "")
		if err != nil {
			text, _ = api.Encode(refusal(r.ID, &replyError{Code: mcp.INTERNAL_ERROR, Message: "internal error"}), "") // encodes
		}
		if err := writeEvent(s.w, text); err != nil {
			s.failed.Store(true)
		}
	}
}

// end is called when the handler returns; gone: the client has hung up.
func (s *postStream) end(gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if gone {
		s.failed.Store(true)
	}
}

// deadline is set before each write, because the server's own deadline starts with the
// request.
func deadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait)) // where there are any
}

func startEvents(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// writeEvent sends one event at once. JSON of ours has no line breaks.
func writeEvent(w http.ResponseWriter, text []byte) error {
	event := make([]byte, 0, len(text)+32)
	event = append(event, "event: message\ndata: "...)
	event = append(event, text...)
	return writeNow(w, append(event, "\n\n"...))
}

func writeNow(w http.ResponseWriter, text []byte) error {
	deadline(w)
	if _, err := w.Write(text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// listener is a GET stream. Messages wait for its handler to write them.
type listener struct {
	out  chan any
	over chan struct{} // closed by end
	once sync.Once
}

// maxUnsent limits the messages that wait on a stream. A client that lets more wait does
// not read.
const maxUnsent = 64

func newListener() *listener {
	return &listener{out: make(chan any, maxUnsent), over: make(chan struct{})}
}

func (l *listener) end() { l.once.Do(func() { close(l.over) }) }

func (l *listener) disconnected() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func (l *listener) send(v any) error {
	if l.disconnected() {
		return errStreamOver
	}
	select {
	case l.out <- v:
		return nil
	default:
		l.end()
		return errStreamOver
	}
}
