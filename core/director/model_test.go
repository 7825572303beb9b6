package director_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/usecases"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// Calls that come at the same time, on two servers that share a database, get replies
// and leave runs as if they had come one after the other.
func TestConcurrentCallsAreAsIfInSomeOrder(t *testing.T) {
	checks(t, shortened(60, 15))
	m := newModel(t)
	rapid.Check(t, func(rt *rapid.T) {
		m.reset(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"mint":    m.mint,
			"begin":   m.begin,
			"call 1":  m.one,
			"call 2":  m.one,
			"call 3":  m.one,
			"calls 1": m.together,
			"calls 2": m.together,
			"calls 3": m.together,
			"":        m.check,
			"restart": m.restart,
			"driver":  m.driver,
			"time":    m.time,
		})
		m.finish(rt)
	})
}

// checks sets how often rapid checks a property, unless a flag of the test run does.
func checks(t *testing.T, many int) {
	t.Helper()
	if os.Getenv("KAIROS_SOAK") != "" {
		many *= 10
	}
	set := flag.Lookup("rapid.checks")
	if set.Value.String() != set.DefValue {
		return
	}
	_ = set.Value.Set(strconv.Itoa(many))                 // is a number
	t.Cleanup(func() { _ = set.Value.Set(set.DefValue) }) // was one
}

// model is two servers with one database, and what they must keep.
type model struct {
	t       *testing.T
	path    string
	store   *sqlitetest.Store
	machine machine
	fakes   *fakeDrivers
	setups  *setups
	deeds   *deeds
	reply   *schema.Schema // of kairos_next
	servers [2]Engine

	nth     int
	caller  access.Caller
	title   string
	kinds   []string // of the protocol as it is now
	uris    []string
	runs    []modelRun
	markers int
	history []string
}

// deeds is the challenge driver of acting steps: it notes what it did to the world.
type deeds struct {
	mu   sync.Mutex // guards the fields below
	dies bool       // after it has acted
	done map[string]int
}

func (*deeds) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (d *deeds) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	a, ok := req.Answer("evidence")
	if !ok {
		return driver.Need(driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: effectful, Description: "do it", Schema: json.RawMessage(`{"type":"object"}`),
		}), nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done[markerOf(a.Value)]++
	if d.dies {
		return driver.AdvanceResult{}, fmt.Errorf("the process has ended")
	}
	return driver.Accept(json.RawMessage(`{"done":true}`), a.Value), nil
}

func (d *deeds) set(dies bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dies = dies
}

// counts is how often each was done.
func (d *deeds) counts() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.done)
}

func markerOf(value json.RawMessage) string {
	var v struct {
		Marker string `json:"marker"`
	}
	_ = json.Unmarshal(value, &v) // has none, then
	return v.Marker
}

func newModel(t *testing.T) *model {
	t.Helper()
	fresh, err := freshDatabase()
	if err != nil {
		t.Fatal(err)
	}
	m := &model{t: t, path: filepath.Join(t.TempDir(), "kairos.db"), machine: newMachine(), fakes: &fakeDrivers{failing: map[string]bool{}}, deeds: &deeds{done: map[string]int{}}}
	if err := os.WriteFile(m.path, fresh, 0o600); err != nil {
		t.Fatal(err)
	}
	desc := descriptors[effectful]
	desc.Effect = driver.EffectChanges
	all := catalog{fakeDrivers: m.fakes, challenges: map[string]driver.Challenge{effectful: m.deeds}, descriptors: map[string]driver.Descriptor{}}
	var list []driver.Descriptor
	for name, d := range descriptors {
		if name == effectful {
			d = desc
		}
		all.descriptors[name] = d
		list = append(list, d)
	}
	tree, err := decision.Compile(decision.Default(), list)
	if err != nil {
		t.Fatal(err)
	}
	m.setups = newSetups(t, drivers.Setup{Drivers: all, Tree: tree})
	if m.reply, err = schema.Compile(api.Next.Output().JSON()); err != nil {
		t.Fatal(err)
	}
	m.open()
	t.Cleanup(m.close)
	return m
}

func (m *model) open() {
	m.t.Helper()
	store, err := sqlitetest.Open(m.path, slog.New(slog.DiscardHandler))
	if err != nil {
		m.t.Fatal(err)
	}
	m.store = store
	for i := range m.servers {
		m.serve(i)
	}
}

func (m *model) serve(i int) {
	m.servers[i] = newEngine(engineStore(m.store), m.setups, usecases.Options{Options: director.Options{
		SolutionFields: []string{"shell", "mcp", "user_input", "comment"}, Clock: clock.New(m.machine),
	}}, slog.New(slog.DiscardHandler))
}

func (m *model) close() {
	for _, s := range m.servers {
		if err := s.Close(); err != nil {
			m.t.Error(err)
		}
	}
	if err := m.store.Close(); err != nil {
		m.t.Error(err)
	}
}

// reset begins a check: other principals than those of the checks before it.
func (m *model) reset(rt *rapid.T) {
	m.nth++
	m.runs, m.history = nil, nil
	m.title = fmt.Sprintf("Model %d", m.nth)
	m.caller = access.Caller{Principal: fmt.Sprintf("me%d", m.nth), Space: fmt.Sprintf("user:test:me%d", m.nth), Connection: "c1", CanWait: time.Minute}
	m.caller.Client.ElicitationForm = true
	m.fakes.set(reported, false)
	m.deeds.done, m.deeds.dies = map[string]int{}, false
	m.mint(rt)
}

func (m *model) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *model) fatal(rt *rapid.T, format string, args ...any) {
	rt.Fatalf("%s\n\nbefore:\n%s", fmt.Sprintf(format, args...), strings.Join(m.history, "\n"))
}

// mint stores the protocol, or a new version of it; runs keep theirs.
func (m *model) mint(rt *rapid.T) {
	kinds := rapid.SliceOfN(rapid.SampledFrom([]string{reported, reported, personal, gated, effectful, free}), 1, 4).Draw(rt, "steps")
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", m.title)
	m.markers++
	for i, kind := range kinds {
		fmt.Fprintf(&b, "\n## Step %d\n\nversion %d\n", i+1, m.markers)
		switch kind {
		case free:
		case gated:
			b.WriteString("\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"go\"}}}\n```\n")
		default:
			fmt.Fprintf(&b, "\n```json\n{\"challenge\":{\"type\":%q,%q:{}}}\n```\n", kind, kind)
		}
	}
	reply, err := m.servers[0].Mint(context.Background(), m.caller, api.MintRequest{Document: b.String(), ModelID: "test", Force: true})
	if m.fakes.knob(reported) && slices.Contains(kinds, reported) && fault.CodeOf(err) == fault.DriverUnavailable {
		m.note("mint %q is refused", kinds)
		return // nobody can check the step
	}
	if err != nil {
		m.fatal(rt, "mint: %v\n%s", err, b.String())
	}
	m.kinds, m.uris = kinds, nil
	for _, item := range reply.Items {
		m.uris = append(m.uris, item.URI)
	}
	m.note("mint %q", m.kinds)
}

func (m *model) begin(rt *rapid.T) {
	if len(m.runs) > 1 && rapid.IntRange(0, 2).Draw(rt, "another run") > 0 {
		rt.Skip("enough runs")
	}
	server := rapid.IntRange(0, 1).Draw(rt, "server")
	round, err := m.servers[server].Begin(context.Background(), m.caller, api.BeginRequest{URI: m.uris[0]})
	if err != nil || round.Reply == nil {
		m.fatal(rt, "begin: %+v, %v", round, err)
	}
	r := modelRun{
		id: run.ID(round.Reply.RunID), uris: m.uris, kinds: m.kinds, state: run.Open, nonce: round.Reply.Challenge.Nonce,
		solvedBy: map[string]int{}, replaced: map[string]bool{}, recorded: map[string]recordedReply{}, begun: map[string]string{}, decided: map[string]int{},
	}
	m.note("begin run %d on server %d: %s", len(m.runs), server, round.Reply.ErrorCode)
	branches := r.shows(m.conditions(), result{reply: round.Reply}, "")
	if branches[0].why != "" {
		m.fatal(rt, "begin: %s", branches[0].why)
	}
	m.runs = append(m.runs, r)
}

func (m *model) conditions() conditions {
	m.deeds.mu.Lock()
	defer m.deeds.mu.Unlock()
	return conditions{now: m.machine.Source.Wall(), broken: m.fakes.knob(reported), dies: m.deeds.dies}
}

// do makes a call as a client does.
func (m *model) do(c call, r modelRun) (got result) {
	ctx, e, who := context.Background(), m.servers[c.server], m.caller
	switch c.by {
	case "stranger":
		who.Principal, who.Space = c.by, "user:test:"+c.by
	case "colleague":
		who.Principal = c.by // in the same space
	}
	var round director.Round
	switch c.what {
	case "next":
		var solution json.RawMessage
		if c.solution != "" {
			solution = json.RawMessage(c.solution)
		}
		round, got.err = e.Next(ctx, who, api.NextRequest{URI: r.uris[min(r.step, len(r.uris)-1)], RunID: string(r.id), Solution: solution})
	case "resume":
		round, got.err = e.Begin(ctx, who, api.BeginRequest{SessionID: string(r.id)})
	case "answer":
		content := fmt.Sprintf(`{"action":%q,"content":{"ok":true,"confirmation":"approved","marker":%q}}`, c.action, c.marker)
		round, got.err = e.Continue(ctx, who, director.Continuation{Run: r.id, Seq: c.seq, Result: json.RawMessage(content)})
	case "attest":
		var a api.AttestReply
		a, got.err = e.Attest(ctx, who, api.AttestRequest{URI: r.uris[0], RunID: string(r.id), Outcome: c.outcome, Message: "m"})
		got.attest = &a
	case "abandon":
		_, got.err = e.Abandon(ctx, who, r.id, "no need")
	case "redact":
		_, got.err = e.Redact(ctx, who, archive.RedactInput{Run: r.id, Step: c.step, Reason: "private"})
	case "decide":
		_, got.err = e.Decide(ctx, who, director.DecideInput{Run: r.id, Happened: c.happened, By: "operator", Reason: "looked"})
	}
	got.reply, got.ask = round.Reply, round.Ask
	return got
}

// draw draws a call on a run that makes sense, or is a mistake that clients make.
func (m *model) draw(rt *rapid.T, i int) call {
	r := m.runs[i]
	c := call{server: rapid.IntRange(0, 1).Draw(rt, "server")}
	if rapid.IntRange(0, 15).Draw(rt, "whose") == 0 {
		c.by = rapid.SampledFrom([]string{"stranger", "colleague"}).Draw(rt, "by")
	}
	c.what = rapid.SampledFrom([]string{
		"next", "next", "next", "next", "next", "next", "next", "next", "next", "next", "next", "next",
		"answer", "answer", "answer", "answer", "resume", "resume", "redact", "decide", rare(rt, "attest"), rare(rt, "abandon"),
	}).Draw(rt, "what")
	m.markers++
	c.marker = fmt.Sprintf("m%d", m.markers)
	switch c.what {
	case "next":
		m.drawSolution(rt, i, &c)
	case "answer":
		seqs := []int64{r.seq + 7}
		if q := r.question; q != nil {
			seqs = append([]int64{q.seq, q.seq, q.seq}, q.earlier...)
		} else if r.seq > 0 {
			seqs = append(seqs, r.seq)
		}
		c.seq = rapid.SampledFrom(seqs).Draw(rt, "seq")
		c.action = rapid.SampledFrom([]string{"accept", "accept", "accept", "decline", "cancel"}).Draw(rt, "action")
	case "attest":
		c.outcome = rapid.SampledFrom([]string{"success", "failure"}).Draw(rt, "outcome")
	case "redact":
		c.step = rapid.IntRange(1, len(r.kinds)).Draw(rt, "step")
	}
	return c
}

// rare is the call that ends a run, or another one most of the time.
func rare(rt *rapid.T, what string) string {
	if rapid.IntRange(0, 3).Draw(rt, what) == 0 {
		return what
	}
	return "next"
}

func (m *model) drawSolution(rt *rapid.T, i int, c *call) {
	r := m.runs[i]
	c.nonce, c.hash, c.supplied, c.ok = r.nonce, r.proofHash(), true, true
	if !r.complete() {
		c.typ = r.kind()
	}
	if c.typ == free {
		c.typ = "comment"
	}
	used := slices.Sorted(keysOf(r.solvedBy, r.replaced))
	switch how := rapid.SampledFrom([]string{
		"right", "right", "right", "right", "placeholder", "placeholder", "nothing", "wrong evidence", "no nonce", "no such nonce", "used nonce", "used nonce",
		"another run's nonce", "wrong hash", "no hash", "another type", "malformed",
	}).Draw(rt, "how"); how {
	case "placeholder":
		c.supplied = false
	case "nothing":
		*c = call{what: "next", by: c.by, server: c.server}
		return
	case "wrong evidence":
		c.ok = false
	case "no nonce":
		c.nonce = ""
	case "no such nonce":
		c.nonce = strings.Repeat("f", 56)
	case "used nonce":
		if len(used) > 0 {
			c.nonce = rapid.SampledFrom(used).Draw(rt, "nonce")
		}
	case "another run's nonce":
		if other := m.runs[rapid.IntRange(0, len(m.runs)-1).Draw(rt, "other")]; other.id != r.id && other.nonce != "" {
			c.nonce, c.elsewhere = other.nonce, true
		}
	case "wrong hash":
		c.hash = strings.Repeat("0", 64)
	case "no hash":
		c.hash = ""
	case "another type":
		c.typ = "quoted"
	case "malformed":
		c.malformed, c.solution = true, `["not an object"]`
		return
	}
	c.solution = solutionOf(*c)
}

func solutionOf(c call) string {
	fields := map[string]any{"type": c.typ}
	if c.nonce != "" {
		fields["nonce"] = c.nonce
	}
	if c.hash != "" {
		fields["proof_hash"] = c.hash
	}
	if c.supplied {
		fields[c.typ] = map[string]any{"ok": c.ok, "marker": c.marker}
	}
	b, _ := json.Marshal(fields) // strings and booleans
	return string(b)
}

// shortened is full, or short with -short, as the race detector runs.
func shortened(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}
