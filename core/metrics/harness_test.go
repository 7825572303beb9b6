package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/metrics"
	"github.com/kairos-mcp/kairos/core/outlines"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/usecases"
)

const (
	space = "user:test:me"

	tree = `
defaults: {missing_type: shell, no_challenge_type: shell}
challenges:
  - match: {}
    evidence: [{via: agent}]
inputs:
  approval: [{via: agent}]
  files: [{via: agent}]
`
	// mortal is a driver whose process dies when it has to judge.
	mortal = `#!/bin/sh
if [ "$1" = --describe ]; then
  echo '{"name": "mortal", "version": "1.0.0", "role": "challenge", "handles": ["mortal"], "effect": "pure", "transport": "exec"}'
  exit 0
fi
request=$(cat)
case $2 in
  Configure) echo '{"diagnostics": []}';;
  CheckHealth) echo '{"healthy": true}';;
  Validate) echo '{}';;
  Advance) kill -9 $$;;
esac
`
)

// server is a real one: HTTP in front, MCP, an engine on SQLite, driver
// processes and an embedding endpoint.
type server struct {
	t        *testing.T
	store    *faulty
	endpoint *embedtest.Server
	host     *driverhost.Host
	config   driverhost.Config
	set      *driverhost.Set
	engine   *usecases.UseCases
	metrics  *metrics.Metrics
	url      string
	port     http.Handler // of the metrics
}

// faulty is the store with knobs that make it fail.
type faulty struct {
	*sqlitetest.Store
	unreachable, forgetful atomic.Bool
}

// LastChange is what every search reads.
func (f *faulty) LastChange(ctx context.Context) (int64, error) {
	if f.unreachable.Load() {
		return 0, fault.New(fault.StoreUnavailable, "the store cannot be reached")
	}
	return f.Store.LastChange(ctx)
}

func (f *faulty) Rate(ctx context.Context, space string, all []library.Rating) error {
	if f.forgetful.Load() {
		return errors.New("no room")
	}
	return f.Store.Rate(ctx, space, all)
}

// setup is one that never changes.
type setup struct{ drivers.Setup }

func (s setup) Hold() (drivers.Setup, func()) { return s.Setup, func() {} }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newServer(t *testing.T) *server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := &server{t: t, metrics: metrics.New("1.2.3", "test-1"), endpoint: embedtest.Start(embedtest.Options{})}
	t.Cleanup(s.endpoint.Close)
	s.startDrivers(log)
	compiled, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(tree)}, s.set.Descriptors())
	check(t, err)
	kept, err := sqlitetest.Open(filepath.Join(t.TempDir(), "kairos.db"), log)
	check(t, err)
	t.Cleanup(func() { check(t, kept.Close()) })
	s.store = &faulty{Store: kept}
	embedder, err := embedding.New(embedding.Config{
		Provider: "openai", URL: s.endpoint.URL(), Model: "m", CoolDown: time.Nanosecond, Backoff: time.Nanosecond, Observer: s.metrics,
	}, log)
	check(t, err)
	full := audit.New(audit.Options{Sink: &audit.File{Path: "/dev/full"}, Lost: metrics.AuditLost(s.metrics)}, log)
	t.Cleanup(func() { check(t, full.Close()) })
	s.engine = usecases.New(s.metrics.Store(usecases.Store{
		Protocols: s.store, Writer: s.store, Versions: s.store, Searcher: outlines.New(s.store, nil, log), Vectors: s.store, Ratings: s.store,
		Runs: s.store, Index: s.store, Archive: s.store, History: s.store,
	}), setup{drivers.Setup{Drivers: s.set, Tree: compiled}}, usecases.Options{
		Embedder: embedder, SimilarThreshold: 0.6, Options: director.Options{Observer: s.metrics, Audit: full},
	}, log)
	t.Cleanup(func() { check(t, s.engine.Close()) })
	s.serve(log)
	return s
}

func (s *server) startDrivers(log *slog.Logger) {
	s.t.Helper()
	dir := s.t.TempDir()
	for _, name := range []string{"shell", "agent"} {
		out, err := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "kairos-driver-"+name), "../../plugins/"+name).CombinedOutput()
		if err != nil {
			s.t.Fatalf("build driver %s: %v\n%s", name, err, out)
		}
	}
	check(s.t, os.WriteFile(filepath.Join(dir, "kairos-driver-mortal"), []byte(mortal), 0o700))
	lock, err := driverhost.DescribeAll(s.t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
	check(s.t, err)
	s.host = driverhost.New(log, driverhost.Options{Observer: s.metrics, Confinement: driverhost.Confinement{Level: driverhost.LevelNone}})
	s.t.Cleanup(func() { check(s.t, s.host.Close()) })
	s.config = driverhost.Config{Dir: dir, Lock: lock}
	s.set, err = s.host.Load(s.config)
	check(s.t, err)
	s.host.Use(s.set)
}

func (s *server) serve(log *slog.Logger) {
	s.t.Helper()
	mcp, err := mcpserver.New(mcpserver.Config{
		Version: "v1", ChallengeTypes: func() []string { return []string{"shell", "mortal"} }, Principal: "me", Space: space, Observer: s.metrics,
	}, mcpserver.UseCases{Runs: s.engine.Runs, Library: s.engine.Library}, log)
	check(s.t, err)
	s.t.Cleanup(func() { check(s.t, mcp.Close()) })
	api, err := rest.New(rest.Config{
		Version: "v1", Engine: toolset.UseCases{Runs: s.engine.Runs, Library: s.engine.Library}, MCP: mcp.HTTP(), Principal: "me", Space: space, Observer: s.metrics,
		Access: rest.Access{Local: true},
	}, log)
	check(s.t, err)
	front := httptest.NewServer(api)
	s.t.Cleanup(front.Close)
	s.url, s.port = front.URL, s.metrics.Handler(s.host)
}

// reply is what the tests read of a tool's result.
type reply struct {
	Items []struct {
		URI string `json:"uri"`
	} `json:"items"`
	CurrentStep struct {
		URI string `json:"uri"`
	} `json:"current_step"`
	Challenge struct {
		Type      string `json:"type"`
		Nonce     string `json:"nonce"`
		ProofHash string `json:"proof_hash"`
	} `json:"challenge"`
	ErrorCode string `json:"error_code"`
	Error     string `json:"error"`
}

// call calls a tool as a client without a session.
func (s *server) call(tool string, arguments any) reply {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments},
	})
	check(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/mcp", strings.NewReader(string(body)))
	check(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	check(s.t, err)
	raw, err := io.ReadAll(res.Body)
	check(s.t, errors.Join(err, res.Body.Close()))
	var out struct {
		Result struct {
			Structured reply `json:"structuredContent"`
		} `json:"result"`
	}
	text := string(raw)
	if _, data, ok := strings.Cut(text, "data: "); ok {
		text = data
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatalf("%s: %v in %s", tool, err, raw)
	}
	return out.Result.Structured
}

func document(title, kind string) string {
	return fmt.Sprintf("# %s\n\n## Do it\n\nBecause it must be done, always run `make all`.\n\n```json\n{\"challenge\": {\"type\": %q, %q: {\"cmd\": \"make\"}}}\n```\n", title, kind, kind)
}

func (s *server) mint(title, kind string) string {
	s.t.Helper()
	r := s.call("kairos_mint", map[string]any{"markdown_doc": document(title, kind), "llm_model_id": "model-a", "force_update": true})
	if len(r.Items) == 0 {
		s.t.Fatalf("mint of %q: %+v", title, r)
	}
	return r.Items[0].URI
}

// next submits an exit code for the step that a reply shows.
func (s *server) next(shown reply, exitCode int) reply {
	s.t.Helper()
	c := shown.Challenge
	return s.call("kairos_next", map[string]any{"uri": shown.CurrentStep.URI, "solution": map[string]any{
		"type": c.Type, "nonce": c.Nonce, "proof_hash": c.ProofHash, "shell": map[string]any{"exit_code": exitCode},
	}})
}

// series are the values of a scrape by their line without the value.
type series map[string]float64

func (s *server) scrape() series { return parse(s.t, s.text()) }

func (s *server) text() string {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.port.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		s.t.Fatalf("GET /metrics = %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func parse(t *testing.T, text string) series {
	t.Helper()
	out := make(series)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out[line[:at]] = v
	}
	return out
}

// sum adds the series of a name that have all the labels, which are given as
// in name{a="b",c="d"}. Of a histogram it is the count.
func (s series) sum(selector string) (total float64) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(selector, "}"), "{")
	for line, v := range s {
		of, has, _ := strings.Cut(line, "{")
		if of != name && of != name+"_count" {
			continue
		}
		fits := true
		for l := range strings.SplitSeq(labels, ",") {
			fits = fits && strings.Contains(has, l)
		}
		if fits {
			total += v
		}
	}
	return total
}
