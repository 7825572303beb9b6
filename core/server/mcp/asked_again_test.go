package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// cancelled is a client's notification that it gives up a call.
func cancelled(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

// takenBack checks that a message withdraws the request with the id.
func takenBack(t *testing.T, m msg, want json.RawMessage) {
	t.Helper()
	got := decode[struct {
		ID json.RawMessage `json:"requestId"`
	}](t, m.Params).ID
	if string(got) != string(want) {
		t.Errorf("withdrawn = %s, want %s", got, want)
	}
}

func isWithdrawal(m msg) bool { return m.Method == "notifications/cancelled" }

// picked returns the copy of a question that is answered, and the other one.
func picked(first, second msg, takesFirst bool) (answered, other msg) {
	if takesFirst {
		return first, second
	}
	return second, first
}

// The answer to the first copy may have been lost, or a person may still be writing it:
// whichever copy is answered first counts, and the other one is withdrawn.
func TestAQuestionOfACancelledCallIsAskedAgainByTheNext(t *testing.T) {
	for name, takesFirst := range map[string]bool{"the first is answered": true, "the second is answered": false} {
		t.Run(name+", over HTTP", func(t *testing.T) {
			d := newDirector(elicit("sure?"))
			v := newSite(t, config(), d).visit(everything)
			id, r := v.call("kairos_begin", beginArgs)
			first := r.question("elicitation/create")
			v.sends(cancelled(id), http.StatusAccepted)
			r.over()
			id, r = v.call("kairos_next", beginArgs)
			second := r.question("elicitation/create")
			answered, other := picked(first, second, takesFirst)
			v.answer(answered.ID, accepted)
			takenBack(t, r.until("withdrawal", isWithdrawal), other.ID)
			v.answerInVain(other.ID, `{"action":"decline"}`)
			if got := r.step(id); len(got.Solved) != 1 || string(got.Solved[0].Output) != accepted {
				t.Errorf("solved = %+v, want the answer", got.Solved)
			}
			if string(first.ID) == string(second.ID) || string(first.Params) != string(second.Params) || len(d.continued) != 1 {
				t.Errorf("asked %v and %v, %d answers taken; want the same under two ids, and one", first, second, len(d.continued))
			}
		})
		t.Run(name+", over stdio", func(t *testing.T) {
			d := newDirector(elicit("sure?"))
			w := dial(t, config(), d)
			w.initialize(everything)
			id := w.call("kairos_begin", beginArgs)
			first := w.question("elicitation/create")
			w.raw(cancelled(id))
			id = w.call("kairos_next", beginArgs)
			second := w.question("elicitation/create")
			answered, other := picked(first, second, takesFirst)
			w.answer(answered.ID, accepted)
			takenBack(t, w.until("withdrawal", isWithdrawal), other.ID)
			w.answer(other.ID, `{"action":"decline"}`)
			if got := w.step(id); len(got.Solved) != 1 || string(got.Solved[0].Output) != accepted || len(d.continued) != 1 {
				t.Errorf("solved = %+v after %d answers, want the first one", got.Solved, len(d.continued))
			}
		})
	}
}

// A call whose answer was lost waits in vain, and so do those that join it while it is
// open. After it, an answer is overdue at some time.
func TestAQuestionIsAskedAgainWhenItsAnswerIsOverdue(t *testing.T) {
	cfg := config()
	cfg.PlainWait, cfg.AskAgain = 50*time.Millisecond, 200*time.Millisecond
	d := newDirector(elicit("sure?"))
	v := newSite(t, cfg, d).visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	lost := r.question("elicitation/create")
	if got := r.step(id); got.ErrorCode != "WAITING_FOR_USER" {
		t.Fatalf("reply = %+v, want WAITING_FOR_USER", got)
	}
	ended := time.Now()
	for {
		id, r := v.call("kairos_next", beginArgs)
		m := <-r.msgs
		if m.Method != "elicitation/create" {
			if time.Since(ended) > patience {
				t.Fatal("the question did not come again")
			}
			continue
		}
		if waited := time.Since(ended); waited < cfg.AskAgain/2 {
			t.Errorf("the question came again after %v, want about %v", waited, cfg.AskAgain)
		}
		if string(m.ID) == string(lost.ID) {
			t.Errorf("it came again under the id %s, which may have been answered", m.ID)
		}
		v.answer(m.ID, accepted)
		if got := <-d.continued; string(got.Result) != accepted {
			t.Errorf("answer = %s, want %s", got.Result, accepted)
		}
		r.step(id)
		return
	}
}

func TestAQuestionIsNotAskedAgainWhileItsCallIsOpen(t *testing.T) {
	cfg := config()
	cfg.PlainWait, cfg.AskAgain = 20*time.Millisecond, time.Millisecond
	d := newDirector(elicit("sure?"))
	v := newSite(t, cfg, d).visit(everything)
	r := v.post(rpc("patient", "tools/call", obj{
		"name": "kairos_begin", "arguments": beginArgs, "_meta": obj{"progressToken": "p"},
	}), nil)
	asked := r.question("elicitation/create")
	for range 5 {
		id, also := v.call("kairos_next", beginArgs)
		if got := also.step(id); got.ErrorCode != "WAITING_FOR_USER" || len(also.kept) != 0 {
			t.Errorf("reply = %+v after %v, want WAITING_FOR_USER and no question", got, also.kept)
		}
	}
	v.answer(asked.ID, accepted)
	r.step(`"patient"`)
}

func TestAPersonSeesAtMostTwoFormsOfAQuestion(t *testing.T) {
	d := newDirector(elicit("sure?"))
	v := newSite(t, config(), d).visit(everything)
	id, r := v.call("kairos_begin", beginArgs)
	all := []json.RawMessage{r.question("elicitation/create").ID}
	for range 3 {
		v.sends(cancelled(id), http.StatusAccepted)
		r.over()
		id, r = v.call("kairos_next", beginArgs)
		all = append(all, r.question("elicitation/create").ID)
		if len(all) < 3 {
			continue
		}
		gone := all[len(all)-3]
		takenBack(t, r.until("withdrawal", isWithdrawal), gone)
		// Some clients confirm it.
		v.sends(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":0,"message":"Request cancelled"}}`, gone), http.StatusAccepted)
		v.answerInVain(gone, accepted)
	}
	v.answer(all[len(all)-2], accepted)
	if got := r.step(id); len(got.Solved) != 1 || len(d.continued) != 1 {
		t.Errorf("solved = %+v after %d answers, want one", got.Solved, len(d.continued))
	}
}
