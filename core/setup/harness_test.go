package setup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/setup"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/usecases"
	"github.com/kairos-mcp/kairos/e2e/programs"
)

// program is the test driver without any traits, built once.
var program []byte

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func build() error {
	dir, err := os.MkdirTemp("", "setup-test-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "driver")
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./testdata/driver").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the test driver: %w\n%s", err, out)
	}
	program, err = os.ReadFile(path)
	return err
}

// traits make a version of the test driver; see testdata/driver.
type traits struct {
	Version string `json:"version"`
	Agent   bool   `json:"agent"`
	Reads   []int  `json:"reads"`
	Writes  int    `json:"writes"`
	Sick    bool   `json:"sick"`
	Strict  bool   `json:"strict"`
	Slow    bool   `json:"slow"`
	Lazy    string `json:"lazy"`
	Free    bool   `json:"free"`
}

const tree = `
defaults: {missing_type: staged, no_challenge_type: staged}
challenges:
  - match: {}
    evidence: [{via: agent}]
inputs:
  approval: [{via: agent}]
  run_input: [{via: agent}]
  files: [{via: agent}]
`

// rig is a setup on files in a folder, with real driver processes and an
// engine on a real store.
type rig struct {
	*setup.Current
	t      testing.TB
	dir    string
	host   *driverhost.Host
	engine *usecases.UseCases
	log    *programs.Output

	mu       sync.Mutex // guards the fields below
	config   map[string]driverhost.DriverConfig
	rules    string
	settings decision.ConfigFacts
	how      []string
	restart  map[string]string
	broken   error
	reads    int
	extra    []string     // files beside the usual ones
	meantime func(r *rig) // called once, after the files were read
}

func newRig(t testing.TB) *rig { return isolatedRig(t, driverhost.LevelNone) }

func isolatedRig(t testing.TB, level driverhost.Level) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), log: &programs.Output{}, config: map[string]driverhost.DriverConfig{}, restart: map[string]string{}}
	r.install("agent", traits{Version: "1.0.0", Agent: true})
	r.install("staged", traits{Version: "1.0.0", Reads: []int{1}, Writes: 1})
	r.lock()
	r.write("tree.yaml", tree)
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.host = driverhost.New(log, driverhost.Options{Confinement: driverhost.Confinement{Level: level}})
	t.Cleanup(func() {
		if err := r.host.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if r.Current, err = setup.Open(r.host, r.read, nil, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	store := sqlitetest.New(t)
	r.engine = usecases.New(usecases.Store{
		Protocols: store, Writer: store, Versions: store, Searcher: outlines.New(store, nil, log), Vectors: store, Ratings: store,
		Runs: store, Index: store, Archive: store, History: store,
	}, r.Current, usecases.Options{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := r.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// write replaces a file as editors do: a new one takes the name.
func (r *rig) write(name, text string) {
	r.t.Helper()
	tmp := r.path("." + name + ".swp")
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(tmp, r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) install(name string, traits traits) {
	r.t.Helper()
	b, err := json.Marshal(traits)
	if err != nil {
		r.t.Fatal(err)
	}
	content := append(append(bytes.Clone(program), "traits of this\x00driver:"...), b...)
	path := r.path(driverhost.BinaryPrefix + name)
	if err := os.WriteFile(path+".new", content, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) lock() {
	r.t.Helper()
	l, err := driverhost.DescribeAll(context.Background(), r.dir, driverhost.Confinement{Level: driverhost.LevelNone})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := driverhost.WriteLock(r.path(driverhost.LockName), l); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read() (setup.Desired, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	w := setup.Desired{Files: []string{r.path("tree.yaml"), r.path(driverhost.LockName)}, Settings: r.settings, How: r.how, Restart: map[string]any{"approvers": []string{"ada"}}}
	for k, v := range r.restart {
		w.Restart[k] = v
	}
	if r.broken != nil {
		return w, r.broken
	}
	b, err := os.ReadFile(r.path("tree.yaml"))
	if err != nil {
		return w, err
	}
	w.Tree = decision.Source{Name: "tree.yaml", YAML: b}
	w.Rules = rules.Source{Name: "kairos.yaml", YAML: []byte(r.rules)}
	w.Drivers = driverhost.Config{Dir: r.dir, Drivers: map[string]driverhost.DriverConfig{}, Drain: 5 * time.Second}
	for name, c := range r.config {
		w.Drivers.Drivers[name] = c
	}
	w.Drivers.Lock, err = driverhost.ReadLock(r.path(driverhost.LockName))
	w.Files = append(w.Files, r.extra...)
	if do := r.meantime; do != nil {
		r.meantime = nil
		do(r)
	}
	return w, err
}

// change sets what read returns besides the files.
func (r *rig) change(do func(r *rig)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(r)
}

func (r *rig) readSoFar() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// version is that of the driver that judges now.
func (r *rig) version() string {
	s, release := r.Hold()
	defer release()
	d, _, _ := s.Drivers.Describe("staged")
	return d.Version
}

func (r *rig) reload() setup.Report {
	r.t.Helper()
	report, err := r.Reload(context.Background())
	if err != nil {
		r.t.Fatalf("Reload: %v", err)
	}
	return report
}

func kinds(r setup.Report) map[string]string {
	out := map[string]string{}
	for _, c := range r.Changes {
		out[c.Driver] = c.Kind
	}
	return out
}

var caller = access.Caller{Principal: "me", Space: "user:test:me", CanWait: time.Minute}

const document = "# Staged\n\n## Say\n\nsay\n\n```json\n{\"challenge\":{\"type\":\"staged\",\"staged\":{}}}\n```\n"

// twice is a document of two steps.
const twice = document + "\n## Repeat\n\nsay it again\n\n```json\n{\"challenge\":{\"type\":\"staged\",\"staged\":{}}}\n```\n"

func (r *rig) mint(doc string) []string {
	r.t.Helper()
	reply, err := r.engine.Library.Mint(context.Background(), caller, api.MintRequest{Document: doc, ModelID: "test", Force: true})
	if err != nil {
		r.t.Fatal(err)
	}
	uris := make([]string, len(reply.Items))
	for i, item := range reply.Items {
		uris[i] = item.URI
	}
	return uris
}

func (r *rig) begin(uri string) *api.StepReply {
	r.t.Helper()
	round, err := r.engine.Runs.Begin(context.Background(), caller, api.BeginRequest{URI: uri})
	if err != nil {
		r.t.Fatal(err)
	}
	return round.Reply
}

func (r *rig) say(reply *api.StepReply) (*api.StepReply, error) {
	solution := fmt.Sprintf(`{"type":"staged","nonce":%q,"proof_hash":%q,"evidence":{"said":true}}`, reply.Challenge.Nonce, reply.Challenge.ProofHash)
	round, err := r.engine.Runs.Next(context.Background(), caller, api.NextRequest{URI: reply.CurrentStep.URI, Solution: json.RawMessage(solution)})
	if err != nil {
		return nil, err
	}
	return round.Reply, nil
}

func (r *rig) said(reply *api.StepReply) *api.StepReply {
	r.t.Helper()
	next, err := r.say(reply)
	if err != nil {
		r.t.Fatal(err)
	}
	return next
}

// eventually waits until a claim holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // polling with a deadline
	}
}

func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

// accepted is what the run has on record as the output of the step that was solved last.
func (r *rig) accepted(reply *api.StepReply) (output string) {
	r.t.Helper()
	line, err := r.engine.Archive.Timeline(r.t.Context(), caller, run.ID(reply.RunID))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range line.Moments {
		if m.What == "accepted" {
			output = string(m.Answer)
		}
	}
	return output
}
