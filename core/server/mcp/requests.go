package mcp

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

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
	after  *time.Duration // from when the copy was sent that it answers
}

// posed is a question to one client. It may be sent more than once, each copy under an
// id of its own; the first answer to any of them counts.
type posed struct {
	clientRequest
	answer chan clientReply // has room for the only one

	via carrier // of the newest copy; nil: none was sent; guarded by httpSession.streams

	// guarded by openRequests.mu
	copies []int64             // the ids that may be answered, oldest first
	sent   map[int64]time.Time // when each copy was sent
	over   bool                // no answer is taken any more
}

func pose(r clientRequest) *posed { return &posed{clientRequest: r, answer: make(chan clientReply, 1)} }

const (
	// maxCopies limits how many forms of one question a person sees.
	maxCopies = 2
	// maxAnswered is how many ids of answered questions are kept. A proxy may lose our
	// response to an answer, and the client repeats it.
	maxAnswered = 16
)

// openRequests are the requests to one client that it has not answered yet. The zero
// value is ready.
type openRequests struct {
	mu       sync.Mutex // guards the fields below
	pending  map[int64]*posed
	answered []int64 // newest last
}

// send sends a copy of the question with write, and withdraws the oldest one if there
// are too many. A question that is over is not sent, which is not an error.
func (r *openRequests) send(q *posed, id int64, write func(v any) error) error {
	if !r.add(q, id) {
		return nil
	}
	if err := write(ourRequest{mcp.JSONRPC_VERSION, id, q.clientRequest}); err != nil {
		r.remove(q, id)
		return err
	}
	r.sentNow(q, id)
	if unwanted, ok := r.unwanted(q, id); ok {
		_ = write(withdrawal(unwanted)) // an answer to it is refused in any case
	}
	return nil
}

func (r *openRequests) add(q *posed, id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.over {
		return false
	}
	if r.pending == nil {
		r.pending = map[int64]*posed{}
	}
	r.pending[id] = q
	q.copies = append(q.copies, id)
	q.sentLocked(id)
	return true
}

// sentNow notes that the copy is sent: writing it may have waited for a client that does not read.
func (r *openRequests) sentNow(q *posed, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.sentLocked(id)
}

func (q *posed) sentLocked(id int64) {
	if q.sent == nil {
		q.sent = map[int64]time.Time{}
	}
	q.sent[id] = time.Now()
}

func (r *openRequests) remove(q *posed, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(q, id)
}

func (r *openRequests) removeLocked(q *posed, id int64) {
	delete(r.pending, id)
	q.copies = slices.DeleteFunc(q.copies, func(other int64) bool { return other == id })
}

// unwanted returns the copy to withdraw now that the one with the id is sent: itself, if
// another one was answered meanwhile, or else the oldest if there are too many.
func (r *openRequests) unwanted(q *posed, sent int64) (id int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case q.over:
		return sent, !slices.Contains(r.answered, sent)
	case len(q.copies) <= maxCopies:
		return 0, false
	}
	id = q.copies[0]
	r.removeLocked(q, id)
	return id, true
}

// close ends the question. It returns the ids of the copies that were not answered, once.
func (r *openRequests) close(q *posed) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := q.copies
	q.over, q.copies = true, nil
	for _, id := range open {
		delete(r.pending, id)
	}
	return open
}

// take takes the client's reply and reports whether it counts, now or since before. One
// that answers no open question changes nothing. An error for one copy takes back that
// copy: the person may write into the other one.
func (r *openRequests) take(m rpcMessage) bool {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q, ok := r.pending[id]
	if !ok || q.over {
		return slices.Contains(r.answered, id)
	}
	r.removeLocked(q, id)
	r.answered = append(r.answered, id)
	r.answered = r.answered[max(0, len(r.answered)-maxAnswered):]
	if m.isError() && len(q.copies) > 0 {
		return true
	}
	q.over = true
	after := time.Since(q.sent[id])
	if m.isError() {
		q.answer <- clientReply{err: clientError(m.Error), after: &after}
	} else {
		q.answer <- clientReply{result: m.Result, after: &after}
	}
	return true
}
