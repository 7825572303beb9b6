package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/run"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/core/statement"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/usecases"
	"github.com/kairos-mcp/kairos/e2e/programs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The drivers are small real ones in this process.

// command takes evidence {"exit_code": 0}; hold, if set, is waited for first.
type command struct{ hold func(context.Context) }

func (command) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	var res driver.ValidateResult
	if strings.Contains(string(req.Challenge), `"bad"`) {
		res.Diagnostics = append(res.Diagnostics, driver.Problem("/shell/bad", "is bad"))
	}
	return res, nil
}

func (d command) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	a, ok := req.Answer("evidence")
	if !ok {
		var c map[string]json.RawMessage
		if err := json.Unmarshal(req.Challenge, &c); err != nil {
			return driver.AdvanceResult{}, err
		}
		return driver.Need(driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: "shell", Display: c["shell"], Description: "run it",
			Schema: json.RawMessage(`{"type":"object"}`),
		}), nil
	}
	d.hold(ctx)
	var v struct {
		ExitCode *int `json:"exit_code"`
	}
	if err := json.Unmarshal(a.Value, &v); err != nil {
		return driver.AdvanceResult{}, err
	}
	if v.ExitCode == nil {
		return driver.Reject("MISSING_FIELD", "no exit code"), nil
	}
	if *v.ExitCode != 0 {
		return driver.Reject("COMMAND_FAILED", "it failed"), nil
	}
	return driver.Accept(json.RawMessage(`{}`), a.Value), nil
}

type agent struct{}

func (agent) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	return driver.AskAgent(driver.AgentChallenge{Type: req.Input.Type, Description: req.Input.Description, Display: req.Input.Display}), nil
}

func (agent) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	var s map[string]json.RawMessage
	if err := json.Unmarshal(req.Raw, &s); err != nil {
		return driver.NotAnAnswer(driver.Problem("", err.Error())), nil
	}
	if len(s["shell"]) == 0 {
		return driver.LeftOut("no shell"), nil
	}
	return driver.Answered(s["shell"], driver.AgentReported), nil
}

// reckless asks the client for everything, whatever it has declared.
type reckless struct{}

func (reckless) Render(context.Context, driver.RenderRequest) (driver.RenderResult, error) {
	return driver.AskClient("elicitation/create", json.RawMessage(`{"message":"sure?"}`)), nil
}

func (reckless) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if req.ClientError != nil {
		return driver.CannotInterpret(req.ClientError.Message), nil
	}
	return driver.Answered(req.Raw, driver.ClientAttested), nil
}

// elsewhere leaves approvals to the approval page.
type elsewhere struct{}

func (elsewhere) Render(context.Context, driver.RenderRequest) (driver.RenderResult, error) {
	return driver.AnswerElsewhere("Show the link."), nil
}

func (elsewhere) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("not through the client"), nil
}

type fakeDrivers struct {
	mu   sync.Mutex // guards the field below
	held chan struct{}
	in   chan struct{}
}

// hold makes the next calls wait until release; entered tells of each.
func (d *fakeDrivers) hold() (entered <-chan struct{}, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held, in := make(chan struct{}), make(chan struct{}, 1000)
	d.held, d.in = held, in
	return in, sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.held = nil
		close(held)
	})
}

func (d *fakeDrivers) wait(ctx context.Context) {
	d.mu.Lock()
	held, in := d.held, d.in
	d.mu.Unlock()
	if held == nil {
		return
	}
	in <- struct{}{}
	select {
	case <-held:
	case <-ctx.Done():
	}
}

var descriptors = map[string]driver.Descriptor{
	"shell":    {Name: "shell", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"shell"}, Effect: driver.EffectPure},
	"comment":  {Name: "comment", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"comment"}, Effect: driver.EffectPure},
	"agent":    {Name: "agent", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence, driver.KindApproval, driver.KindFiles, driver.KindRunInput}, Effect: driver.EffectPure, Features: []string{driver.FeatureAgent}, AnswersBy: []string{driver.ByAgent}},
	"page":     {Name: "page", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindApproval}, Effect: driver.EffectPure, Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedApprovalPage}, AnswersBy: []string{driver.ByPage}},
	"reckless": {Name: "reckless", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence}, Effect: driver.EffectReads},
}

func (d *fakeDrivers) Describe(name string) (driver.Descriptor, string, bool) {
	desc, ok := descriptors[name]
	return desc, "sha-of-" + name, ok
}
func (d *fakeDrivers) Isolation(string) string { return "namespace" }

func (d *fakeDrivers) Limits(string) (driver.Provenance, bool) { return "", true }

func (d *fakeDrivers) Warm(context.Context, ...string) {}
func (d *fakeDrivers) Challenge(name string) (driver.Challenge, bool) {
	return command{d.wait}, name == "shell"
}

func (d *fakeDrivers) Capability(name string, _ time.Duration) (driver.Capability, bool) {
	switch name {
	case "agent":
		return agent{}, true
	case "page":
		return elsewhere{}, true
	case "reckless":
		return reckless{}, true
	}
	return nil, false
}

const tree = `
defaults: {missing_type: shell, no_challenge_type: shell}
challenges:
  - match: {name: asks}
    evidence: [{via: reckless, when: '!solution.supplied'}, {via: agent}]
  - match: {}
    evidence: [{via: agent}]
inputs:
  approval: [{via: agent}, {via: page}]
  files: [{via: agent}]
`

// world is an API on a real engine, store and MCP server.
type world struct {
	t       testing.TB
	drivers *fakeDrivers
	engine  *usecases.UseCases
	store   *sqlitetest.Store
	api     *rest.API
	url     string
	log     *programs.Output
	client  *http.Client
	setups  *setups
}

// setups is a setup that can be replaced.
type setups struct{ present atomic.Pointer[drivers.Setup] }

func (s *setups) Hold() (drivers.Setup, func()) { return *s.present.Load(), func() {} }

// compile makes the setup without some drivers.
func (w *world) compile(without ...string) {
	w.t.Helper()
	var all []driver.Descriptor
	for _, d := range descriptors {
		if !slices.Contains(without, d.Name) {
			all = append(all, d)
		}
	}
	compiled, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(tree)}, all)
	if err != nil {
		w.t.Fatal(err)
	}
	w.setups.present.Store(&drivers.Setup{Drivers: w.drivers, Tree: compiled})
}

// types are those of the earlier server, less those that lost their driver.
func (w *world) types() []string {
	types := []string{"comment", "mcp", "shell", "user_input"}
	if !slices.Contains(w.setups.present.Load().Tree.Types(), "shell") {
		types = slices.DeleteFunc(types, func(name string) bool { return name == "shell" })
	}
	return types
}

// newWorld serves an API as kairos does; change may be nil.
func newWorld(t testing.TB, change func(*rest.Config)) *world {
	t.Helper()
	w := &world{t: t, drivers: &fakeDrivers{}, log: &programs.Output{}, setups: &setups{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.openEngine(log)
	mcp, err := mcpserver.New(mcpserver.Config{
		Version: "v1", Principal: "local", Space: "user:local:operator",
		ChallengeTypes: w.types,
	}, mcpserver.UseCases{Runs: w.engine.Runs, Library: w.engine.Library}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mcp.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg := rest.Config{
		Version: "v1", Engine: toolset.UseCases{Runs: w.engine.Runs, Library: w.engine.Library}, Operations: operatorOf(w.engine), Operator: func(*http.Request) error { return nil }, Approvals: w.engine.Runs, MCP: mcp.HTTP(), Principal: "local", Space: "user:local:operator", Check: mcp.Check,
		Tools: mcp.Tools, Access: rest.Access{Local: true},
	}
	if change != nil {
		change(&cfg)
	}
	if w.api, err = rest.New(cfg, log); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(w.api)
	t.Cleanup(srv.Close)
	t.Cleanup(w.api.Drain)
	w.url, w.client = srv.URL, srv.Client()
	return w
}

func (w *world) openEngine(log *slog.Logger) {
	w.t.Helper()
	var err error
	if w.store, err = sqlitetest.Open(filepath.Join(w.t.TempDir(), "kairos.db"), log); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.compile()
	w.engine = w.anotherEngine(clock.System(), log)
}

// anotherEngine is that of another server with the same database and keys.
func (w *world) anotherEngine(c *clock.Clock, log *slog.Logger) *usecases.UseCases {
	e := usecases.New(usecases.Store{
		Protocols: w.store, Writer: w.store, Versions: w.store, Searcher: outlines.New(w.store, meaning.Default, log), Vectors: w.store, Ratings: w.store,
		Runs: w.store, Index: w.store, Archive: w.store, History: w.store, Eraser: w.store, Acceptances: w.store, Declines: w.store,
	}, w.setups, usecases.Options{
		DeclineTTL: time.Hour, Options: director.Options{ApprovalURL: rest.ApprovalPath, Keys: func() ([][32]byte, error) { return [][32]byte{{1}}, nil }, Clock: c},
	}, log)
	w.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return e
}

// answer is a reply, decoded if it is a JSON object.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
	fields map[string]any
}

func (w *world) do(method, path string, body io.Reader, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return w.send(req)
}

func (w *world) send(req *http.Request) answer {
	w.t.Helper()
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	a := answer{t: w.t, status: res.StatusCode, header: res.Header}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		w.t.Fatal(err)
	}
	_ = json.Unmarshal(a.body, &a.fields) // not every reply is an object
	return a
}

func (w *world) get(path string, headers ...string) answer { return w.do("GET", path, nil, headers...) }

// post sends JSON to a tool.
func (w *world) post(tool, body string, headers ...string) answer {
	w.t.Helper()
	return w.do("POST", "/api/"+tool, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, headers...)...)
}

func (a answer) want(status int, code string) answer {
	a.t.Helper()
	if a.status != status || code != "" && a.fields["error"] != code {
		a.t.Fatalf("%d %s, want %d %s", a.status, a.body, status, code)
	}
	if a.str("message") != "" && a.str("error") != "" && (a.str("error_code") == "" || a.str("next_action") == "") {
		a.t.Errorf("%s: want error_code and next_action", a.body)
	}
	return a
}

func (a answer) str(keys ...string) string {
	a.t.Helper()
	var at any = a.fields
	for _, k := range keys {
		m, _ := at.(map[string]any)
		at = m[k]
	}
	s, _ := at.(string)
	return s
}

const twoSteps = "# Two Steps\n\n## First\n\nFirst body\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n\n" +
	"## Second\n\nSecond body\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"make\"}}}\n```\n"

// mint stores a document and returns the URIs of its steps.
func (w *world) mint(document string) []string {
	w.t.Helper()
	a := w.do("POST", "/api/kairos_mint/raw?force=true&llm_model_id=test", strings.NewReader(document), "Content-Type", "text/markdown").want(200, "")
	var uris []string
	for _, item := range a.fields["items"].([]any) {
		uris = append(uris, item.(map[string]any)["uri"].(string))
	}
	return uris
}

// solution proves the step that a reply shows.
func (a answer) solution(exit int) string {
	return fmt.Sprintf(`{"type":"shell","nonce":%q,"proof_hash":%q,"shell":{"exit_code":%d}}`,
		a.str("challenge", "nonce"), a.str("challenge", "proof_hash"), exit)
}

// until polls with a deadline.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		time.Sleep(2 * time.Millisecond) // polling with a deadline
	}
}

// operator diagnoses what is stored; the parts of this server have no problems.
type operator struct {
	operations.Runs
	*archive.Archive
	operations.Versions

	key statement.Key
}

func operatorOf(e *usecases.UseCases) operator {
	return operator{Runs: e.Runs, Archive: e.Archive, Versions: e.Library, key: statement.NewKey()}
}

func (o operator) Abandon(ctx context.Context, c access.Caller, id run.ID, reason string) (run.Summary, error) {
	return o.Runs.Abandon(ctx, c, id, reason)
}

func (o operator) Refused(_ context.Context, _ access.Caller, _ string, err error) error { return err }

func (o operator) Diagnose(ctx context.Context, c access.Caller) (operations.Report, error) {
	u, err := o.Unserved(ctx, c)
	return operations.Report{Version: "v1", Drivers: []operations.DriverState{}, Unserved: u}, err
}

func (o operator) Statement(ctx context.Context, c access.Caller, id run.ID, _ bool) ([]byte, error) {
	account, err := o.Account(ctx, c, id)
	return []byte(account.Run.Title), err
}

func (o operator) Page(ctx context.Context, c access.Caller, id run.ID) ([]byte, error) {
	account, err := o.Account(ctx, c, id)
	return []byte("<h1>" + account.Run.Title + "</h1>"), err
}

func (o operator) PublicKey() (statement.PublicKey, error) { return o.key.Public(), nil }

// begun mints a document as the caller and begins a run of it.
func (w *world) begun(c access.Caller, document string) run.ID {
	w.t.Helper()
	minted, err := w.engine.Library.Mint(w.t.Context(), c, api.MintRequest{Document: document, ModelID: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	round, err := w.engine.Runs.Begin(w.t.Context(), c, api.BeginRequest{URI: minted.Items[0].URI})
	if err != nil {
		w.t.Fatal(err)
	}
	return run.ID(round.Reply.RunID)
}

func (o operator) CreateSpace(_ context.Context, _ access.Caller, name string) (string, bool, error) {
	id, err := access.SpaceID(name)
	return id, err == nil, err
}
