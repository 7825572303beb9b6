package mcp

import (
	"encoding/json"
	"testing"
)

// A client that shows one form at a time refuses the second copy of a question with an
// error while the person still writes into the first.
func TestAnErrorForOneCopyDoesNotTakeTheFormFromThePersonAtTheOther(t *testing.T) {
	var r openRequests
	q := pose(clientRequest{Method: "elicitation/create"})
	for id := range int64(2) {
		if err := r.send(q, id+1, func(any) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	r.take(rpcMessage{ID: json.RawMessage(`2`), Error: json.RawMessage(`{"code":-32603,"message":"another form is open"}`)})
	if !r.take(rpcMessage{ID: json.RawMessage(`1`), Result: json.RawMessage(`{"action":"accept"}`)}) {
		t.Error("the person's answer to the first copy is refused, because the client refused the second one")
	}
	if got := <-q.answer; got.err != nil {
		t.Errorf("the question is answered by %+v, want the person's answer", got.err)
	}
}
