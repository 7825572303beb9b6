package mcp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

// ours is where the clients of these tests read; theirs is another's space.
const ours, theirs = "space:personal", "user:test:theirs"

// menuOf is a director with a protocol in the client's space and one elsewhere.
func menuOf() *fakeDirector {
	d := newDirector()
	d.prompts = map[string][]api.Prompt{
		ours: {{
			Name: "release-a-version", Title: "Release a version", Description: "Builds and publishes.", URI: stepURI,
			Arguments: []api.PromptArgument{
				{Name: "version", Description: "As in 1.2.0", Required: true, Kind: api.ArgumentText},
				{Name: "attempts", Kind: api.ArgumentJSON},
				{Name: "channel", Kind: api.ArgumentText, Values: []string{"stable", "beta"}},
			},
		}},
		theirs: {{Name: "fire-somebody", Title: "Fire somebody", URI: stepURI}},
	}
	return d
}

func TestEveryProtocolIsAPromptInEveryEra(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			c := connect(t, menuOf(), version)
			list, err := c.ListPrompts(t.Context(), mcp.ListPromptsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Prompts) != 2 || list.Prompts[0].Name != "contextual-prompt" {
				t.Fatalf("prompts = %+v, want the policy first and then the client's own protocol", list.Prompts)
			}
			p := list.Prompts[1]
			p.Icons = nil
			if diff := cmp.Diff(mcp.Prompt{
				Name: "release-a-version", Description: "Builds and publishes.",
				Arguments: []mcp.PromptArgument{{Name: "version", Description: "As in 1.2.0", Required: true}, {Name: "attempts"}, {Name: "channel"}},
			}, p); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
			got, err := c.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{
				Name: "release-a-version", Arguments: map[string]string{"version": `1.2.0 "rc"`, "attempts": " 3 ", "channel": ""},
			}})
			if err != nil {
				t.Fatal(err)
			}
			text, ok := got.Messages[0].Content.(mcp.TextContent)
			want := `call kairos_begin with these arguments:` + "\n\n" +
				`{"input":{"attempts":3,"version":"1.2.0 \"rc\""},"uri":"` + stepURI + `"}`
			if !ok || len(got.Messages) != 1 || got.Messages[0].Role != mcp.RoleUser || !strings.Contains(text.Text, want) {
				t.Errorf("messages = %+v, want one of the user with %s", got.Messages, want)
			}
		})
	}
}

func TestAPromptThatCannotBeStartedSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt    string
		arguments obj
		want      string
	}{
		"unknown name":     {"release", nil, `no prompt "release"`},
		"empty name":       {"", nil, "prompt '' not found"},
		"another's":        {"fire-somebody", nil, `no prompt "fire-somebody"`},
		"missing argument": {"release-a-version", obj{"channel": "beta"}, "missing: version"},
		"empty argument":   {"release-a-version", obj{"version": "  "}, "missing: version"},
		"unknown argument": {"release-a-version", obj{"version": "1", "colour": "red"}, `no argument "colour"; its arguments are: version, attempts, channel`},
		"not a number":     {"release-a-version", obj{"version": "1", "attempts": "three"}, "the argument attempts is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, config(), menuOf())
			w.initialize(`{}`)
			m := w.reply(w.request("prompts/get", obj{"name": tc.prompt, "arguments": tc.arguments}))
			if m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, tc.want) {
				t.Errorf("prompts/get = %v, want -32602 with %q", m, tc.want)
			}
		})
	}
}

func TestPromptsThatCannotBeReadAreAnErrorWithoutItsCause(t *testing.T) {
	d := menuOf()
	d.err = errors.New("disk on fire at /secret")
	w := dial(t, config(), d)
	for _, m := range []msg{
		w.reply(w.request("prompts/list", obj{})),
		w.reply(w.request("prompts/list", obj{"_meta": modernMeta(`{}`)})),
		w.reply(w.request("prompts/get", obj{"name": "release-a-version", "arguments": obj{"version": "1"}})),
	} {
		if m.Error == nil || m.Error.Code != -32603 || strings.Contains(m.Error.Message, "secret") {
			t.Errorf("reply = %v, want -32603 without the cause", m)
		}
	}
	if m := w.reply(w.request("prompts/get", obj{"name": "contextual-prompt"})); m.Error != nil {
		t.Errorf("the policy = %v, want it without the store", m)
	}
}

func TestAListIsWrittenAsPeopleWriteIt(t *testing.T) {
	d := newDirector()
	d.prompts = map[string][]api.Prompt{ours: {{
		Name: "book", Title: "Book", URI: stepURI, Arguments: []api.PromptArgument{{Name: "people", Kind: api.ArgumentList}},
	}}}
	w := dial(t, config(), d)
	for typed, want := range map[string]string{
		"Adam": `["Adam"]`, " Adam, Betty ,,": `["Adam","Betty"]`, `["Adam, the first"]`: `["Adam, the first"]`,
	} {
		m := w.reply(w.request("prompts/get", obj{"name": "book", "arguments": obj{"people": typed}}))
		text := decode[struct {
			Messages []struct{ Content struct{ Text string } }
		}](t, m.Result).Messages[0].Content.Text
		if !strings.Contains(text, `"input":{"people":`+want+`}`) {
			t.Errorf("people %q: %s, want %s", typed, text, want)
		}
	}
}

func TestArgumentsOfAPromptAreCompleted(t *testing.T) {
	w := dial(t, config(), menuOf())
	for typed, want := range map[string][]string{"": {"stable", "beta"}, "BE": {"beta"}, "gamma": {}} {
		got := w.complete(obj{"type": "ref/prompt", "name": "release-a-version"}, "channel", typed)
		if diff := cmp.Diff(completed{Values: want, Total: len(want)}, got); diff != "" {
			t.Errorf("completion of %q (-want +got):\n%s", typed, diff)
		}
	}
}

const promptsChanged = "notifications/prompts/list_changed"

func TestClientsThatListedPromptsAreNotifiedOnceOfChangesInTheirSpaces(t *testing.T) {
	s, in, out := newServed(t, config(), menuOf())
	w := speak(t, in, out)
	w.initialize(`{}`)
	s.ProtocolsChanged([]string{ours})
	w.notNotified(promptsChanged) // nothing was listed
	w.reply(w.request("prompts/list", obj{}))
	s.ProtocolsChanged([]string{theirs})
	w.notNotified(promptsChanged) // the client does not read that space
	s.ProtocolsChanged([]string{theirs, ours})
	s.ProtocolsChanged([]string{ours})
	w.notifiedOnce(promptsChanged)
	w.reply(w.request("prompts/list", obj{}))
	s.ProtocolsChanged([]string{ours})
	w.notifiedOnce(promptsChanged)
}

// A client that stopped reading must not keep the server from being told of changes,
// or from ending.
func TestAClientThatDoesNotReadHoldsUpNobody(t *testing.T) {
	cfg := config()
	cfg.DrainTimeout = time.Millisecond
	s, say, hear, served := piped(context.Background(), t, cfg, menuOf())
	replies := bufio.NewReader(hear)
	for _, request := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"prompts/list","params":{}}`,
	} {
		if _, err := io.WriteString(say, request+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := replies.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	s.ProtocolsChanged([]string{ours}) // must return though nobody reads
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-served:
		if err == nil || !strings.Contains(err.Error(), "the client reads nothing") {
			t.Errorf("ServeStdio = %v, want that the client reads nothing", err)
		}
	case <-time.After(patience):
		t.Error("ServeStdio did not end")
	}
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
	hear.Close()
}

func TestPromptChangesReachHTTPStreams(t *testing.T) {
	s := newSite(t, config(), menuOf())
	v := s.visit(`{}`)
	v.post(rpc(7, "prompts/list", obj{}), nil).reply("7")
	s.server.ProtocolsChanged([]string{ours}) // nobody listens yet
	get := v.do(http.MethodGet, nil, nil)
	s.server.ProtocolsChanged([]string{ours})
	get.until("notice", func(m msg) bool { return m.Method == promptsChanged })
}
