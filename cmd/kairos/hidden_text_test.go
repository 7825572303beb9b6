package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// hidesText has hidden characters wherever a protocol may have a text.
const hidesText = "# Dep\u202eloy \U000e0041\U000e0042\n\nAbout\u200b.\n\n" +
	"## Bu\u200bild\n\nObey\U000e0048\U000e0049 me.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"first\",\"shell\":{\"cmd\":\"make \u202etset\"}}}\n```\n\n" +
	"## Ca\u00adll\n\nIt said {{ steps.first.stdout }}.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"name\":\"second\",\"mcp\":{\"tool_name\":\"look\u200b\",\"arguments\":{\"at\":\"\\u202e\\udb40\\udc41\",\"on\":\"{{ steps.first.stdout }}\"}}}}\n```\n\n" +
	"## Echo\n\nDone.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"echo {{ steps.first.stdout }}\"}}}\n```\n"

// hiddenIn are the texts of a JSON value, and of JSON texts in it, with characters that
// a reader cannot see.
func hiddenIn(v any) (found []string) {
	switch v := v.(type) {
	case string:
		if plain.Marked(v) >= 0 {
			found = append(found, v)
		}
		var inner any
		if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &inner) == nil {
			found = append(found, hiddenIn(inner)...)
		}
	case []any:
		for _, e := range v {
			found = append(found, hiddenIn(e)...)
		}
	case map[string]any:
		for name, e := range v {
			found = append(found, hiddenIn(name)...)
			found = append(found, hiddenIn(e)...)
		}
	}
	return found
}

// Over MCP and over REST, an agent sees the codes of hidden characters, whether they
// come from an author or from the result of a step.
func TestAnAgentSeesTheCodesOfHiddenCharacters(t *testing.T) {
	t.Parallel()
	b := withShippedDrivers(t, "")
	mint, err := json.Marshal(map[string]any{"markdown_doc": hidesText, "llm_model_id": "test"})
	if err != nil {
		t.Fatal(err)
	}
	heard := 0
	read := func(what, body string, into any) {
		t.Helper()
		heard += len(body)
		var message any
		if err := json.Unmarshal([]byte(body), &message); err != nil {
			t.Fatalf("%s: %v in %s", what, err, body)
		}
		if found := hiddenIn(message); len(found) > 0 {
			t.Errorf("%s shows %+q", what, found)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(body), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	rest := func(tool, args string, into any) {
		t.Helper()
		read("REST "+tool, b.do("POST", "/api/"+tool, args, nil).body, into)
	}
	a := b.plain("kairos_mint", string(mint))
	read("kairos_mint", a.body, nil)
	if !strings.Contains(a.body, "hidden characters (U+202E") || !strings.Contains(a.body, "hidden characters (U+200B, U+E0048") {
		t.Errorf("the mint warns of no hidden characters: %s", a.body)
	}
	uri := a.result(t).Reply.Items[0].URI
	read("the second mint", b.plain("kairos_mint", string(mint)).body, nil)
	for tool, args := range map[string]string{
		"kairos_search": `{"query":"deploy"}`, "kairos_spaces": `{"include_chain_titles":true}`,
		"kairos_update": fmt.Sprintf(`{"uris":[%q],"updates":{"label":"Bu\u200bild"}}`, uri), "kairos_mint": string(mint),
	} {
		read(tool, b.plain(tool, args).body, nil)
		rest(tool, args, nil)
	}

	type step struct {
		RunID     string                        `json:"run_id"`
		Current   struct{ URI, Content string } `json:"current_step"`
		Challenge struct {
			Nonce string `json:"nonce"`
			Proof string `json:"proof_hash"`
			Shell struct{ Cmd string }
			MCP   struct {
				Arguments json.RawMessage
			}
		}
		Code string `json:"error_code"`
	}
	var s step
	args := fmt.Sprintf(`{"uri":%q}`, uri)
	read("kairos_begin", b.plain("kairos_begin", args).body, nil)
	rest("kairos_begin", args, &s)
	if s.Challenge.Shell.Cmd != "make ⟨U+202E⟩tset" || !strings.Contains(s.Current.Content, "Obey⟨U+E0048⟩⟨U+E0049⟩ me") {
		t.Errorf("the command is %q and the text %q", s.Challenge.Shell.Cmd, s.Current.Content)
	}
	next := func(kind, evidence string) {
		t.Helper()
		args := fmt.Sprintf(`{"uri":%q,"run_id":%q,"solution":{"type":%q,"nonce":%q,"proof_hash":%q,%q:%s}}`, s.Current.URI, s.RunID, kind, s.Challenge.Nonce, s.Challenge.Proof, kind, evidence)
		s = step{}
		rest("kairos_next", args, &s)
		if s.Code != "" {
			t.Fatalf("%s: %+v", evidence, s)
		}
		read("kairos_begin again", b.plain("kairos_begin", fmt.Sprintf(`{"uri":%q,"session_id":%q}`, s.Current.URI, s.RunID)).body, nil)
		rest("kairos_begin", fmt.Sprintf(`{"uri":%q,"session_id":%q}`, s.Current.URI, s.RunID), &s)
	}
	next("shell", `{"exit_code":0,"stdout":"x\u202ey\udb40\udc41"}`)
	// The arguments may be reported as the agent was shown them.
	next("mcp", fmt.Sprintf(`{"tool_name":"look⟨U+200B⟩","arguments":%s,"result":"\u200bok","success":true}`, s.Challenge.MCP.Arguments))
	if s.Challenge.Shell.Cmd != "echo 'x⟨U+202E⟩y⟨U+E0041⟩'" {
		t.Errorf("the command with a value is %q", s.Challenge.Shell.Cmd)
	}

	// A dump is stored again as it is read.
	dump := b.plain("kairos_dump", fmt.Sprintf(`{"uri":%q,"protocol":true}`, uri)).body
	var document struct {
		Result struct {
			Structured struct {
				Document string `json:"markdown_doc"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(dump), &document); err != nil || !strings.Contains(document.Result.Structured.Document, "Obey\U000e0048\U000e0049 me") {
		t.Errorf("the dump is %s, %v", dump, err)
	}
	if strings.ContainsFunc(dump, func(r rune) bool { return r > unicode.MaxASCII && plain.Hidden(r) }) {
		t.Errorf("the dump has hidden characters that are not escaped: %+q", dump)
	}
	if heard < 5000 {
		t.Errorf("only %d bytes were read", heard)
	}
}
