package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

var leftOpen = &director.Unfinished{Run: "01900000-0000-7000-8000-00000000abcd", Title: "Release", URI: stepURI, Step: 2, Steps: 3}

const reminderOfIt = "An earlier session left run 01900000-0000-7000-8000-00000000abcd of \"Release\" open, at step 2 of 3. " +
	"If nobody else works on it, continue it with kairos_begin, uri " + stepURI + " and session_id 01900000-0000-7000-8000-00000000abcd."

// looked counts how often the open run is looked up, and fails the first times.
type looked struct {
	mcpserver.Engine

	times, failing atomic.Int32
}

func (l *looked) Unfinished(ctx context.Context, c access.Caller) (*director.Unfinished, error) {
	l.times.Add(1)
	if l.failing.Add(-1) >= 0 {
		return nil, errors.New("the database is away")
	}
	return l.Engine.Unfinished(ctx, c)
}

func leaves(asks ...director.Ask) *looked {
	d := newDirector(asks...)
	d.left = leftOpen
	return &looked{Engine: d}
}

// everyTool has arguments for each tool.
var everyTool = map[string]obj{
	"kairos_search": {"query": "release"}, "kairos_begin": beginArgs, "kairos_dump": beginArgs, "kairos_spaces": {},
	"kairos_next":   {"uri": stepURI, "solution": obj{"type": "shell"}},
	"kairos_attest": {"uri": stepURI, "outcome": "success", "message": "m"},
	"kairos_mint":   {"markdown_doc": "# T", "llm_model_id": "m"},
	"kairos_update": {"uris": []string{stepURI}, "markdown_doc": []string{"## A"}},
	"kairos_delete": {"uris": []string{stepURI}},
}

// messageOf is the message of a result, the same in both of its forms.
func messageOf(t *testing.T, result toolResult) string {
	t.Helper()
	type said struct {
		Message string `json:"message"`
	}
	if len(result.Content) != 1 {
		t.Fatalf("result has %d contents, want 1", len(result.Content))
	}
	text, structured := decode[said](t, json.RawMessage(result.Content[0].Text)), decode[said](t, result.Structured)
	if text != structured {
		t.Errorf("the text says %q, the structured content %q", text, structured)
	}
	return structured.Message
}

func TestTheFirstReplyOfASessionNamesTheOpenRun(t *testing.T) {
	sessions := map[string]func(*testing.T, mcpserver.Engine) func(tool string, args obj) toolResult{
		"2025 over stdio": func(t *testing.T, e mcpserver.Engine) func(string, obj) toolResult {
			w := dial(t, config(), e)
			w.initialize(`{}`)
			return func(tool string, args obj) toolResult { return w.result(w.call(tool, args)) }
		},
		"2026 over stdio": func(t *testing.T, e mcpserver.Engine) func(string, obj) toolResult {
			w := dial(t, config(), e)
			return func(tool string, args obj) toolResult { return w.result(w.modern(`{}`, tool, args, nil)) }
		},
		"2025 over HTTP": func(t *testing.T, e mcpserver.Engine) func(string, obj) toolResult {
			v := newSite(t, config(), e).visit(`{}`)
			return func(tool string, args obj) toolResult {
				id, r := v.call(tool, args)
				return decode[toolResult](t, r.reply(id).Result)
			}
		},
	}
	for era, session := range sessions {
		for tool, args := range everyTool {
			t.Run(era+" "+tool, func(t *testing.T) {
				e := leaves()
				call := session(t, e)
				if first := messageOf(t, call(tool, args)); !strings.HasSuffix(first, reminderOfIt) {
					t.Errorf("the first reply says %q, want at its end %q", first, reminderOfIt)
				}
				if second := messageOf(t, call(tool, args)); strings.Contains(second, string(leftOpen.Run)) {
					t.Errorf("the second reply says %q, want no run of an earlier session", second)
				}
				if n := e.times.Load(); n != 1 {
					t.Errorf("the open run was looked up %d times, want once a session", n)
				}
			})
		}
	}
}

func TestAReplyWithAnErrorNamesTheOpenRun(t *testing.T) {
	w := dial(t, config(), leaves())
	w.initialize(`{}`)
	r := w.result(w.call("kairos_begin", obj{"uri": 1}))
	if got := messageOf(t, r); !r.IsError || !strings.HasSuffix(got, ". "+reminderOfIt) {
		t.Errorf("the reply to wrong arguments says %q, want at its end %q", got, reminderOfIt)
	}
}

func TestAQuestionLeavesTheOpenRunToTheReply(t *testing.T) {
	w := dial(t, config(), leaves(elicit("sure?")))
	r := w.result(w.modern(everything, "kairos_begin", beginArgs, nil))
	if r.ResultType != "input_required" {
		t.Fatalf("result = %+v, want a question", r)
	}
	if got := w.step(w.modern(everything, "kairos_begin", beginArgs, answers(r, accepted))); got.Message != reminderOfIt {
		t.Errorf("the reply after the question says %q, want %q", got.Message, reminderOfIt)
	}
}

func TestTheOpenRunIsLookedUpAgainAfterAFailure(t *testing.T) {
	e := leaves()
	e.failing.Store(1)
	w := dial(t, config(), e)
	w.initialize(`{}`)
	for i, want := range []string{"", reminderOfIt, ""} {
		if got := w.step(w.call("kairos_begin", beginArgs)); got.Message != want {
			t.Errorf("reply %d says %q, want %q", i+1, got.Message, want)
		}
	}
}

func TestClientsThatHaveNoNewSessionAreNotReminded(t *testing.T) {
	t.Run("2026 over HTTP", func(t *testing.T) {
		e := leaves()
		v := &visitor{site: newSite(t, config(), e)}
		id, r := v.modern(`{}`, "kairos_begin", beginArgs, nil)
		if got := r.step(id); got.Message != "" || e.times.Load() != 0 {
			t.Errorf("the reply says %q after %d look-ups, want nothing and none", got.Message, e.times.Load())
		}
	})
	t.Run("a session that outlives its server", func(t *testing.T) {
		before := newSite(t, config(), newDirector()).visit(`{}`)
		e := leaves()
		v := before.restarted(config(), e)
		id, r := v.call("kairos_begin", beginArgs)
		if got := r.step(id); got.Message != "" || e.times.Load() != 0 {
			t.Errorf("the reply says %q after %d look-ups, want nothing and none", got.Message, e.times.Load())
		}
	})
}

// replying is an engine whose kairos_next has a reply of its own.
type replying struct {
	mcpserver.Engine

	reply api.StepReply
}

func (r replying) Next(context.Context, access.Caller, api.NextRequest) (director.Round, error) {
	return director.Round{Reply: &r.reply}, nil
}

func TestWhatTheReplySaysOfTheOpenRun(t *testing.T) {
	about, linked, plain := stepReply(leftOpen.Run), stepReply("r"), stepReply("r")
	about.Message = "It continues."
	plain.Message = "Step 1 <is> \"next\"."
	linked.ApprovalURL = "https://example.com/approve/x"
	linked.Message = "Nobody has answered yet. " + api.LinkSentence(linked.ApprovalURL)
	for name, tc := range map[string]struct {
		reply api.StepReply
		want  string
	}{
		"nothing in a reply about it": {about, about.Message},
		"at the end of the message":   {plain, plain.Message + " " + reminderOfIt},
		"before a link":               {linked, "Nobody has answered yet. " + reminderOfIt + " " + api.LinkSentence(linked.ApprovalURL)},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, config(), replying{leaves(), tc.reply})
			w.initialize(`{}`)
			for i, want := range []string{tc.want, tc.reply.Message} {
				got := w.result(w.call("kairos_next", everyTool["kairos_next"]))
				if message := messageOf(t, got); message != want {
					t.Errorf("reply %d says %q, want %q", i+1, message, want)
				}
			}
		})
	}
}
