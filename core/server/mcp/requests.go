package mcp

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ourRequest is a request to the client.
type ourRequest struct {
	JSONRPC string `json:"jsonrpc"`
	ID      int64  `json:"id"`
	clientRequest
}

// ourNotice is a notification to the client.
type ourNotice struct {
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

func notice(method string, params any) ourNotice {
	return ourNotice{JSONRPC: mcp.JSONRPC_VERSION, Method: method, Params: params}
}

// withdrawal cancels a request of ours, so that the client can close its form.
func withdrawal(id int64) ourNotice {
	return notice(string(mcp.MethodNotificationCancelled),
		map[string]any{"requestId": id, "reason": "the question is no longer open"})
}

// clientReply is the client's reply to a request of ours.
type clientReply struct {
	result json.RawMessage
	err    *driver.ClientError
}

// maxAnswered is how many ids of answered questions are kept. A proxy may lose our
// response to an answer, and the client repeats it.
const maxAnswered = 16

// openRequests are the requests to one client that it has not answered yet. The zero
// value is ready.
type openRequests struct {
	mu       sync.Mutex // guards the fields below
	pending  map[int64]chan clientReply
	answered []int64 // newest last
}

// open waits for the answer to a request, until close.
func (r *openRequests) open(id int64) <-chan clientReply {
	answer := make(chan clientReply, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = map[int64]chan clientReply{}
	}
	r.pending[id] = answer
	return answer
}

func (r *openRequests) close(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, id)
}

// take takes the client's reply and reports whether it counts, now or since before. One
// that answers no open question changes nothing.
func (r *openRequests) take(m rpcMessage) bool {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting, ok := r.pending[id]
	if !ok {
		return slices.Contains(r.answered, id)
	}
	delete(r.pending, id)
	r.answered = append(r.answered, id)
	r.answered = r.answered[max(0, len(r.answered)-maxAnswered):]
	if m.isError() {
		waiting <- clientReply{err: clientError(m.Error)}
	} else {
		waiting <- clientReply{result: m.Result}
	}
	return true
}
