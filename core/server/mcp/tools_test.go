package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/fault"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

var update = flag.Bool("update", false, "write the golden files")

func TestWhatAgentsSeeOfTheTools(t *testing.T) {
	w := dial(t, config(), newDirector())
	w.initialize(`{}`)
	m := w.reply(w.request("tools/list", obj{}))
	var got bytes.Buffer
	if err := json.Indent(&got, m.Result, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	again := w.reply(w.request("tools/list", obj{}))
	if !bytes.Equal(m.Result, again.Result) {
		t.Error("tools/list differs from call to call")
	}
	golden := filepath.Join("testdata", "tools.json")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("tools/list (-golden +got), write it with -update:\n%s", diff)
	}
}

type toolInfo struct {
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func (w *wire) tools() map[string]toolInfo {
	w.t.Helper()
	list := decode[struct {
		Tools []toolInfo `json:"tools"`
	}](w.t, w.reply(w.request("tools/list", obj{})).Result)
	byName := map[string]toolInfo{}
	for _, tool := range list.Tools {
		byName[tool.Name] = tool
	}
	return byName
}

// goodArgs are arguments that each tool takes.
var goodArgs = map[string]obj{
	"kairos_search": {"query": "release"},
	"kairos_begin":  {"uri": stepURI, "input": obj{"who": "me"}},
	"kairos_next":   {"uri": stepURI, "run_id": "run-1", "solution": obj{"type": "shell", "nonce": "n", "shell": obj{"exit_code": 0}}},
	"kairos_attest": {"uri": stepURI, "outcome": "success", "message": "done"},
	"kairos_mint":   {"markdown_doc": "# A\n\n## B\n", "llm_model_id": "m"},
	"kairos_update": {"uris": []string{stepURI}, "markdown_doc": []string{"## B"}},
	"kairos_delete": {"uris": []string{stepURI}},
	"kairos_dump":   {"uri": stepURI},
	"kairos_spaces": {"include_chain_titles": true},
}

func TestEveryResultFitsTheOutputSchemaAndItsText(t *testing.T) {
	for name, err := range map[string]error{
		"success":  nil,
		"fault":    fault.New(fault.NotFound, "no such thing").WithNext("call kairos_search").With("items", []obj{{"label": "l", "uri": stepURI}}),
		"internal": errors.New("disk on fire at /secret"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirector()
			w := dial(t, config(), d)
			w.initialize(`{}`)
			w.step(w.call("kairos_begin", beginArgs))
			d.err = err
			for tool := range w.tools() {
				r := w.result(w.call(tool, goodArgs[tool]))
				if r.IsError != (err != nil) {
					t.Errorf("%s: isError = %v with error %v: %s", tool, r.IsError, err, r.Structured)
				}
				if len(r.Content) != 1 || r.Content[0].Type != "text" {
					t.Fatalf("%s: content = %+v, want one text", tool, r.Content)
				}
				text := r.Content[0].Text
				if diff := cmp.Diff(decode[any](t, json.RawMessage(text)), decode[any](t, r.Structured)); diff != "" {
					t.Errorf("%s: text and structured content differ:\n%s", tool, diff)
				}
				if strings.Contains(text, "secret") || strings.Contains(text, `\u0026`) {
					t.Errorf("%s: text is %s", tool, text)
				}
			}
		})
	}
}

func TestErrorsCarryCodeAndDetails(t *testing.T) {
	for name, tc := range map[string]struct {
		tool string
		err  error
		want obj
	}{
		"mint": {"kairos_mint",
			fault.New(fault.DuplicateChain, "exists").WithNext("call kairos_dump").With("chain_id", "c").With("items", []any{}),
			obj{
				"error": "DUPLICATE_CHAIN", "error_code": "DUPLICATE_CHAIN", "message": "exists", "chain_id": "c", "items": []any{},
				"must_obey": false, "next_action": "call kairos_dump", "tried": "kairos_mint",
			}},
		"mint with must_obey": {"kairos_mint",
			fault.New(fault.SimilarMemoryFound, "similar").WithNext("call kairos_dump").With("must_obey", true),
			obj{
				"error": "SIMILAR_MEMORY_FOUND", "error_code": "SIMILAR_MEMORY_FOUND", "message": "similar", "must_obey": true,
				"next_action": "call kairos_dump", "tried": "kairos_mint",
			}},
		"others": {"kairos_begin",
			fault.New(fault.NotFound, "no protocol").WithNext("call kairos_begin").WithCall("kairos_begin", obj{"uri": "u"}),
			obj{
				"error_code": "NOT_FOUND", "message": "no protocol", "must_obey": false, "next_action": "call kairos_begin",
				"next_call": obj{"tool": "kairos_begin", "arguments": obj{"uri": "u"}}, "tried": "kairos_begin with " + stepURI,
			}},
		"several uris": {"kairos_delete",
			fault.New(fault.Forbidden, "not yours"),
			obj{
				"error_code": "FORBIDDEN", "message": "not yours", "must_obey": false, "tried": "kairos_delete with " + stepURI,
				"next_action": "call kairos_spaces to see which spaces are yours, and leave out space or name one of them",
			}},
		"cause stays inside": {"kairos_dump",
			fault.Wrap(errors.New("disk"), fault.StoreUnavailable, "cannot read"),
			obj{
				"error_code": "STORE_UNAVAILABLE", "message": "cannot read", "must_obey": false, "tried": "kairos_dump with " + stepURI,
				"next_action": "call the tool again in a while: nothing was stored",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirector()
			d.err = tc.err
			w := dial(t, config(), d)
			r := w.result(w.call(tc.tool, goodArgs[tc.tool]))
			if diff := cmp.Diff(tc.want, decode[obj](t, r.Structured)); diff != "" || !r.IsError {
				t.Errorf("isError %v, error (-want +got):\n%s", r.IsError, diff)
			}
		})
	}
}

func TestInvalidInputIsAResultThatNamesTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		tool  string
		args  string
		field string
	}{
		"mint without document":  {"kairos_mint", `{"llm_model_id":"m"}`, "markdown_doc"},
		"mint without model":     {"kairos_mint", `{"markdown_doc":"# A"}`, "llm_model_id"},
		"mint with empty model":  {"kairos_mint", `{"markdown_doc":"# A","llm_model_id":""}`, "llm_model_id"},
		"mint with null":         {"kairos_mint", `{"markdown_doc":null,"llm_model_id":"m"}`, "markdown_doc"},
		"search without query":   {"kairos_search", `{}`, "query"},
		"search, no arguments":   {"kairos_search", ``, "query"},
		"begin, foreign uri":     {"kairos_begin", `{"uri":"https://example.org"}`, "uri"},
		"begin, input no object": {"kairos_begin", `{"uri":"` + stepURI + `","input":[1]}`, "input"},
		"next without uri":       {"kairos_next", `{"solution":{"type":"shell"}}`, "uri"},
		"next, type no text":     {"kairos_next", `{"uri":"` + stepURI + `","solution":{"type":7}}`, "solution.type"},
		"next, exit code text":   {"kairos_next", `{"uri":"` + stepURI + `","solution":{"type":"shell","shell":{"exit_code":"zero"}}}`, "solution.shell.exit_code"},
		"next, solution text":    {"kairos_next", `{"uri":"` + stepURI + `","solution":"done"}`, "solution"},
		"attest, other outcome":  {"kairos_attest", `{"uri":"` + stepURI + `","outcome":"maybe","message":"m"}`, "outcome"},
		"attest without message": {"kairos_attest", `{"uri":"` + stepURI + `","outcome":"success"}`, "message"},
		"update, no uris":        {"kairos_update", `{"uris":[]}`, "uris"},
		"delete, bad uri":        {"kairos_delete", `{"uris":["x"]}`, "uris.0"},
		"dump, no uri":           {"kairos_dump", `{"uri":""}`, "uri"},
		"spaces, text":           {"kairos_spaces", `{"include_chain_titles":"yes"}`, "include_chain_titles"},
		"arguments no object":    {"kairos_spaces", `[]`, "arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, config(), newDirector())
			params := obj{"name": tc.tool}
			if tc.args != "" {
				params["arguments"] = json.RawMessage(tc.args)
			}
			r := w.result(w.request("tools/call", params))
			if !r.IsError || len(r.Content) == 0 {
				t.Fatalf("result = %+v, want an error", r)
			}
			text := r.Content[0].Text
			if !strings.Contains(text, "Input validation error: "+tc.field+":") {
				t.Errorf("text = %s, want it to name %s", text, tc.field)
			}
			got := decode[struct {
				Code  string `json:"error_code"`
				Tried string `json:"tried"`
				Next  string `json:"next_action"`
			}](t, r.Structured)
			if got.Code != "INVALID_ARGUMENT" || !strings.HasPrefix(got.Tried, tc.tool) || got.Next == "" {
				t.Errorf("error = %+v, want code, what was tried and what to do next", got)
			}
		})
	}
}

func TestMissingOrPlaceholderSolutionReachesTheEngine(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"none":              {`{"uri":"` + stepURI + `","run_id":"run-1"}`, ``},
		"null":              {`{"uri":"` + stepURI + `","run_id":"run-1","solution":null}`, ``},
		"empty":             {`{"uri":"` + stepURI + `","run_id":"run-1","solution":{}}`, `{}`},
		"placeholder":       {`{"uri":"` + stepURI + `","solution":{"type":"user_input","nonce":"n"}}`, `{"type":"user_input","nonce":"n"}`},
		"empty sub-object":  {`{"uri":"` + stepURI + `","solution":{"type":"shell","shell":{}}}`, `{"type":"shell","shell":{}}`},
		"unknown additions": {`{"uri":"` + stepURI + `","solution":{"type":"shell","x":12345678901234567890}}`, `{"type":"shell","x":12345678901234567890}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirector()
			w := dial(t, config(), d)
			w.step(w.call("kairos_begin", beginArgs))
			m := w.reply(w.call("kairos_next", json.RawMessage(tc.args)))
			if len(d.nexts) != 1 {
				t.Fatalf("the engine was not called: %v", m)
			}
			if got := string(d.nexts[0].Solution); got != tc.want {
				t.Errorf("solution = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestServerInfoResourcesAndPrompts(t *testing.T) {
	w := dial(t, config(), newDirector())
	init := decode[struct {
		ServerInfo   obj            `json:"serverInfo"`
		Capabilities map[string]any `json:"capabilities"`
		Instructions string         `json:"instructions"`
	}](t, w.reply(w.request("initialize", obj{
		"protocolVersion": "2025-06-18", "capabilities": obj{}, "clientInfo": obj{"name": "c", "version": "1"},
	})).Result)
	icons, _ := init.ServerInfo["icons"].([]any)
	if len(icons) != 1 {
		t.Errorf("icons of the server = %v, want one", icons)
	}
	delete(init.ServerInfo, "icons")
	if diff := cmp.Diff(obj{"name": "KAIROS", "version": "v1.2.3"}, init.ServerInfo); diff != "" {
		t.Errorf("serverInfo (-want +got):\n%s", diff)
	}
	if len(init.Capabilities) != 5 || !strings.Contains(init.Instructions, "kairos_search") || len(init.Instructions) > 700 {
		t.Errorf("capabilities = %v, instructions = %q; want tools, resources, prompts, completions, logging and a few sentences",
			init.Capabilities, init.Instructions)
	}
	resources := string(w.reply(w.request("resources/list", obj{})).Result)
	for _, want := range []string{"kairos://doc/building-kairos-workflows", "Building-Kairos-Workflows", "text/markdown"} {
		if !strings.Contains(resources, want) {
			t.Errorf("resources/list = %s, want %s", resources, want)
		}
	}
	if got := string(w.reply(w.request("resources/templates/list", obj{})).Result); !strings.Contains(got, `"resourceTemplates":[]`) {
		t.Errorf("templates = %s, want none", got)
	}
	guide := string(w.reply(w.request("resources/read", obj{"uri": "kairos://doc/building-kairos-workflows"})).Result)
	if !strings.Contains(guide, "# Building KAIROS workflows") {
		t.Errorf("guide = %.200s", guide)
	}
	if m := w.reply(w.request("resources/read", obj{"uri": stepURI})); m.Error == nil || !strings.Contains(string(m.Error.Data), stepURI) {
		t.Errorf("reading a step as a resource = %+v, want an error whose data names it", m)
	}
	if got := string(w.reply(w.request("prompts/list", obj{})).Result); !strings.Contains(got, `"contextual-prompt"`) {
		t.Errorf("prompts/list = %s", got)
	}
	if got := string(w.reply(w.request("prompts/get", obj{"name": "contextual-prompt"})).Result); !strings.Contains(got, "must_obey") {
		t.Errorf("prompt = %s", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(*mcpserver.Config){
		"no version":   func(c *mcpserver.Config) { c.Version = "" },
		"no types":     func(c *mcpserver.Config) { c.ChallengeTypes = func() []string { return nil } },
		"no principal": func(c *mcpserver.Config) { c.Principal = "" },
		"no space":     func(c *mcpserver.Config) { c.Space = "" },
		"negative":     func(c *mcpserver.Config) { c.StateTTL = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			spoil(&cfg)
			if _, err := mcpserver.New(cfg, newDirector(), testLog(t)); err == nil {
				t.Error("New took it")
			}
		})
	}
}

func TestTheFourTypesHaveFieldsOfTheirOwn(t *testing.T) {
	if diff := cmp.Diff([]string{"comment", "mcp", "shell", "user_input"}, toolset.SolutionFields()); diff != "" {
		t.Errorf("SolutionFields (-want +got):\n%s", diff)
	}
}

func TestFindingsAboutArgumentsHaveAnOrder(t *testing.T) {
	w := dial(t, config(), newDirector())
	w.initialize(`{}`)
	wrong := obj{"uri": 1, "outcome": 2, "message": 3, "quality_bonus": "4", "run_id": 5, "llm_model_id": 6}
	said := map[string]bool{}
	for range 30 {
		said[w.result(w.call("kairos_attest", wrong)).Content[0].Text] = true
	}
	if len(said) != 1 {
		t.Errorf("one mistake is told in %d ways", len(said))
	}
}
