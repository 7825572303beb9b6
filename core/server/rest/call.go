package rest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// call is one request on its way through the guards.
type call struct {
	w      *response
	r      *http.Request
	began  time.Time
	route  *route // nil: none fits
	caller access.Caller
	client string // whose limits the call counts against
	body   []byte // whole, once read
	give   func() // gives back the room of the body; nil: it has none
}

// handler answers a call.
type handler func(c *call)

func newCall(w http.ResponseWriter, r *http.Request, writeTime time.Duration) *call {
	return &call{w: newResponse(w, writeTime), r: r, began: time.Now()}
}

// ms is how long the call has taken so far.
func (c *call) ms() int64 { return time.Since(c.began).Milliseconds() }

// json answers with a JSON document.
func (c *call) json(status int, v any) {
	b, err := api.Encode(v, "")
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"INTERNAL","message":"the reply could not be encoded"}`)
	}
	c.raw(status, b)
}

// raw answers with a JSON document that is encoded already.
func (c *call) raw(status int, document []byte) {
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(document, '\n')) // a client that has gone is noticed elsewhere
}

// refuse answers with an error, to an MCP client in the form of JSON-RPC.
func (c *call) refuse(code fault.Code, format string, args ...any) {
	row, message := fault.RowOf(code), fmt.Sprintf(format, args...)
	name := row.RESTName()
	if c.r.URL.Path == mcpPath {
		c.json(row.Status, map[string]any{
			"jsonrpc": "2.0", "id": nil,
			"error": map[string]any{"code": rpcCode(row.Status), "message": message, "data": map[string]any{"error_code": name, "next_action": row.Advice}},
		})
		return
	}
	c.json(row.Status, map[string]any{
		"error": name, "error_code": name, "message": message, "next_action": row.Advice, "duration_ms": c.ms(),
	})
}

// rpcCode is the code of JSON-RPC that fits the status.
func rpcCode(status int) int {
	switch status {
	case http.StatusBadRequest:
		return -32700 // parse error
	case http.StatusInternalServerError:
		return -32603
	}
	return -32000 // of the server's own
}

// response counts what is written and keeps a client that takes nothing from
// holding the connection: each write has its own deadline, so that a stream may
// last as long as it likes.
type response struct {
	http.ResponseWriter
	control   *http.ResponseController
	writeTime time.Duration
	status    int
	out       int64
	onStream  func() // called when the reply turns out to be a stream
}

func newResponse(w http.ResponseWriter, writeTime time.Duration) *response {
	return &response{ResponseWriter: w, control: http.NewResponseController(w), writeTime: writeTime}
}

// extend moves the deadline. Writers without one, as in tests, are left alone.
func (w *response) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(w.writeTime)) }

func (w *response) WriteHeader(status int) {
	if w.status != 0 && status >= 200 {
		return
	}
	if status >= 200 {
		w.status = status
	}
	w.extend()
	if w.onStream != nil && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		w.onStream()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.extend()
	n, err := w.ResponseWriter.Write(b)
	w.out += int64(n)
	return n, err
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush that tells whether the client is still there.
func (w *response) FlushError() error {
	w.extend()
	return w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack is refused: what is behind it could not be guarded.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}
