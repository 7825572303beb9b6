package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/usecases"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The drivers below are small real ones: they judge what they are given. Their
// knobs make a driver fail, take no challenge any more (strict), accept without
// evidence (hasty), compare evidence and step (compares) or decline without anybody having declined (rash).

// deed is the challenge driver of types whose evidence is {"ok": bool, ...}.
type deed struct {
	person bool
	fail   func(name string) error
	knob   func(name string) bool
	name   string
}

func (d deed) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	var c map[string]json.RawMessage
	if err := json.Unmarshal(req.Challenge, &c); err != nil {
		return driver.ValidateResult{}, err
	}
	var res driver.ValidateResult
	if d.knob("strict " + d.name) {
		res.Diagnostics = append(res.Diagnostics, driver.Problem("/"+d.name, "is no longer taken"))
	}
	if strings.Contains(string(c[d.name]), `"bad"`) {
		res.Diagnostics = append(res.Diagnostics, driver.Problem("/"+d.name+"/bad", "is bad"))
	}
	res.Templates = []driver.Template{{Pointer: "/" + d.name, Escaping: driver.EscapeText}}
	if d.name == "quoted" {
		res.Templates[0].Escaping = driver.EscapeShell
	}
	return res, d.fail(d.name)
}

func (d deed) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if err := d.fail(d.name); err != nil {
		return driver.AdvanceResult{}, err
	}
	if d.knob("hasty " + d.name) {
		return driver.Accept(json.RawMessage(`{}`), nil), nil
	}
	if d.knob("rash " + d.name) {
		return driver.Decline("because"), nil
	}
	if in, odd := d.oddInput(); odd && len(req.Answers) == 0 {
		return driver.Need(in), nil
	}
	a, ok := req.Answer("evidence")
	if !ok {
		schema := `{"type":"object"}`
		if d.knob("has a form " + d.name) {
			schema = `{"type":"object","properties":{"ok":{"type":"boolean"},"note":{"type":"string"}},"required":["ok"]}`
		}
		if d.knob("asks yes or no " + d.name) {
			schema = `{"type":"object","properties":{"confirmation":{"type":"string","enum":["approved","rejected"]}},"required":["confirmation"]}`
		}
		var c map[string]json.RawMessage
		if err := json.Unmarshal(req.Challenge, &c); err != nil {
			return driver.AdvanceResult{}, err
		}
		return driver.Need(driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: d.name, Display: c[d.name], Person: d.person, Action: stated(c[d.name]),
			Description: "do " + d.name, User: "please do " + string(c[d.name]), Schema: json.RawMessage(schema),
		}), nil
	}
	var v struct {
		OK           bool   `json:"ok"`
		Confirmation string `json:"confirmation"`
		Text         string `json:"text"` // what is compared with the step
		More         bool   `json:"more"` // than was approved
	}
	if err := json.Unmarshal(a.Value, &v); err != nil {
		return driver.Reject("MISSING_FIELD", err.Error()), nil
	}
	if a, ok := req.Answer("alike"); d.knob("compares "+d.name) && (!ok || len(a.Value) == 0) {
		return driver.Need(driver.Input{
			ID: "alike", Kind: driver.KindSimilarity, Type: d.name,
			Similarity: &driver.Similarity{Text: v.Text, Reference: req.Step.Text},
		}), nil
	}
	if v.Confirmation == "rejected" {
		return driver.Decline("rejected"), nil
	}
	if v.More && req.Approved {
		return driver.Reject("COMMAND_FAILED", "it is more than was approved"), nil
	}
	if !v.OK && v.Confirmation == "" {
		var c struct {
			Required *bool `json:"required"`
		}
		if err := json.Unmarshal(req.Challenge, &c); err != nil || c.Required == nil || *c.Required {
			return driver.Reject("COMMAND_FAILED", "it is not ok"), err
		}
		return driver.Accept(json.RawMessage(`{"passed":false,"failure":"it is not ok"}`), a.Value), nil
	}
	return driver.Accept(json.RawMessage(`{"seen":true}`), a.Value), nil
}

// oddInput is what drivers ask for that try to get around an approval.
func (d deed) oddInput() (driver.Input, bool) {
	in := driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: d.name, Schema: json.RawMessage(`{"type":"object"}`)}
	switch {
	case d.knob("claims a person " + d.name):
		in.Person = true
	case d.knob("takes the approval's id " + d.name):
		in.ID = driver.KindApproval
	case d.knob("asks for another kind " + d.name):
		in.Kind = "rumour"
	default:
		return in, false
	}
	return in, true
}

type agent struct{ fail func(string) error }

func (g agent) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	c := driver.AgentChallenge{Type: req.Input.Type, Description: req.Input.Description, Display: req.Input.Display}
	if req.Input.Kind == driver.KindApproval {
		c.Type, c.Display = "user_input", nil
	}
	return driver.AskAgent(c), g.fail("agent")
}

func (g agent) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	var s map[string]json.RawMessage
	if err := json.Unmarshal(req.Raw, &s); err != nil {
		return driver.NotAnAnswer(driver.Problem("", err.Error())), nil
	}
	key := req.Input.Type
	switch req.Input.Kind {
	case driver.KindApproval:
		key = "user_input"
	case driver.KindFiles:
		key = "evidence"
	}
	if len(s[key]) == 0 {
		return driver.LeftOut("no " + key), nil
	}
	if req.Input.Kind == driver.KindApproval && strings.Contains(string(s[key]), "rejected") {
		return driver.PersonDeclined("rejected"), nil
	}
	return driver.Answered(s[key], driver.AgentReported), g.fail("agent")
}

// asking is a capability driver that asks the client with a method.
type asking struct {
	name, method string
	provenance   driver.Provenance
	review       bool
	fail         func(string) error
	knob         func(string) bool
}

func (k asking) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	if k.knob != nil && k.knob("asked in vain") {
		return driver.AskedInVain("the endpoint is busy"), nil
	}
	if k.knob != nil && k.knob("not asked") {
		return driver.CannotRender("there is no endpoint"), nil
	}
	if k.review && req.Input.Kind == driver.KindApproval {
		return driver.ReviewedByClient("the client shows every request"), nil
	}
	if k.byURL(req) {
		params, err := json.Marshal(map[string]any{"mode": "url", "message": req.Input.Description, "url": req.Links.Approval})
		asked := driver.AskClient(k.method, params)
		asked.How = driver.ByPage
		return asked, err
	}
	params, err := json.Marshal(map[string]any{"message": req.Input.Description, "user": req.Input.User, "problems": len(req.Diagnostics)})
	if err != nil {
		return driver.RenderResult{}, err
	}
	asked := driver.AskClient(k.method, params)
	if req.Input.Kind == driver.KindApproval {
		asked.How = driver.ByForm
	}
	return asked, k.fail(k.name)
}

// byURL: as the shipped driver, it sends people to the page where the client
// has no forms, or forms do not count.
func (k asking) byURL(req driver.RenderRequest) bool {
	return k.method == "elicitation/create" && req.Input.Kind == driver.KindApproval && req.Client.ElicitationURL &&
		(!req.Client.ElicitationForm || !slices.Contains(req.How, driver.ByForm)) && slices.Contains(req.How, driver.ByPage)
}

func (k asking) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if err := k.fail("reading " + k.name); err != nil {
		return driver.InterpretResult{}, err
	}
	if req.ClientError != nil {
		return driver.CannotInterpret(req.ClientError.Message), nil
	}
	var r struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(req.Raw, &r); err != nil {
		return driver.NotAnAnswer(driver.Problem("", err.Error())), nil
	}
	if r.Action == "" {
		return driver.NotAnAnswer(driver.Problem("", "no action")), nil
	}
	if r.Action == "cancel" {
		return driver.PersonDismissed("the form was closed"), nil
	}
	if r.Action != "accept" || strings.Contains(string(r.Content), "rejected") {
		return driver.PersonDeclined("the person chose " + r.Action), nil
	}
	if req.How == driver.ByPage && req.Client.Name != "reads forms" {
		return driver.LeftOut("the answer comes from the page"), nil
	}
	return driver.Answered(r.Content, k.provenance), nil
}

// page leaves approvals to the approval page.
type page struct{}

func (page) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	if req.Links.Approval == "" {
		return driver.CannotRender("no page"), nil
	}
	return driver.AnswerElsewhere("Show the link."), nil
}

func (page) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("not through the client"), nil
}

type fakeDrivers struct {
	within sync.Map // the time that the capability driver was last called with, by name
	limits sync.Map // of the operator, by name

	mu      sync.Mutex // guards failing
	failing map[string]bool
}

func (d *fakeDrivers) knob(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failing[name]
}

func (d *fakeDrivers) fail(name string) error {
	if d.knob(name) {
		return fmt.Errorf("driver %s is broken", name)
	}
	return nil
}

func (d *fakeDrivers) set(name string, failing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing[name] = failing
}

var kinds = []string{driver.KindEvidence, driver.KindApproval, driver.KindFiles, driver.KindRunInput, driver.KindAcceptance, driver.KindJudge}

var descriptors = map[string]driver.Descriptor{
	"shell":       {Name: "shell", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"shell"}, Effect: driver.EffectPure},
	"quoted":      {Name: "quoted", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"quoted"}, Effect: driver.EffectPure},
	"mcp":         {Name: "mcp", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"mcp"}, Effect: driver.EffectPure},
	"user_input":  {Name: "user_input", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"user_input"}, Effect: driver.EffectPure, Approval: driver.ApprovalUser},
	"comment":     {Name: "comment", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"comment"}, Effect: driver.EffectPure},
	"agent":       {Name: "agent", Version: "1.0.0", Role: driver.RoleCapability, Handles: kinds, Effect: driver.EffectPure, Features: []string{driver.FeatureAgent}, AnswersBy: []string{driver.ByAgent}},
	"elicitation": {Name: "elicitation", Version: "1.0.0", Role: driver.RoleCapability, Handles: kinds, Effect: driver.EffectReads, Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedElicitation}, AnswersBy: []string{driver.ByForm, driver.ByPage}},
	"page":        {Name: "page", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindApproval}, Effect: driver.EffectPure, Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedApprovalPage}, AnswersBy: []string{driver.ByPage}},
	"roots":       {Name: "roots", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindFiles}, Effect: driver.EffectReads, Features: []string{driver.FeaturePartial}},
	"sampling":    {Name: "sampling", Version: "1.0.0", Role: driver.RoleCapability, Handles: kinds, Effect: driver.EffectReads, Features: []string{driver.FeatureClientReview, driver.FeatureModel}, Needs: []string{driver.NeedSampling}, AnswersBy: []string{driver.ByReview}},
}

func (d *fakeDrivers) Describe(name string) (driver.Descriptor, string, bool) {
	desc, ok := descriptors[name]
	return desc, "sha-of-" + name, ok
}

func (d *fakeDrivers) Isolation(string) string { return "namespace" }

// limit is what the operator lets a driver vouch for.
type limit struct {
	strongest driver.Provenance
	noPerson  bool
}

func (d *fakeDrivers) Limits(name string) (driver.Provenance, bool) {
	v, _ := d.limits.Load(name)
	l, _ := v.(limit)
	return l.strongest, !l.noPerson
}

func (d *fakeDrivers) Warm(context.Context, ...string) {}

func (d *fakeDrivers) Challenge(name string) (driver.Challenge, bool) {
	desc, ok := descriptors[name]
	return deed{person: name == "user_input", name: name, fail: d.fail, knob: d.knob}, ok && desc.Role == driver.RoleChallenge
}

func (d *fakeDrivers) Capability(name string, within time.Duration) (driver.Capability, bool) {
	d.within.Store(name, within)
	switch name {
	case "agent":
		return agent{fail: d.fail}, true
	case "roots":
		return looking{knob: d.knob}, true
	case "elicitation":
		return asking{name: name, method: "elicitation/create", provenance: driver.ClientAttested, fail: d.fail}, true
	case "page":
		return page{}, true
	case "sampling":
		return asking{name: name, method: "sampling/createMessage", provenance: driver.ModelGenerated, review: true, fail: d.fail, knob: d.knob}, true
	}
	return nil, false
}

// catalog is a set of drivers beside the usual ones of a world.
type catalog struct {
	*fakeDrivers
	challenges   map[string]driver.Challenge
	capabilities map[string]driver.Capability
	descriptors  map[string]driver.Descriptor
}

func (c catalog) Describe(name string) (driver.Descriptor, string, bool) {
	d, ok := c.descriptors[name]
	return d, "sha-of-" + name + d.Version, ok
}

func (c catalog) Challenge(name string) (driver.Challenge, bool) {
	if _, ok := c.descriptors[name]; !ok {
		return nil, false
	}
	if d, ok := c.challenges[name]; ok {
		return d, true
	}
	return c.fakeDrivers.Challenge(name)
}

func (c catalog) Capability(name string, within time.Duration) (driver.Capability, bool) {
	if _, ok := c.descriptors[name]; !ok {
		return nil, false
	}
	if d, ok := c.capabilities[name]; ok {
		return d, true
	}
	return c.fakeDrivers.Capability(name, within)
}

// describes gives the world a catalog with these drivers, others or described otherwise.
func (w *world) describes(described ...driver.Descriptor) catalog {
	w.catalog = catalog{
		fakeDrivers: w.drivers, challenges: map[string]driver.Challenge{}, capabilities: map[string]driver.Capability{}, descriptors: maps.Clone(descriptors),
	}
	for _, d := range described {
		w.catalog.descriptors[d.Name] = d
	}
	return w.catalog
}

// setupOf is a setup in which challenges are judged by these drivers.
func (w *world) setupOf(challenges map[string]driver.Challenge, described ...driver.Descriptor) drivers.Setup {
	maps.Copy(w.describes(described...).challenges, challenges)
	return w.small()
}

// smallTree asks a person where there is a driver for that, else the agent.
const smallTree = `
defaults: {missing_type: comment, no_challenge_type: comment}
challenges:
  - match: {}
    evidence: [ELICIT{via: agent}]
inputs:
  approval: [{via: agent}]
  run_input: [{via: agent}]
  files: [{via: agent}]
`

// small is the catalog under the small tree.
func (w *world) small() drivers.Setup {
	w.t.Helper()
	elicit := ""
	if _, ok := w.catalog.descriptors["elicitation"]; ok {
		elicit = "{via: elicitation, when: client.elicitation.form}, "
	}
	return w.under(strings.ReplaceAll(smallTree, "ELICIT", elicit))
}

// under is the catalog under a tree.
func (w *world) under(tree string) drivers.Setup {
	w.t.Helper()
	return drivers.Setup{Drivers: w.catalog, Tree: compile(w.t, tree, w.catalog.descriptors)}
}

func compile(t testing.TB, tree string, all map[string]driver.Descriptor) *decision.Tree {
	t.Helper()
	compiled, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(tree)}, slices.Collect(maps.Values(all)))
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// ruled puts the rules over what the world has otherwise, from line 2 on.
func (w *world) ruled(s drivers.Setup, entries ...string) drivers.Setup {
	w.t.Helper()
	text := "rules:\n  - " + strings.Join(entries, "\n  - ") + "\n"
	if len(entries) == 0 {
		text = ""
	}
	var err error
	if s.Rules, err = rules.Compile(rules.Source{Name: "kairos.yaml", YAML: []byte(text), Realm: s.Realm}, slices.Collect(maps.Values(w.catalog.descriptors))); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// shipped is the tree that is shipped, where evidence is obtained by other routes first.
func shipped(first ...string) string {
	routes := "evidence:\n"
	for _, route := range first {
		routes += "      - " + route + "\n"
	}
	return strings.ReplaceAll(string(decision.Default().YAML), "evidence:\n", routes)
}

// stated is the action that a challenge of a test states; empty: none.
func stated(challenge json.RawMessage) json.RawMessage {
	var c struct {
		Action json.RawMessage `json:"action"`
	}
	_ = json.Unmarshal(challenge, &c) // states none, then
	return c.Action
}

// looking is a capability driver that says of files what its knobs say: it asks
// a client for its roots, and without one looks only where they are open.
type looking struct{ knob func(string) bool }

func (l looking) seen() (*driver.Answer, error) {
	value := `{"passed":true,"files":[{"path":"x","check":"exists","passed":true,"sha256":"aa"}]}`
	switch {
	case l.knob("files are missing"):
		value = `{"passed":false,"message":"x: there is no such file","files":[{"path":"x","check":"exists","passed":false}]}`
	case l.knob("roots says nothing"):
		value = `{"files":[]}`
	}
	return &driver.Answer{Value: json.RawMessage(value), Provenance: driver.ServerObserved}, nil
}

func (l looking) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	if req.Client.Roots {
		return driver.AskClient("roots/list", json.RawMessage(`{}`)), nil
	}
	if !l.knob("roots are open") {
		return driver.CannotRender("no roots"), nil
	}
	a, err := l.seen()
	return driver.RenderResult{Answer: a}, err
}

func (l looking) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if req.ClientError != nil {
		return driver.CannotInterpret(req.ClientError.Message), nil
	}
	a, err := l.seen()
	return driver.InterpretResult{Answer: a}, err
}

// machine is a machine's time of which a little passes with every look at it.
type machine struct{ *clocktest.Source }

func newMachine() machine {
	return machine{clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))}
}

func (m machine) Wall() time.Time {
	m.Pass(time.Millisecond)
	return m.Source.Wall()
}

// world is an engine on a real store with the drivers above.
type world struct {
	Engine
	t       testing.TB
	store   *sqlitetest.Store
	drivers *fakeDrivers
	setups  *setups
	machine machine
	caller  access.Caller
	waits   *api.StepReply // the last reply with a link to answer; see says
	sent    string         // the last solution
	another func() Engine  // of another server with the same database

	catalog catalog // where describes was called
	doer    *doer
	seer    *seer
}

// choices are what a test may change about its world.
type choices struct {
	usecases.Options
	Settings decision.ConfigFacts
	How      []string // the ways of approving that count; nil: the default
	Realm    string   // of people who log in; empty: nobody can
}

// setups gives out a setup that may be replaced, and fails the test when a use
// case does not release exactly once what it holds.
type setups struct {
	t testing.TB

	mu      sync.Mutex // guards the fields below
	present drivers.Setup
	held    int // now
	holds   int // ever
}

func newSetups(t testing.TB, s drivers.Setup) *setups {
	u := &setups{t: t, present: s}
	t.Cleanup(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.held != 0 {
			t.Errorf("%d setups are still held after the test", u.held)
		}
	})
	return u
}

func (u *setups) Hold() (drivers.Setup, func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held++
	u.holds++
	released := false
	return u.present, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if released {
			u.t.Error("a setup was released twice")
		}
		released = true
		u.held--
	}
}

// count is how often a setup was held so far.
func (u *setups) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.holds
}

func (u *setups) replace(s drivers.Setup) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.present = s
}

func newWorld(t testing.TB, change func(*choices)) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kairos.db")
	fresh, err := freshDatabase()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fresh, 0o600); err != nil {
		t.Fatal(err)
	}
	return worldOn(t, path, change)
}

// freshDatabase is a database with nothing but the built-in protocols. Making
// it anew for each of a thousand worlds would take minutes with the race detector.
var freshDatabase = sync.OnceValues(func() (db []byte, err error) {
	dir, err := os.MkdirTemp("", "kairos-fresh-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "kairos.db")
	log := slog.New(slog.DiscardHandler)
	store, err := sqlitetest.Open(path, log)
	if err != nil {
		return nil, err
	}
	tree, err := compiledTree()
	if err != nil {
		return nil, err
	}
	setup := driverstest.Fixed(drivers.Setup{Drivers: &fakeDrivers{failing: map[string]bool{}}, Tree: tree})
	e := newEngine(engineStore(store), setup, usecases.Options{Options: director.Options{Clock: clock.New(newMachine())}}, log)
	_, err = e.Spaces(context.Background(), access.Caller{Principal: "me", Space: "user:test:me"}, api.SpacesRequest{})
	if err := errors.Join(err, e.Close(), store.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// compiledTree is the shipped tree with the drivers of these tests. It never changes.
var compiledTree = sync.OnceValues(func() (*decision.Tree, error) {
	return decision.Compile(decision.Default(), slices.Collect(maps.Values(descriptors)))
})

// Engine is all use cases as one value.
type Engine struct {
	*director.Engine
	*library.Library
	*archive.Archive
	*acceptances.Acceptances
	*offers.Offers
}

func newEngine(store usecases.Store, setups drivers.Setups, opt usecases.Options, log *slog.Logger) Engine {
	u := usecases.New(store, setups, opt, log)
	return Engine{u.Runs, u.Library, u.Archive, u.Acceptances, u.Offers}
}

// asAPerson is how long people take to answer in these tests.
var asAPerson = &run.Delay{After: 3 * time.Second}

// Continue takes an answer as a person gives it, unless the test says how long it took.
func (e Engine) Continue(ctx context.Context, c access.Caller, in director.Continuation) (director.Round, error) {
	if in.Delay == nil {
		in.Delay = asAPerson
	}
	return e.Engine.Continue(ctx, c, in)
}

func (e Engine) Abandon(ctx context.Context, c access.Caller, id run.ID, reason string) (run.Summary, error) {
	return e.Engine.Abandon(ctx, c, id, reason)
}

func engineStore(s *sqlitetest.Store) usecases.Store {
	return usecases.Store{
		Protocols: s, Writer: s, Versions: s, Searcher: outlines.New(s, meaning.Default, slog.New(slog.DiscardHandler)), Vectors: s, Ratings: s, Runs: s, Index: s, Archive: s, History: s, Eraser: s, Declines: s, Acceptances: s,
	}
}

// worldOn is a world with this database.
func worldOn(t testing.TB, path string, change func(*choices)) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := sqlitetest.Open(path, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	tree, err := compiledTree()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: store, drivers: &fakeDrivers{failing: map[string]bool{}}, machine: newMachine()}
	opt := choices{Options: usecases.Options{Options: director.Options{
		SolutionFields: []string{"shell", "mcp", "user_input", "comment"}, Keys: func() ([][32]byte, error) { return [][32]byte{{1}}, nil },
	}}}
	if change != nil {
		change(&opt)
	}
	w.setups = newSetups(t, drivers.Setup{Drivers: w.drivers, Tree: tree, Settings: opt.Settings, How: opt.How, Realm: opt.Realm})
	w.another = func() Engine {
		opt.Clock = clock.New(w.machine)
		e := newEngine(engineStore(store), w.setups, opt.Options, log)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	w.Engine = w.another()
	t.Cleanup(w.knowsItsRuns)
	w.caller = access.Caller{Principal: "me", Space: "user:test:me", Connection: "c1", CanWait: time.Minute}
	return w
}

// knowsItsRuns checks after every test that the engine's runs are what the store
// tells of them: it keeps them between calls.
func (w *world) knowsItsRuns() {
	live, _, err := w.store.AllRuns(context.Background(), archive.Query{Principal: w.caller.Principal, Spaces: w.caller.Spaces(), Live: true, Limit: 1000})
	if err != nil {
		return // the test has closed or broken the store
	}
	for _, s := range live {
		known, err := w.Run(context.Background(), s.ID)
		if err != nil {
			w.t.Errorf("read run %s: %v", s.ID, err)
			continue
		}
		stored, err := w.stored(s.ID)
		if err != nil {
			w.t.Errorf("read run %s from the store: %v", s.ID, err)
			continue
		}
		if diff := cmp.Diff(inJSON(w.t, stored), inJSON(w.t, known)); diff != "" {
			w.t.Errorf("the engine knows run %s differently from the store (-stored +known):\n%s", s.ID, diff)
		}
	}
}

// told is a run with its past as JSON tells it.
func inJSON(t testing.TB, r run.Run) string {
	t.Helper()
	b, err := json.MarshalIndent(struct {
		Run  run.Run
		Past run.Past
	}{r, r.Past}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (w *world) mint(doc string) []string {
	w.t.Helper()
	reply, err := w.Mint(context.Background(), w.caller, api.MintRequest{Document: doc, ModelID: "test", Force: true})
	if err != nil {
		w.t.Fatalf("Mint: %v", err)
	}
	uris := make([]string, len(reply.Items))
	for i, item := range reply.Items {
		uris[i] = item.URI
	}
	return uris
}

func (w *world) begin(uri string) *api.StepReply { return w.reply(w.beginRound(uri, "")) }

func (w *world) beginRound(uri, input string) director.Round {
	w.t.Helper()
	r, err := w.Begin(context.Background(), w.caller, api.BeginRequest{URI: uri, Input: json.RawMessage(input)})
	if err != nil {
		w.t.Fatalf("Begin: %v", err)
	}
	return r
}

func (w *world) next(uri, solution string) *api.StepReply {
	return w.reply(w.nextRound(uri, solution))
}

func (w *world) nextRound(uri, solution string) director.Round {
	w.t.Helper()
	w.sent = solution
	r, err := w.Next(context.Background(), w.caller, api.NextRequest{URI: uri, Solution: json.RawMessage(solution)})
	if err != nil {
		w.t.Fatalf("Next: %v", err)
	}
	return r
}

func (w *world) answer(a *director.Ask, result string) director.Round {
	w.t.Helper()
	r, err := w.Continue(context.Background(), w.caller, director.Continuation{Run: a.Run, Seq: a.Seq, Result: json.RawMessage(result)})
	if err != nil {
		w.t.Fatalf("Continue: %v", err)
	}
	return r
}

func (w *world) reply(r director.Round) *api.StepReply {
	w.t.Helper()
	if r.Reply == nil {
		w.t.Fatalf("the round asks %+v, want a reply", r.Ask)
	}
	ordersNoLoop(w.t, *r.Reply, w.sent)
	return r.Reply
}

func (w *world) ask(r director.Round, method string) *director.Ask {
	w.t.Helper()
	if r.Ask == nil {
		w.t.Fatalf("the round replies %+v, want a question", *r.Reply)
	}
	if r.Ask.Method != method {
		w.t.Fatalf("the question is %s, want %s", r.Ask.Method, method)
	}
	return r.Ask
}

// Evidence of agents and answers of clients.
const (
	works    = `{"ok":true}`
	broken   = `{"ok":false}`
	approves = `{"confirmation":"approved"}`
	yes      = `{"action":"accept","content":{"confirmation":"approved"}}`
	no       = `{"action":"decline"}`
	closed   = `{"action":"cancel"}`
	sampled  = `{"action":"accept","content":{"ok":true}}`
)

var formClient = driver.Client{ElicitationForm: true}

// solve is a solution with evidence for the challenge that a reply shows.
func solve(r *api.StepReply, evidence string) string { return solveAs(r, r.Challenge.Type, evidence) }

func solveAs(r *api.StepReply, typ, evidence string) string {
	return fmt.Sprintf(`{"type":%q,"nonce":%q,"proof_hash":%q,%q:%s}`, typ, r.Challenge.Nonce, r.Challenge.ProofHash, typ, evidence)
}

func wrongHash(r *api.StepReply) string {
	return strings.Replace(solve(r, works), r.Challenge.ProofHash, "another", 1)
}

// allWays are the ways of approving of all drivers.
var allWays = append(drivers.DefaultHow(), driver.ByAgent)

func trustsAgent(o *choices) { o.How = allWays }

func runOf(r *api.StepReply) run.ID { return run.ID(r.RunID) }

func placeholder(r *api.StepReply) string {
	return fmt.Sprintf(`{"type":%q,"nonce":%q}`, r.Challenge.Type, r.Challenge.Nonce)
}

func (w *world) code(r *api.StepReply, want string) {
	w.t.Helper()
	if r.ErrorCode != want {
		w.t.Fatalf("error_code = %q (%s), want %q", r.ErrorCode, r.Message, want)
	}
}

func (w *world) at(r *api.StepReply, uri string) {
	w.t.Helper()
	if r.CurrentStep.URI != uri {
		w.t.Fatalf("current_step = %s (%s %s), want %s", r.CurrentStep.URI, r.ErrorCode, r.Message, uri)
	}
}

func (w *world) redact(id run.ID, step int) (archive.RedactReply, error) {
	return w.Redact(w.t.Context(), w.caller, archive.RedactInput{Run: id, Step: step, Reason: "a customer asked"})
}

// told is everything that the store holds of a run, as text.
func (w *world) told(id run.ID) string {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	line, err := w.Timeline(w.t.Context(), w.caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := json.Marshal([]any{w.state(id), events, line})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) verified(id run.ID) {
	w.t.Helper()
	if err := w.state(id).Verify(); err != nil {
		w.t.Errorf("Verify = %v, want the chain to hold", err)
	}
}
