package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/server/jsonlimit"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Limits of every transport.
const (
	maxMessage  = 32 << 20 // bytes
	maxEnvelope = 64 << 10 // bytes of a message without the parts that may be large
	maxID       = 1 << 10  // bytes of a request id
	maxInFlight = 1024     // requests of one connection that are being served
)

// rpcMessage is any JSON-RPC message.
type rpcMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// messageKind depends on which fields a message has.
type messageKind int

const (
	isRequest messageKind = iota
	isNotification
	isAnswer // to a request of ours
)

// read decodes an untrusted message. The error is for the client. The message has then
// nothing but its id, if that can be read.
func read(text []byte) (m rpcMessage, k messageKind, problem *replyError) {
	if problem := decode(text, &m); problem != nil {
		return rpcMessage{ID: unreadID(text)}, k, problem
	}
	if m.Method != nil {
		if problem := checkEnvelope(m, len(text)); problem != nil {
			return m, k, problem
		}
	}
	switch {
	case m.Method == nil && (m.Result != nil || m.Error != nil):
		return m, isAnswer, nil
	case m.Method == nil:
		return m, k, &replyError{Code: mcp.INVALID_REQUEST, Message: "neither method nor result"}
	case m.ID == nil:
		return m, isNotification, nil
	case !validID(m.ID):
		m.ID = nil
		return m, k, &replyError{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(
			"the id must be a string or a number of at most %d bytes", maxID)}
	default:
		return m, isRequest, nil
	}
}

func decode(text []byte, m *rpcMessage) *replyError {
	if bytes.HasPrefix(text, byteOrderMark) {
		return &replyError{Code: mcp.PARSE_ERROR, Message: "the message begins with a byte order mark: send UTF-8 without one"}
	}
	if !utf8.Valid(text) {
		return &replyError{Code: mcp.PARSE_ERROR, Message: "not UTF-8"}
	}
	if err := jsonlimit.Check(text); err != nil {
		return &replyError{Code: mcp.PARSE_ERROR, Message: "the message cannot be read: " + err.Error()}
	}
	err := json.Unmarshal(text, m)
	switch {
	case err == nil:
		return nil
	case json.Valid(text):
		return &replyError{Code: mcp.INVALID_REQUEST, Message: "not a JSON-RPC message; batches are not supported"}
	}
	return &replyError{Code: mcp.PARSE_ERROR, Message: "not JSON"}
}

// checkEnvelope limits what a client says about itself and about its request: names,
// versions, capabilities, tokens, levels and everything else but the arguments of a tool
// and the answers in a repeated call. It comes before anything of that is decoded, because
// it is decoded several times, and parts of it are kept.
func checkEnvelope(m rpcMessage, size int) *replyError {
	if size <= maxEnvelope {
		return nil
	}
	what := *m.Method
	if what == string(mcp.MethodToolsCall) {
		var large struct {
			Arguments      json.RawMessage `json:"arguments"`
			InputResponses json.RawMessage `json:"inputResponses"`
		}
		if json.Unmarshal(m.Params, &large) == nil {
			size -= len(large.Arguments) + len(large.InputResponses)
		}
		what += " without arguments and inputResponses"
	}
	if size <= maxEnvelope {
		return nil
	}
	return &replyError{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(
		"%.100s has %d bytes, and the limit is %d: shorten clientInfo, capabilities, _meta or the other parameters", what, size, maxEnvelope)}
}

// isError reports whether an answer is an error of the client.
func (m rpcMessage) isError() bool { return m.Error != nil && string(m.Error) != "null" }

func validID(id json.RawMessage) bool {
	return len(id) > 0 && len(id) <= maxID && (id[0] == '"' || id[0] == '-' || (id[0] >= '0' && id[0] <= '9'))
}

// reply is a JSON-RPC response with the id exactly as the client wrote it.
type reply struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *replyError     `json:"error,omitempty"`
}

type replyError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// refusal returns a reply with an error. An invalid id becomes null.
func refusal(id json.RawMessage, e *replyError) reply {
	if !validID(id) {
		id = json.RawMessage("null")
	}
	return reply{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Error: e}
}

// respond serves the request m, of which raw is the text, through mcp-go and returns the
// reply, or nil.
func (s *Server) respond(ctx context.Context, m rpcMessage, raw json.RawMessage) *reply {
	n := &note{message: raw}
	response := s.mcp.HandleMessage(withNote(ctx, n), raw)
	if response == nil {
		return nil
	}
	return wireReply(m.ID, response, n)
}

// wireReply makes the reply from the response of mcp-go and from the note of the
// request, which holds what mcp-go cannot carry: codes, data and questions.
func wireReply(id json.RawMessage, response mcp.JSONRPCMessage, n *note) *reply {
	out := &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: id}
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		if n.err != nil { // of a hook, which cannot return one
			out.Error = &replyError{Code: n.err.code, Message: n.err.message}
			break
		}
		out.Result = r.Result
		if res, ok := r.Result.(*mcp.CallToolResult); ok {
			out.Result = toolResult(res, n)
		}
	case mcp.JSONRPCError:
		out.Error = &replyError{Code: r.Error.Code, Message: withoutGoTypes(r.Error.Message), Data: r.Error.Data}
		if n.err != nil {
			out.Error = &replyError{Code: n.err.code, Message: n.err.message}
		}
		if n.data != nil {
			out.Error.Data = n.data
		}
	default:
		out.Error = &replyError{Code: mcp.INTERNAL_ERROR, Message: "internal error"}
	}
	return out
}

// goType matches an error of encoding/json about a value of the wrong type. mcp-go
// passes it on with the names of its Go types.
var goType = regexp.MustCompile(`json: cannot unmarshal (\w+)(?: (\S+))? into Go (?:struct field \w+\.(\S+)|value) of type \S+`)

func withoutGoTypes(message string) string {
	return goType.ReplaceAllStringFunc(message, func(found string) string {
		m := goType.FindStringSubmatch(found)
		where := cmp.Or(m[3], "the message")
		if m[2] != "" {
			return fmt.Sprintf("the %s %s in %s cannot be read", m[1], m[2], where)
		}
		return fmt.Sprintf("%s has the wrong type: it is of type %s", where, m[1])
	})
}

// toolResult is the result of a tool as it is sent.
func toolResult(res *mcp.CallToolResult, n *note) any {
	if n.requests != nil {
		return inputRequired{Meta: res.Meta, ResultType: res.ResultType, Requests: n.requests, State: res.RequestState}
	}
	structured, ours := res.StructuredContent.(json.RawMessage)
	if !ours {
		return res
	}
	return replyResult{
		Meta: res.Meta, Content: res.Content, IsError: res.IsError, ResultType: res.ResultType, StructuredContent: structured,
	}
}

// replyResult has the JSON of mcp-go's result, but is encoded once: mcp-go's converts
// itself to a map and encodes each reply three times more.
type replyResult struct {
	Meta              *mcp.Meta       `json:"_meta,omitempty"`
	Content           []mcp.Content   `json:"content"`
	IsError           bool            `json:"isError,omitempty"`
	ResultType        mcp.ResultType  `json:"resultType,omitempty"`
	StructuredContent json.RawMessage `json:"structuredContent"`
}

// inputRequired is the result that asks the client, with the requests verbatim.
type inputRequired struct {
	Meta       *mcp.Meta                `json:"_meta,omitempty"`
	ResultType mcp.ResultType           `json:"resultType"`
	Requests   map[string]clientRequest `json:"inputRequests"`
	State      string                   `json:"requestState"`
}

// clientError reads an error object, or what a client sent instead of one.
func clientError(raw json.RawMessage) *driver.ClientError {
	var e struct {
		Code    float64 `json:"code"`
		Message string  `json:"message"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return &driver.ClientError{Code: mcp.INTERNAL_ERROR, Message: "the client sent an error that cannot be read"}
	}
	return &driver.ClientError{Code: int(e.Code), Message: e.Message}
}

var (
	errBusy  = errors.New("too many requests at a time on this connection")
	errTwice = errors.New("a request with this id is being served: use another id")
)

// inflight is a request being served.
type inflight struct {
	cancel    context.CancelFunc
	cancelled bool // by the client, which wants no reply; guarded by inflights.mu
}

// inflights are the requests of one connection that are being served. The zero
// value is ready.
type inflights struct {
	mu       sync.Mutex // guards the field below
	requests map[string]*inflight
}

// add takes a request up until it is removed; the error is for the client.
func (f *inflights) add(id json.RawMessage, cancel context.CancelFunc) (*inflight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.requests[string(id)]; ok {
		return nil, errTwice
	}
	if len(f.requests) >= maxInFlight {
		return nil, errBusy
	}
	if f.requests == nil {
		f.requests = map[string]*inflight{}
	}
	r := &inflight{cancel: cancel}
	f.requests[string(id)] = r
	return r, nil
}

// remove comes before the reply is sent, because then the client may use the id
// again. It reports whether the client still wants the reply.
func (f *inflights) remove(id json.RawMessage, r *inflight) (wanted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests[string(id)] == r {
		delete(f.requests, string(id))
	}
	return !r.cancelled
}

// cancelled takes the notification that ends a request of the client, which
// then gets no reply.
func (f *inflights) cancelled(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := f.requests[string(p.RequestID)]; ok {
		r.cancelled = true
		r.cancel()
	}
}

// session is what mcp-go wants to know of a connection. It keeps no client
// info: see hooks.
type session struct {
	id   string
	conn *connection // nil: a request without one

	mu    sync.Mutex // guards the field below
	notes chan mcp.JSONRPCNotification
}

func (s *session) Initialize()       {}
func (s *session) Initialized() bool { return true }
func (s *session) SessionID() string { return s.id }

// NotificationChannel is used for the acknowledgement of subscriptions alone:
// that a list has changed is said by Server.Refresh.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.channel(true) }

func (s *session) channel(needed bool) chan mcp.JSONRPCNotification {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes == nil && needed {
		s.notes = make(chan mcp.JSONRPCNotification, maxInFlight)
	}
	return s.notes
}

// sendNotes hands over what mcp-go wants said before the reply.
func (s *session) sendNotes(send func(v any)) {
	notes := s.channel(false)
	for {
		select {
		case n := <-notes:
			send(n)
		default:
			return
		}
	}
}
