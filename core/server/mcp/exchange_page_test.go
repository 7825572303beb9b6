package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/director"
)

// opensPage is a client that can open addresses and has no forms.
const opensPage = `{"elicitation":{"url":{}}}`

func visit() director.Ask {
	return director.Ask{
		Method: "elicitation/create", Human: true, Linked: true,
		Params: json.RawMessage(`{"mode":"url","message":"m","url":"http://127.0.0.1/approve/1/2","elicitationId":"e-1"}`),
	}
}

func TestACallWaitsForTheAnswerOnThePage(t *testing.T) {
	t.Run("legacy", func(t *testing.T) {
		d := newDirector(visit())
		d.answeredOnPage = make(chan struct{})
		w := dial(t, config(), d)
		w.initialize(opensPage)
		id := w.request("tools/call", obj{"name": "kairos_begin", "arguments": beginArgs, "_meta": obj{"progressToken": 7}})
		w.answer(w.question("elicitation/create").ID, `{"action":"accept"}`)
		<-d.continued // progress of the time before is read, too
		w.until("progress while it waits", func(m msg) bool { return m.Method == "notifications/progress" })
		close(d.answeredOnPage)
		done := w.until("complete", func(m msg) bool { return m.Method == "notifications/elicitation/complete" })
		if !strings.Contains(string(done.Params), `"e-1"`) {
			t.Errorf("complete = %s, want the elicitation's id", done.Params)
		}
		if got := w.step(id); got.ErrorCode != "" || !strings.Contains(got.Message, "on the page") {
			t.Errorf("reply = %+v, want the one after the answer", got)
		}
	})
	t.Run("modern", func(t *testing.T) {
		d := newDirector(visit())
		d.answeredOnPage = make(chan struct{})
		w := dial(t, config(), d)
		open := w.result(w.modern(opensPage, "kairos_begin", beginArgs, nil))
		id := w.modern(opensPage, "kairos_begin", beginArgs, answers(open, `{"action":"accept"}`))
		<-d.continued
		close(d.answeredOnPage)
		if got := w.step(id); got.ErrorCode != "" || !strings.Contains(got.Message, "on the page") {
			t.Errorf("reply = %+v, want the one after the answer", got)
		}
	})
}

// A person may never answer, and the client that would be told has gone: the server ends with
// its input, not when the call may wait no longer.
func TestAServerEndsWithItsInputWhileAPersonIsAsked(t *testing.T) {
	cfg := config()
	cfg.DrainTimeout, cfg.ProgressWait, cfg.PlainWait = 24*time.Hour, 24*time.Hour, 24*time.Hour
	for name, d := range map[string]*fakeDirector{"page": newDirector(), "form": newDirector(elicit("sure?")), "page opened by the client": newDirector(visit())} {
		t.Run(name, func(t *testing.T) {
			d.answeredOnPage = make(chan struct{})
			in, out := serve(t, cfg, d)
			w := speak(t, in, out)
			w.initialize(everything)
			w.request("tools/call", obj{"name": "kairos_begin", "arguments": beginArgs, "_meta": obj{"progressToken": 7}})
			w.until("progress while it waits", func(m msg) bool { return m.Method == "notifications/progress" })
			in.Close()
			tooLong := time.After(time.Minute)
			for open := true; open; {
				select {
				case _, open = <-w.msgs:
				case <-tooLong:
					t.Fatal("the server waits for the person")
				}
			}
		})
	}
}

func TestACallThatMayWaitNoLongerGivesTheLinkAgain(t *testing.T) {
	cfg := config()
	cfg.PlainWait = 20 * time.Millisecond
	d := newDirector()
	d.answeredOnPage = make(chan struct{})
	w := dial(t, cfg, d)
	w.initialize(`{}`)
	if got := w.step(w.call("kairos_begin", beginArgs)); got.ErrorCode != "WAITING_FOR_USER" {
		t.Errorf("reply = %+v, want that a person is waited for", got)
	}
	if got := w.step(w.modern(`{}`, "kairos_begin", beginArgs, nil)); got.ErrorCode != "WAITING_FOR_USER" {
		t.Errorf("modern reply = %+v, want that a person is waited for", got)
	}
}

// A client that has not answered yet need not, once the page was answered.
func TestAnAnswerOnThePageEndsTheQuestionInTheClient(t *testing.T) {
	d := newDirector(visit())
	d.answeredOnPage = make(chan struct{})
	w := dial(t, config(), d)
	w.initialize(opensPage)
	id := w.call("kairos_begin", beginArgs)
	w.question("elicitation/create")
	close(d.answeredOnPage)
	if got := w.step(id); got.ErrorCode != "WAITING_FOR_USER" {
		t.Errorf("reply = %+v, want what the engine says of the question", got)
	}
}
