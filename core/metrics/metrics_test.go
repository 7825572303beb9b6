package metrics_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/metrics"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// operation is something that a server does, and the series that it moves.
type operation struct {
	name  string
	do    func(*server)
	moves []string
}

// me are the labels of a series of the caller's space.
const me = `tenant_id="` + space + `"`

func operations() []operation {
	var shown reply
	var uri string
	return []operation{
		{"a mint", func(s *server) { uri = s.mint("Make everything", "shell") }, []string{
			`kairos_mcp_tool_calls_total{tool="kairos_mint",status="success",` + me + `}`, `kairos_mcp_tool_duration_seconds{tool="kairos_mint"}`,
			`kairos_mcp_tool_input_size_bytes{tool="kairos_mint"}`, `kairos_mcp_tool_output_size_bytes{tool="kairos_mint"}`,
			`kairos_memory_store_total{` + me + `}`, `kairos_memory_store_duration_seconds{` + me + `}`, `kairos_memory_chain_size{` + me + `}`,
			`kairos_qdrant_operations_total{operation="upsert",status="success",` + me + `}`, `kairos_qdrant_operation_duration_seconds{operation="upsert"}`,
			`kairos_qdrant_upsert_duration_seconds{` + me + `}`, `kairos_qdrant_vector_dimension`, `kairos_qdrant_collection_size{` + me + `}`,
			`kairos_agent_contributions_total{agent_id="model-a",` + me + `}`, `kairos_agent_quality_score{agent_id="model-a"}`,
			`kairos_embedding_requests_total{provider="openai",status="success",` + me + `}`, `kairos_embedding_duration_seconds{provider="openai"}`,
			`kairos_embedding_vector_size_bytes{provider="openai"}`, `kairos_embedding_batch_size{provider="openai"}`,
			`kairos_http_requests_total{method="POST",route="/mcp",status="200"}`, `kairos_http_request_duration_seconds{route="/mcp"}`,
			`kairos_http_request_size_bytes{route="/mcp"}`, `kairos_http_response_size_bytes{route="/mcp"}`,
			`kairos_driver_calls_total{driver="shell",method="Validate",status="success"}`, `kairos_driver_call_duration_seconds{driver="shell"}`,
			`kairos_driver_starts_total{driver="shell",status="success"}`, `kairos_driver_up{driver="shell"}`, `kairos_driver_memory_bytes{driver="shell"}`,
		}},
		{"a search", func(s *server) { s.call("kairos_search", map[string]any{"query": "make everything now"}) }, []string{
			`kairos_mcp_tool_calls_total{tool="kairos_search",status="success"}`, `kairos_memory_search_total{status="success",` + me + `}`,
			`kairos_memory_search_duration_seconds{` + me + `}`, `kairos_qdrant_operations_total{operation="search"}`, `kairos_qdrant_query_duration_seconds{` + me + `}`,
		}},
		{"a begin", func(s *server) { shown = s.call("kairos_begin", map[string]any{"uri": uri}) }, []string{
			`kairos_runs_begun_total{` + me + `}`, `kairos_memory_retrieve_total{status="success",` + me + `}`, `kairos_memory_retrieve_duration_seconds{` + me + `}`,
		}},
		{"evidence that is refused too often", func(s *server) {
			for range 3 {
				shown = s.next(shown, 1)
			}
		}, []string{
			`kairos_route_total{challenge="shell",input="evidence",via="agent",outcome="rejected",error_code="COMMAND_FAILED"}`,
			`kairos_mcp_tool_retries_total{tool="kairos_next",` + me + `}`, `kairos_mcp_tool_error_codes_total{tool="kairos_next",error_code="COMMAND_FAILED",` + me + `}`,
			`kairos_mcp_tool_circuit_breaker_total{tool="kairos_next",` + me + `}`,
		}},
		{"evidence that is accepted", func(s *server) { s.next(shown, 0) }, []string{
			`kairos_route_total{challenge="shell",input="evidence",via="agent",outcome="accepted",error_code=""}`,
			`kairos_route_duration_seconds{challenge="shell",outcome="accepted"}`,
		}},
		{"an attestation", func(s *server) {
			s.call("kairos_attest", map[string]any{"uri": uri, "outcome": "success", "message": "made", "llm_model_id": "model-b"})
		}, []string{
			`kairos_runs_attested_total{outcome="success",verified="true",` + me + `}`, `kairos_agent_implementation_attempts_total{agent_id="model-b"}`,
			`kairos_agent_implementation_successes_total{agent_id="model-b"}`, `kairos_agent_implementation_success_rate{agent_id="model-b"}`,
			`kairos_agent_implementation_bonus_total{agent_id="model-b"}`, `kairos_agent_rare_successes_total{agent_id="model-b"}`,
		}},
		{"an unknown protocol", func(s *server) {
			s.call("kairos_dump", map[string]any{"uri": "kairos://mem/00000000-0000-4000-8000-000000000000"})
		}, []string{
			`kairos_mcp_tool_errors_total{tool="kairos_dump",` + me + `}`, `kairos_mcp_tool_calls_total{tool="kairos_dump",status="error"}`,
			`kairos_mcp_tool_error_codes_total{tool="kairos_dump",error_code="NOT_FOUND"}`, `kairos_memory_retrieve_total{status="error"}`,
		}},
		{"a mint of nearly the same", func(s *server) {
			s.call("kairos_mint", map[string]any{"markdown_doc": document("Everything, make", "shell"), "llm_model_id": "m"})
		}, []string{`kairos_mint_similar_memory_found_total{transport="http",` + me + `}`}},
		{"an update", func(s *server) {
			s.call("kairos_update", map[string]any{"uris": []string{uri}, "updates": map[string]any{"label": "Do it well"}})
		}, []string{`kairos_memory_update_total{status="success",` + me + `}`, `kairos_audit_lines_lost_total`, `kairos_memory_update_duration_seconds{` + me + `}`}},
		{"a rating that is lost", func(s *server) {
			s.store.forgetful.Store(true)
			s.mint("Another thing", "shell")
		}, []string{`kairos_quality_update_errors_total{` + me + `}`}},
		{"a delete", func(s *server) {
			s.store.forgetful.Store(false)
			s.call("kairos_delete", map[string]any{"uris": []string{uri}})
		}, []string{
			`kairos_memory_delete_total{status="success",` + me + `}`, `kairos_memory_delete_duration_seconds{` + me + `}`,
			`kairos_qdrant_operations_total{operation="delete"}`,
		}},
		{"a store out of reach", func(s *server) {
			s.store.unreachable.Store(true)
			s.call("kairos_search", map[string]any{"query": "anything"})
		}, []string{
			`kairos_qdrant_connection_errors_total{` + me + `}`, `kairos_qdrant_operations_total{operation="search",status="error"}`,
			`kairos_memory_search_total{status="error"}`,
		}},
		{"a store that is back", func(s *server) {
			s.store.unreachable.Store(false)
			s.call("kairos_search", map[string]any{"query": "anything"})
		}, []string{`kairos_qdrant_reconnect_total{` + me + `}`}},
		{"an embedding endpoint that fails", func(s *server) {
			s.endpoint.Behave(embedtest.Behaviour{Fault: embedtest.Refusing})
			s.call("kairos_search", map[string]any{"query": "something else"})
		}, []string{`kairos_embedding_errors_total{provider="openai",` + me + `}`, `kairos_embedding_requests_total{status="error"}`}},
		{"a driver that dies again and again", func(s *server) {
			c, _ := s.set.Challenge("mortal")
			for range 5 {
				_, _ = c.Advance(s.t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(`{}`)}) // fails, and is to
			}
		}, []string{
			`kairos_driver_crashes_total{driver="mortal"}`, `kairos_driver_repeats_total{driver="mortal"}`,
			`kairos_driver_calls_total{driver="mortal",method="Advance",status="error"}`,
			`kairos_driver_breaker_opens_total{driver="mortal"}`, `kairos_driver_breaker_state{driver="mortal"}`,
		}},
		{"a swap", func(s *server) {
			next, err := s.host.Prepare(s.t.Context(), s.set, s.config, "shell")
			check(s.t, err)
			s.host.Use(next)
			s.host.Drain(s.set)
		}, []string{`kairos_driver_swaps_total{driver="shell",status="success"}`, `kairos_driver_restarts_total{driver="shell"}`}},
	}
}

func TestEverySeriesMovesWhenItsOperationHappens(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds and starts drivers")
	}
	s := newServer(t)
	// These are as they are at a scrape, and the test of active connections is its own.
	moved := map[string]bool{
		"kairos_system_uptime_seconds": true, "kairos_system_process_start_time_seconds": true, "kairos_system_memory_usage_bytes": true,
		"kairos_system_cpu_usage_percent": true, "kairos_http_active_connections": true,
	}
	for _, op := range operations() {
		before := s.scrape()
		op.do(s)
		for _, selector := range op.moves {
			name, _, _ := strings.Cut(selector, "{")
			moved[name] = true
			// Ratings are written in the background.
			deadline := time.Now().Add(time.Minute)
			for s.scrape().sum(selector) == before.sum(selector) {
				if time.Now().After(deadline) {
					t.Errorf("%s does not move %s: it stays %v", op.name, selector, before.sum(selector))
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	for _, f := range families(s.text()) {
		if !moved[f.name] {
			t.Errorf("no operation moves %s", f.name)
		}
	}
	compareWithManual(t, s.text())
}

func TestARequestIsActiveWhileItIsServed(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds and starts drivers")
	}
	s := newServer(t)
	body, send := io.Pipe()
	done := make(chan error, 1)
	go func() {
		res, err := http.Post(s.url+"/api/kairos_search", "application/json", body)
		if err == nil {
			err = res.Body.Close()
		}
		done <- err
	}()
	if _, err := send.Write([]byte(`{"query":`)); err != nil {
		t.Fatal(err)
	}
	active := func() float64 { return s.scrape().sum("kairos_http_active_connections") }
	wait(t, "the request is active", func() bool { return active() == 1 })
	if _, err := send.Write([]byte(`"make"}`)); err != nil {
		t.Fatal(err)
	}
	check(t, send.Close())
	check(t, <-done)
	wait(t, "the request is done", func() bool { return active() == 0 })
}

func wait(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// family is one name of a scrape.
type family struct{ name, help, kind string }

// families lists what a scrape declares of our own.
func families(text string) []family {
	byName := make(map[string]family)
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(words) < 4 || words[0] != "#" || !strings.HasPrefix(words[2], "kairos_") {
			continue
		}
		f := byName[words[2]]
		f.name = words[2]
		switch words[1] {
		case "HELP":
			f.help = words[3]
		case "TYPE":
			f.kind = words[3]
		}
		byName[words[2]] = f
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b family) int { return strings.Compare(a.name, b.name) })
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestTheNamesThatClientsKnowAreThereFromTheStart(t *testing.T) {
	h := metrics.New("1.2.3", "test-1").Handler(nil)
	w := get(t, h, "/metrics")
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type = %q", got)
	}
	text := w.Body.String()
	for _, f := range families(text) {
		if f.help == "" || f.kind == "" {
			t.Errorf("%s has HELP %q and TYPE %q", f.name, f.help, f.kind)
		}
	}
	all := parse(t, text)
	for _, name := range []string{
		"kairos_mcp_tool_calls_total", "kairos_memory_store_total", "kairos_memory_store_duration_seconds_count", "kairos_memory_chain_size_count",
		"kairos_qdrant_operations_total", "kairos_qdrant_query_duration_seconds_count", "kairos_agent_contributions_total",
		"kairos_agent_quality_score_count", "kairos_embedding_requests_total", "kairos_http_requests_total", "kairos_system_uptime_seconds",
	} {
		found := false
		for line := range all {
			found = found || strings.HasPrefix(line, name+"{")
		}
		if !found {
			t.Errorf("no series of %s", name)
		}
	}
	for line := range all {
		for _, label := range []string{`service="kairos"`, `kairos_version="1.2.3"`, `instance="test-1"`} {
			if !strings.Contains(line, label) {
				t.Errorf("%s lacks %s", line, label)
			}
		}
	}
}

func TestThePortOfTheMetricsHasItsOwnHealth(t *testing.T) {
	h := metrics.New("1", "i").Handler(nil)
	var got struct{ Status, Service string }
	check(t, json.Unmarshal(get(t, h, "/health").Body.Bytes(), &got))
	if got.Status != "ok" || got.Service != "metrics" {
		t.Errorf("GET /health = %+v", got)
	}
	if w := get(t, h, "/"); w.Code != http.StatusNotFound {
		t.Errorf("GET / = %d, want 404", w.Code)
	}
}

func TestLabelsStayFewWhateverClientsSend(t *testing.T) {
	m := metrics.New("1", "i")
	for i := range 2000 {
		name := strings.Repeat("x", i)
		m.Rated(library.Rated{Space: "user:r:" + name, Agent: name + "\xff\n\"", Outcome: library.OutcomeStored, Tier: "high", Attest: true})
		m.Routed(observe.Route{Space: "user:r:" + name, Challenge: name, Input: name, Via: name, Outcome: observe.Outcome(name), ErrorCode: name})
		m.SimilarFound(name, name)
	}
	text := get(t, m.Handler(nil), "/metrics").Body.String()
	if n := strings.Count(text, "\n"); n > 200_000 {
		t.Errorf("a scrape has %d lines", n)
	}
	for _, label := range []string{"agent_id", "tenant_id", "challenge", "via", "error_code", "outcome", "transport"} {
		values := make(map[string]bool)
		for line := range strings.Lines(text) {
			if _, rest, ok := strings.Cut(line, label+`="`); ok {
				v, _, _ := strings.Cut(rest, `"`)
				values[v] = true
			}
		}
		if len(values) > 102 {
			t.Errorf("%s has %d values", label, len(values))
		}
		if !values["other"] {
			t.Errorf("no series has %s=\"other\"", label)
		}
	}
}
