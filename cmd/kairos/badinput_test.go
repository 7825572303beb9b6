package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// refusal is what an agent reads of a call that was refused.
type refusal struct {
	IsError bool `json:"isError"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
}

// refused calls a tool that must refuse, and returns what it says.
func (s *served) refused(tool string, args map[string]any) string {
	s.t.Helper()
	raw := s.request("tools/call", map[string]any{"name": tool, "arguments": args})
	var r refusal
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 {
		s.t.Fatalf("%s = %.300s, %v, want one text", tool, raw, err)
	}
	var items struct {
		Failed  int `json:"total_failed"`
		Updated int `json:"total_updated"`
		Deleted int `json:"total_deleted"`
	}
	_ = json.Unmarshal([]byte(r.Content[0].Text), &items)
	if !r.IsError && (items.Failed == 0 || items.Updated+items.Deleted > 0) {
		s.t.Errorf("%s = %.300s, want a refusal", tool, raw)
	}
	return r.Content[0].Text
}

// chains is how many protocols the caller's own space has.
func (s *served) chains() int {
	s.t.Helper()
	var reply struct {
		Spaces []struct {
			Count int `json:"chain_count"`
		} `json:"spaces"`
	}
	if err := json.Unmarshal(s.tool("kairos_spaces", nil), &reply); err != nil || len(reply.Spaces) == 0 {
		s.t.Fatalf("kairos_spaces: %+v, %v", reply, err)
	}
	return reply.Spaces[0].Count
}

// The server says what is wrong with bad input, stores nothing of it, and
// serves the next call.
func TestBadInputOverStdioIsRefusedByNameAndLeavesNothing(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServed(t)
	s.lock()
	s.start()
	uri := s.call("kairos_mint", map[string]any{"markdown_doc": oneCommand, "llm_model_id": "test"}).Items[0].URI
	const (
		nowhere = "kairos://mem/11111111-1111-4111-8111-111111111111"
		builtin = "kairos://mem/00000000-0000-0000-0000-000000002001"
		block   = "# Bad\n\n## A\n\n```json\n%s\n```\n"
	)
	mint := func(doc string) map[string]any { return map[string]any{"markdown_doc": doc, "llm_model_id": "m"} }
	update := func(uri, doc string) map[string]any {
		return map[string]any{"uris": []string{uri}, "markdown_doc": []string{doc}}
	}
	fields := func(f map[string]any) map[string]any {
		return map[string]any{"uris": []string{uri}, "updates": f}
	}
	big := "# Bad\n\n## A\n\n" + strings.Repeat("x", 10<<20)
	for name, tc := range map[string]struct {
		tool string
		args map[string]any
		want string
	}{
		"a document beyond 10 MiB":    {"kairos_mint", mint(big), "at most 10485760"},
		"10,001 steps":                {"kairos_mint", mint("# Bad\n" + strings.Repeat("## S\n", 10_001)), "at most 10000"},
		"a NUL":                       {"kairos_mint", mint("# Bad\n\n## A\n\na\x00"), "5:2: error: the document contains a NUL"},
		"deep lists":                  {"kairos_mint", mint("# Bad\n\n## A\n\n" + strings.Repeat("- ", 5000) + "x"), "deeper than 200"},
		"an open challenge":           {"kairos_mint", mint(strings.TrimSuffix(fmt.Sprintf(block, `{"challenge":{"type":"shell"}}`), "```\n")), "not closed"},
		"keys twice":                  {"kairos_mint", mint(fmt.Sprintf(block, `{"challenge":{"type":"shell","type":"mcp"}}`)), `duplicate key \"type\"`},
		"JSON 100,000 deep":           {"kairos_mint", mint(fmt.Sprintf(block, `{"challenge":`+strings.Repeat("[", 100_000))), "invalid JSON"},
		"an unknown type":             {"kairos_mint", mint(fmt.Sprintf(block, `{"challenge":{"type":"telepathy"}}`)), "the types are shell"},
		"a title of 5,001":            {"kairos_mint", mint("# " + strings.Repeat("t", 5_001) + "\n\n## A\n\nx"), "at most 5000"},
		"front matter without an end": {"kairos_mint", mint("---\nslug: a\n\n# Bad\n\n## A\n\nx"), "not closed"},
		"a blank document":            {"kairos_mint", mint(" \n"), "empty"},
		"no document":                 {"kairos_mint", map[string]any{"llm_model_id": "m"}, "markdown_doc"},
		"a number for a document":     {"kairos_mint", map[string]any{"llm_model_id": "m", "markdown_doc": 1}, "markdown_doc"},
		"a space of others":           {"kairos_mint", map[string]any{"llm_model_id": "m", "markdown_doc": "# Bad", "space": "group:x:y"}, "kairos_spaces"},
		"the space of the built-ins":  {"kairos_mint", map[string]any{"llm_model_id": "m", "markdown_doc": "# Bad", "space": "Kairos app"}, "leave space out"},

		"several steps for one":             {"kairos_update", update(uri, "## A\n\nx\n\n## B\n\ny"), "several headings"},
		"a NUL in a step":                   {"kairos_update", update(uri, "## A\n\na\x00"), "NUL"},
		"front matter for a step":           {"kairos_update", update(uri, "---\nslug: a\n---\n## A\n"), "front matter"},
		"a step that nobody has":            {"kairos_update", update(nowhere, "## A\n"), "kairos_search"},
		"a built-in step":                   {"kairos_update", update(builtin, "## A\n"), "built in"},
		"fewer documents than uris":         {"kairos_update", map[string]any{"uris": []string{uri, nowhere}, "markdown_doc": []string{"## A"}}, "markdown_doc"},
		"a field that is not theirs":        {"kairos_update", fields(map[string]any{"space_id": "user:x:y"}), "space_id"},
		"a challenge that is not an object": {"kairos_update", fields(map[string]any{"challenge": []int{1}}), "challenge"},
		"a challenge of no type":            {"kairos_update", fields(map[string]any{"challenge": map[string]any{"type": "telepathy"}}), "the types are shell"},
		"a heading of 5,001":                {"kairos_update", fields(map[string]any{"label": strings.Repeat("h", 5_001)}), "at most 5000"},
		"no change":                         {"kairos_update", fields(map[string]any{}), "nothing to update"},

		"no uris":                  {"kairos_delete", map[string]any{"uris": []string{}}, "uris"},
		"a path for a uri":         {"kairos_delete", map[string]any{"uris": []string{"../../etc/passwd"}}, "pattern"},
		"a uri that nobody has":    {"kairos_delete", map[string]any{"uris": []string{nowhere}}, "kairos_search"},
		"the built-in protocol":    {"kairos_delete", map[string]any{"uris": []string{builtin}}, "built in"},
		"a dump of nothing":        {"kairos_dump", map[string]any{"uri": nowhere, "protocol": true}, "no step or protocol"},
		"a dump of a word":         {"kairos_dump", map[string]any{"uri": "passwd"}, "kairos://mem/"},
		"a blank query":            {"kairos_search", map[string]any{"query": " "}, "some words"},
		"a query in others' hands": {"kairos_search", map[string]any{"query": "x", "space": "group:x:y"}, "kairos_spaces"},
		"a cursor of one's own":    {"kairos_spaces", map[string]any{"include_chain_titles": true, "cursor": "x"}, "cursor"},
		"too many titles":          {"kairos_spaces", map[string]any{"limit": 1 << 20}, "limit"},
		"a run of nothing":         {"kairos_begin", map[string]any{"uri": nowhere}, "NOT_FOUND"},
		"a solution of no type":    {"kairos_next", map[string]any{"uri": uri, "solution": map[string]any{"type": "telepathy"}}, "solution.type"},
		"a solution without run":   {"kairos_next", map[string]any{"uri": uri, "solution": map[string]any{"type": "shell", "shell": map[string]any{"exit_code": 0}}}, "kairos_begin"},
		"an outcome of its own":    {"kairos_attest", map[string]any{"uri": uri, "outcome": "perhaps", "message": "x"}, "outcome"},
		"attested nothing":         {"kairos_attest", map[string]any{"uri": nowhere, "outcome": "success", "message": "x"}, "NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			if said := s.refused(tc.tool, tc.args); !strings.Contains(said, tc.want) || len(said) > 10_000 {
				t.Errorf("%s = %.500s, want %q", tc.tool, said, tc.want)
			}
		})
	}
	s.t = t
	if got := s.chains(); got != 1 {
		t.Errorf("%d protocols are stored, want the one that is sound", got)
	}
	s.solve(func() {})
}

// What is odd and allowed is served, and not taken for something else.
func TestOddQueriesAreAnsweredOverStdio(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	s.start()
	for name, query := range map[string]string{
		"syntax of a search engine": `a"b*c(NEAR/2 OR AND -x:^title:"`, "a NUL": "x\x00", "a megabyte": strings.Repeat("word ", 200_000), "one long word": strings.Repeat("x", 1<<20),
	} {
		if found := s.search(query); !strings.Contains(found, `"role":"create"`) || strings.Contains(found, `"role":"match"`) {
			t.Errorf("%s: kairos_search = %.300s, want no match, and the choices that are always there", name, found)
		}
	}
}
