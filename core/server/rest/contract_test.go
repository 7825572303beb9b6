package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// These tests are the behaviour that clients of the earlier server depend on.

func TestWrongInputIsInvalidInput(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(twoSteps)[0]
	for name, tc := range map[string]struct{ tool, body, mentions string }{
		"search without query":     {"kairos_search", `{}`, "query"},
		"search for nothing":       {"kairos_search", `{"query":"  "}`, "query"},
		"search for a number":      {"kairos_search", `{"query":7}`, "query"},
		"begin without uri":        {"kairos_begin", `{}`, "uri"},
		"begin with another thing": {"kairos_begin", `{"uri":"http://example.org"}`, "uri"},
		"next without uri":         {"kairos_next", `{"solution":{"type":"shell"}}`, "uri"},
		"attest without message":   {"kairos_attest", `{"uri":"` + uri + `","outcome":"success"}`, "message"},
		"attest with bad outcome":  {"kairos_attest", `{"uri":"` + uri + `","outcome":"maybe","message":"m"}`, "outcome"},
		"update without uris":      {"kairos_update", `{"markdown_doc":["x"]}`, "uris"},
		"update of no uris":        {"kairos_update", `{"uris":[]}`, "uris"},
		"delete without uris":      {"kairos_delete", `{}`, "uris"},
		"delete of no list":        {"kairos_delete", `{"uris":"` + uri + `"}`, "uris"},
		"dump without uri":         {"kairos_dump", `{}`, "uri"},
		"spaces by a word":         {"kairos_spaces", `{"limit":"many"}`, "limit"},
		"no object":                {"kairos_search", `["query"]`, "object"},
		"no JSON":                  {"kairos_search", `{"query":`, "JSON"},
		"two documents":            {"kairos_search", `{"query":"a"} {"query":"b"}`, "JSON"},
		"nothing":                  {"kairos_search", ``, "query"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			a := w.post(tc.tool, tc.body).want(400, "INVALID_INPUT")
			if !strings.Contains(a.str("message"), tc.mentions) {
				t.Errorf("message %q does not mention %q", a.str("message"), tc.mentions)
			}
			if _, ok := a.fields["duration_ms"].(float64); !ok {
				t.Errorf("no duration_ms in %s", a.body)
			}
		})
	}
}

func TestAnEmptyDocumentIsInvalidInput(t *testing.T) {
	w := newWorld(t, nil)
	for _, body := range []string{"", " \n"} {
		w.do("POST", "/api/kairos_mint/raw", strings.NewReader(body), "Content-Type", "text/markdown").want(400, "INVALID_INPUT")
	}
}

func TestOtherJSONThanAStringIsNotADocument(t *testing.T) {
	w := newWorld(t, nil)
	for _, body := range []string{"[]", `["# T\n\n## S\n\nx"]`, "{}", ` {"markdown_doc": "# T"} `, "42", "-1.5e3\n", "true", "null"} {
		a := w.do("POST", "/api/kairos_mint/raw", strings.NewReader(body), "Content-Type", "text/markdown").want(400, "INVALID_INPUT")
		if !strings.Contains(a.str("message"), "Markdown") {
			t.Errorf("%s: message %q does not say what the body must be", body, a.str("message"))
		}
	}
}

func TestMintTakesADocumentAsItIs(t *testing.T) {
	w := newWorld(t, nil)
	inJSON, err := json.Marshal(twoSteps)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		path, body string
		headers    []string
		model      string
	}{
		"markdown, model in the query": {"?llm_model_id=m1&force=true", twoSteps, []string{"Content-Type", "text/markdown", "X-LLM-Model-ID", "m2"}, "m1"},
		"model and force in headers":   {"", twoSteps, []string{"Content-Type", "text/markdown", "X-LLM-Model-ID", "m2", "X-Force-Update", "true"}, "m2"},
		"a JSON string":                {"?force=true&llm_model_id=m", string(inJSON), []string{"Content-Type", "application/json"}, "m"},
		"the agent as the model":       {"?force=true", twoSteps, []string{"User-Agent", "robot/7"}, "robot/7"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			a := w.do("POST", "/api/kairos_mint/raw"+tc.path, strings.NewReader(tc.body), tc.headers...).want(200, "")
			metadata, _ := a.fields["metadata"].(map[string]any)
			if a.str("status") != "stored" || len(a.fields["items"].([]any)) != 2 || metadata["count"] != 2.0 || metadata["llm_model_id"] != tc.model {
				t.Errorf("reply %s, want two stored items of model %s", a.body, tc.model)
			}
			if _, ok := metadata["duration_ms"].(float64); !ok {
				t.Errorf("no duration in %s", a.body)
			}
		})
	}
}

func TestWhatIsStoredAlreadyIsAConflict(t *testing.T) {
	w := newWorld(t, nil)
	w.mint(twoSteps)
	again := func(document string) answer {
		return w.do("POST", "/api/kairos_mint/raw", strings.NewReader(document), "Content-Type", "text/markdown")
	}
	a := again(twoSteps).want(409, "DUPLICATE_CHAIN")
	if items, _ := a.fields["items"].([]any); a.str("chain_id") == "" || len(items) != 2 || a.str("message") == "" {
		t.Errorf("reply %s, want chain_id, items and message", a.body)
	}
	a = again(strings.Replace(twoSteps, "Two Steps", "Two Step", 1)).want(409, "SIMILAR_MEMORY_FOUND")
	if a.fields["must_obey"] != true || !strings.Contains(a.str("next_action"), "kairos_dump") || a.fields["existing_memory"] == nil {
		t.Errorf("reply %s", a.body)
	}
}

func TestARefusedDocumentSaysWhere(t *testing.T) {
	w := newWorld(t, nil)
	bad := strings.Replace(twoSteps, `"cmd":"true"`, `"cmd":"bad"`, 1)
	a := w.do("POST", "/api/kairos_mint/raw", strings.NewReader(bad), "Content-Type", "text/markdown").want(422, "DOCUMENT_REFUSED")
	if found, _ := a.fields["diagnostics"].([]any); len(found) != 1 {
		t.Errorf("reply %s, want one diagnostic", a.body)
	}
}

func TestARunFromSearchToAttest(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(twoSteps)
	found := w.post("kairos_search", `{"query":"two steps"}`).want(200, "")
	head := found.fields["choices"].([]any)[0].(map[string]any)["uri"].(string)
	if head != uris[0] {
		t.Fatalf("found %s, want %s", head, uris[0])
	}
	begun := w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, head)).want(200, "")
	failed := w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":%s}`, head, begun.solution(1))).want(200, "")
	if failed.str("error_code") != "COMMAND_FAILED" || failed.fields["retry_count"] != 1.0 {
		t.Errorf("a failed command: %s", failed.body)
	}
	second := w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":%s}`, head, begun.solution(0))).want(200, "")
	if second.str("current_step", "uri") != uris[1] || !strings.Contains(second.str("next_action"), "kairos_attest") {
		t.Errorf("after the first step: %s", second.body)
	}
	done := w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":%s}`, uris[1], second.solution(0))).want(200, "")
	if !strings.Contains(done.str("next_action"), "kairos_attest") {
		t.Errorf("after the last step: %s", done.body)
	}
	attested := w.post("kairos_attest", fmt.Sprintf(`{"uri":%q,"outcome":"success","message":"done"}`, uris[1])).want(200, "")
	if attested.fields["verified"] != true || attested.fields["total_rated"] != 1.0 {
		t.Errorf("attest: %s", attested.body)
	}
}

func TestAMissingSolutionIsAReply(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(twoSteps)[0]
	w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri)).want(200, "")
	for _, body := range []string{`{"uri":%q}`, `{"uri":%q,"solution":null}`} {
		a := w.post("kairos_next", fmt.Sprintf(body, uri)).want(200, "")
		if _, ok := a.fields["retry_count"].(float64); !ok || a.str("error_code") != "MISSING_FIELD" ||
			!strings.Contains(a.str("message"), "Solution") || a.str("next_action") == "" {
			t.Errorf("reply %s", a.body)
		}
	}
}

// call makes a call of a tool over MCP, in the old era or the new one.
func (w *world) call(tool, arguments string, modern bool) answer {
	w.t.Helper()
	meta, headers := "", []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	if modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
			`"io.modelcontextprotocol/clientInfo":{"name":"new","version":"2"}}`
		headers = append(headers, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
	}
	a := w.do("POST", "/mcp", strings.NewReader(fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, tool, arguments, meta)), headers...)
	result, _ := a.fields["result"].(map[string]any)
	a.fields, _ = result["structuredContent"].(map[string]any)
	return a
}

func TestATypeWhoseDriverWasRemovedWaitsForIt(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(twoSteps)[0]
	begun := w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri)).want(200, "")
	body := fmt.Sprintf(`{"uri":%q,"solution":%s}`, uri, begun.solution(0))
	w.compile("shell")
	for face, a := range map[string]answer{
		"REST": w.post("kairos_next", body), "2025-11-25": w.call("kairos_next", body, false), "2026-07-28": w.call("kairos_next", body, true),
	} {
		if a.str("error_code") != "DRIVER_UNAVAILABLE" || a.fields["retry_count"] != 0.0 {
			t.Errorf("%s: %s, want DRIVER_UNAVAILABLE and nothing counted", face, a.body)
		}
	}
	magic := strings.Replace(body, `"type":"shell"`, `"type":"magic"`, 1)
	w.post("kairos_next", magic).want(400, "INVALID_INPUT")
	if a := w.call("kairos_next", magic, true); a.str("error_code") != "INVALID_ARGUMENT" || !strings.Contains(a.str("message"), "Input validation error: solution.type: ") {
		t.Errorf("a type that there never was: %s", a.body)
	}
	w.compile()
	if a := w.call("kairos_next", body, false); a.str("error_code") != "" || a.fields["proof_hash"] == nil {
		t.Errorf("with the driver back: %s, want the step solved", a.body)
	}
}

func TestTheOldNameOfTheProofHashIsTaken(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(twoSteps)
	begun := w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uris[0]))
	body := fmt.Sprintf(`{"uri":%q,"solution":%s}`, uris[0], strings.Replace(begun.solution(0), "proof_hash", "previousProofHash", 1))
	if a := w.post("kairos_next", body).want(200, ""); a.str("current_step", "uri") != uris[1] {
		t.Errorf("reply %s", a.body)
	}
}

func TestARunErrorIsAReplyWithItsCode(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(twoSteps)[0]
	a := w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell","shell":{"exit_code":0}}}`, uri)).want(200, "")
	if a.str("error_code") != "NO_OPEN_RUN" || a.fields["error"] != nil || a.str("next_action") == "" || a.fields["metadata"] == nil {
		t.Errorf("reply %s", a.body)
	}
}

func TestAMissingStepIs404(t *testing.T) {
	w := newWorld(t, nil)
	const absent = `"kairos://mem/00000000-0000-4000-8000-00000000dead"`
	for tool, body := range map[string]string{
		"kairos_dump": `{"uri":` + absent + `}`, "kairos_begin": `{"uri":` + absent + `}`,
		"kairos_attest": `{"uri":` + absent + `,"outcome":"success","message":"m"}`,
	} {
		w.post(tool, body).want(404, "NOT_FOUND")
	}
	next := w.post("kairos_next", `{"uri":`+absent+`}`).want(200, "")
	if next.str("error_code") != "MISSING_FIELD" || next.fields["retry_count"] != 0.0 || !strings.Contains(next.str("message"), "Solution") || next.str("next_action") == "" {
		t.Errorf("next without a solution: %s", next.body)
	}
	w.post("kairos_next", `{"uri":`+absent+`,"solution":{"type":"comment"}}`).want(404, "NOT_FOUND")
	a := w.post("kairos_delete", `{"uris":[`+absent+`]}`).want(200, "")
	if a.fields["total_failed"] != 1.0 {
		t.Errorf("delete: %s", a.body)
	}
	a = w.get("/nowhere").want(404, "")
	if diff := cmp.Diff(map[string]any{"error": "Not found"}, a.fields); diff != "" {
		t.Error(diff)
	}
	w.get("/metrics").want(404, "")
}

func TestABareUUIDStandsForAURI(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(twoSteps)
	id := strings.TrimPrefix(uris[0], "kairos://mem/")
	for _, form := range []string{id, strings.ToUpper(id), "https://example.org/protocols/" + id, "/" + id} {
		if a := w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, form)).want(200, ""); a.str("current_step", "uri") != uris[0] {
			t.Errorf("begin %s: %s", form, a.body)
		}
		if a := w.post("kairos_dump", fmt.Sprintf(`{"uri":%q,"protocol":true}`, form)).want(200, ""); !strings.Contains(a.str("markdown_doc"), "# Two Steps") {
			t.Errorf("dump %s: %s", form, a.body)
		}
	}
	if a := w.post("kairos_update", fmt.Sprintf(`{"uris":[%q],"updates":{"label":"Fresh"}}`, id)).want(200, ""); a.fields["total_updated"] != 1.0 {
		t.Errorf("update: %s", a.body)
	}
	if a := w.post("kairos_delete", fmt.Sprintf(`{"uris":[%q]}`, id)).want(200, ""); a.fields["total_deleted"] != 1.0 {
		t.Errorf("delete: %s", a.body)
	}
}

func TestUnknownFieldsAreIgnoredAsTheToolsDo(t *testing.T) {
	w := newWorld(t, nil)
	w.post("kairos_search", `{"query":"x","fancy":true}`).want(200, "")
	if a := w.post("kairos_spaces", `{"include_chain_titles":true}`).want(200, ""); len(a.fields["spaces"].([]any)) == 0 {
		t.Errorf("spaces: %s", a.body)
	}
	w.post("kairos_spaces", ``).want(200, "")
}

func TestASpaceOfOthersIsForbidden(t *testing.T) {
	w := newWorld(t, nil)
	w.post("kairos_search", `{"query":"x","space_id":"user:other:one"}`).want(403, "forbidden")
}

// A capability driver that asks the client, whatever it declared, gets nowhere.
func TestARESTClientIsAskedNothing(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(strings.Replace(twoSteps, "## First", "## Asks", 1))[0]
	w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri)).want(200, "")
	a := w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell"}}`, uri)).want(200, "")
	if a.str("current_step", "uri") != uri || a.str("error_code") == "WAITING_FOR_USER" {
		t.Errorf("reply %s, want the open step from the agent's route", a.body)
	}
}

func TestSnapshotsSayWhatHappened(t *testing.T) {
	a := newWorld(t, nil).do("POST", "/api/snapshot", nil).want(202, "")
	if a.str("status") != "skipped" || a.str("target") != "qdrant" || a.str("message") == "" {
		t.Errorf("POST /api/snapshot: %s", a.body)
	}
}

func TestCards(t *testing.T) {
	w := newWorld(t, nil)
	if a := w.get("/").want(200, ""); a.str("service") != "KAIROS" || a.str("endpoints", "mcp") != "/mcp" {
		t.Errorf("/: %s", a.body)
	}
	a := w.get("/api").want(200, "")
	if a.str("service") != "KAIROS API" || a.str("version") == "" {
		t.Errorf("/api: %s", a.body)
	}
	for _, tool := range []string{"search", "begin", "next", "attest", "mint", "update", "delete", "dump", "spaces"} {
		if a.str("endpoints", "kairos_"+tool) == "" {
			t.Errorf("/api does not list %s", tool)
		}
	}
	if a := w.do("HEAD", "/api", nil); a.status != 200 || len(a.body) != 0 {
		t.Errorf("HEAD /api = %d %q", a.status, a.body)
	}
	w.get("/auth/callback?code=a&state=b").want(503, "auth_not_configured")
}

func TestTheProtectedResourceDescribesItselfTwice(t *testing.T) {
	w := newWorld(t, nil)
	one, two := w.get("/.well-known/oauth-protected-resource").want(200, ""), w.get("/.well-known/oauth-protected-resource/mcp").want(200, "")
	if string(one.body) != string(two.body) {
		t.Errorf("bodies differ:\n%s\n%s", one.body, two.body)
	}
	want := map[string]any{
		"resource": w.url + "/mcp", "resource_name": "KAIROS", "authorization_servers": []any{}, "scopes_supported": []any{"openid"},
		"bearer_methods_supported": []any{"header"}, "authorization_request_parameters": map[string]any{"prompt": "login"},
	}
	if diff := cmp.Diff(want, one.fields); diff != "" {
		t.Error(diff)
	}
}

func TestHealthSaysHealthy(t *testing.T) {
	for name, tc := range map[string]struct {
		health                  rest.Health
		status                  int
		word, qdrant, embedding string
	}{
		"all well":       {rest.Health{}, 200, "healthy", "healthy", "healthy"},
		"no embeddings":  {rest.Health{Provider: "tei", Embedding: errors.New("away")}, 200, "degraded", "healthy", "unhealthy"},
		"no index":       {rest.Health{Indexed: true, Index: fault.New(fault.StoreUnavailable, "away")}, 200, "degraded", "unhealthy", "healthy"},
		"no store":       {rest.Health{Store: fault.New(fault.StoreUnavailable, "locked")}, 503, "unhealthy", "unhealthy", "healthy"},
		"nothing at all": {rest.Health{Store: errors.New("secret"), Embedding: errors.New("secret")}, 503, "unhealthy", "unhealthy", "unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *rest.Config) { c.Health = func(context.Context) rest.Health { return tc.health } })
			a := w.get("/health").want(tc.status, "")
			uptime, isNumber := a.fields["uptime"].(float64)
			if !isNumber || uptime != float64(int(uptime)) {
				t.Errorf("uptime %v is not a whole number", a.fields["uptime"])
			}
			want := map[string]string{
				"status": tc.word, "service": "KAIROS", "version": "v1", "transport": "http",
				"qdrant": tc.qdrant, "redis": "healthy", "embedding": tc.embedding,
			}
			got := map[string]string{
				"status": a.str("status"), "service": a.str("service"), "version": a.str("version"), "transport": a.str("transport"),
				"qdrant": a.str("dependencies", "qdrant"), "redis": a.str("dependencies", "redis"), "embedding": a.str("dependencies", "embedding"),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(string(a.body), "secret") {
				t.Errorf("an internal error is shown: %s", a.body)
			}
		})
	}
}

// A component that is healthy because there is none says so, beside the words
// that clients know.
func TestHealthNamesWhatIsNotConfigured(t *testing.T) {
	for name, tc := range map[string]struct {
		health rest.Health
		want   map[string]bool // not configured
	}{
		"nothing":    {rest.Health{Provider: "none"}, map[string]bool{"qdrant": true, "redis": true, "embedding": true}},
		"everything": {rest.Health{Provider: "tei", Indexed: true}, map[string]bool{"qdrant": false, "redis": true, "embedding": false}},
	} {
		w := newWorld(t, func(c *rest.Config) { c.Health = func(context.Context) rest.Health { return tc.health } })
		a := w.get("/health").want(200, "")
		for component, want := range tc.want {
			if got := strings.HasPrefix(a.str("details", component), "not configured"); got != want {
				t.Errorf("%s: details of %s = %q, want not configured = %v", name, component, a.str("details", component), want)
			}
			if a.str("dependencies", component) != "healthy" {
				t.Errorf("%s: %s is %q, want healthy", name, component, a.str("dependencies", component))
			}
		}
	}
}

func TestReadinessHasAReason(t *testing.T) {
	var problem error
	w := newWorld(t, func(c *rest.Config) { c.Ready = func(context.Context) error { return problem } })
	w.get("/healthz").want(200, "")
	w.get("/readyz").want(200, "")
	problem = fault.New(fault.DriverUnavailable, "driver shell fails again and again")
	until(t, "/readyz to look again", func() bool { return w.get("/readyz").status == 503 })
	if a := w.get("/readyz").want(503, ""); a.str("reason") != "driver shell fails again and again" {
		t.Errorf("reply %s", a.body)
	}
	w.get("/healthz").want(200, "")
}

// broken is an engine that fails, in its own words.
type broken struct {
	rest.Engine
	err error
}

func (b broken) Search(context.Context, access.Caller, api.SearchRequest) (api.SearchReply, error) {
	return api.SearchReply{}, b.err
}

func (b broken) Begin(context.Context, access.Caller, api.BeginRequest) (director.Round, error) {
	return director.Round{}, b.err
}

func TestWhatFailsHasItsStatus(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status int
		name   string
	}{
		{errors.New("the password is secret"), 500, "SEARCH_FAILED"},
		{fault.New(fault.Internal, "the password is secret"), 500, "SEARCH_FAILED"},
		{fault.New(fault.StoreUnavailable, "away"), 503, "STORE_UNAVAILABLE"},
		{fault.New(fault.StoreFailed, "disk full"), 500, "STORE_FAILED"},
		{fault.New(fault.Conflict, "overtaken"), 409, "CONFLICT"},
	} {
		w := newWorld(t, func(c *rest.Config) { c.Engine = broken{c.Engine, tc.err} })
		a := w.post("kairos_search", `{"query":"x"}`).want(tc.status, tc.name)
		if strings.Contains(string(a.body), "secret") {
			t.Errorf("an internal error is shown: %s", a.body)
		}
		if (a.header.Get("Retry-After") != "") != (tc.status == 503) {
			t.Errorf("%d has Retry-After %q", tc.status, a.header.Get("Retry-After"))
		}
	}
	w := newWorld(t, func(c *rest.Config) { c.Engine = broken{c.Engine, errors.New("no")} })
	w.post("kairos_begin", `{"uri":"00000000-0000-0000-0000-000000002002"}`).want(500, "BEGIN_FAILED")
}

func TestRepliesAreReadableAsTheyStand(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Readable\n\n## One\n\nDo.\n\n```json\n{\"challenge\":{\"shell\":{\"cmd\":\"sort < in && cat > out\"}}}\n```\n")
	begun := w.post("kairos_begin", `{"uri":"`+uris[0]+`"}`).want(200, "")
	if text := string(begun.body); !strings.Contains(text, `sort < in && cat > out`) || strings.Contains(text, `\u00`) {
		t.Errorf("the challenge is hard to read: %s", text)
	}
}
