// Package app wires a server: stores, drivers, engine and transports. It is the
// only package of the command that knows which of each there are.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/metrics"
	"github.com/kairos-mcp/kairos/core/oidc"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/core/setup"
	"github.com/kairos-mcp/kairos/core/tokens"
	"github.com/kairos-mcp/kairos/core/usecases"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Options say which configuration an app is wired from, and what for.
type Options struct {
	config.Source
	Version string // of this program
	// Dev relaxes what protects an operator and only hinders the author of a driver.
	Dev bool
	// Measured: what is done is counted and shown, unless metrics are off.
	Measured bool
	// Creates: a database that does not exist is made, and people are told. Commands that
	// only read make none.
	Creates bool
	// Stdout is where the audit log goes if it is written to stdout; nil: to stderr.
	Stdout io.Writer
	// Files: clients work in FilesSpace instead of the operator's own space.
	Files bool
	// driversDir is the drivers folder of a server that runs already, whatever
	// is configured now. The default is the configured one.
	driversDir string
}

// App is a wired server: everything but a transport.
type App struct {
	Version string // of this program
	Config  config.Config
	log     *slog.Logger
	logged  *operations.Log // what was logged lately
	Audit   *audit.Log
	clock   *clock.Clock
	host    *driverhost.Host
	setup   *setup.Current
	Store   *Database
	Index   *Index // of the protocols, or nil
	Tokens  *tokens.Tokens
	Logins  *logins.Logins
	// Provider is the identity provider; nil: none is configured.
	Provider *oidc.Provider
	Engine   *usecases.UseCases
	table    func() *meaning.Table // of word vectors; nil: none is used
	// handover writes the handover file; nil if there is none.
	handover *handover.Writer
	page     *approvalPage
	mainPort address // that is listened on
	// stopping gets, when the server begins to stop, how long it may take.
	stopping chan time.Duration
	working  working
	// stateKeys are read until that succeeds, and then never again: what a server seals with them it must be able to open.
	stateKeys func() ([][32]byte, error)
	changes   *changes // of protocols
	// measures counts what is done; may be nil.
	measures *metrics.Metrics
	// made are the spaces that operators made.
	made *madeSpaces
	// space that clients without a principal of their own work in.
	space string
}

// The one principal of this machine and its spaces. FilesSpace has the protocols
// that `kairos run` stored from files: they replace none of the same title in the
// space of the operator, and agents do not find them.
const (
	LocalPrincipal = "local"
	localSpace     = "user:local:operator"
	FilesSpace     = "space:local"
)

// Of names the principal whose something is, behind what is said of it; empty for LocalPrincipal.
func Of(principal string) string {
	if principal == "" || principal == LocalPrincipal {
		return ""
	}
	return ", of " + principal
}

// Caller is who the commands of this machine call as.
func (a *App) Caller() access.Caller {
	c := operatorOf(a.Version)
	c.Groups = a.made.all()
	return c
}

// operatorOf is the operator of this machine, who uses a program of that version.
func operatorOf(version string) access.Caller {
	return access.Caller{Principal: LocalPrincipal, Space: localSpace, Operator: true, Client: driver.Client{Name: "kairos", Version: version, Transport: "cli"}}
}

// RunCaller is Caller for commands about runs, which may be of protocols in
// FilesSpace.
func (a *App) RunCaller() access.Caller {
	c := a.Caller()
	c.Groups = append(slices.Clone(c.Groups), FilesSpace)
	return c
}

// open wires a server. It starts no process and touches no database; in dev
// mode drivers are run once to describe themselves.
func (s Options) open() (_ *App, err error) {
	c, err := s.Load()
	if err != nil {
		return nil, err
	}
	logged := new(operations.Log)
	log, err := c.Log.Logger(os.Stderr, logged)
	if err != nil {
		return nil, err
	}
	a := &App{Version: s.Version, Config: c, log: log, logged: logged, clock: clock.System(), page: new(approvalPage), changes: newChanges(), stopping: make(chan time.Duration, 1), stateKeys: cache.Once(c.Keys().State), space: localSpace}
	if s.Files {
		a.space = FilesSpace
	}
	if s.Measured && c.Metrics.Listen != config.MetricsOff {
		a.measures = metrics.New(s.Version, c.Metrics.Instance)
	}
	a.Audit = OpenAudit(c, cmp.Or(s.Stdout, io.Writer(os.Stderr)), a.measures, log)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Audit.Close())
		}
	}()
	a.host = driverhost.New(log, driverhost.Options{
		Confinement: Confinement(c, s.File), Observer: observer(a.measures, func(m *metrics.Metrics) driverhost.Observer { return m }),
	})
	s.driversDir = c.Drivers.Dir // by which `kairos driver` finds this server
	options := a.engineOptions()
	if c.Handover.Dir != "" {
		a.handover = handover.New(c.Handover.Dir, log)
		options.Handover = a.handover
	}
	if options.Embedder, err = Embedder(c.Embedding, observer(a.measures, func(m *metrics.Metrics) embedding.Observer { return m }), log); err != nil {
		return nil, errors.Join(err, a.host.Close())
	}
	a.table = tableOf(c.Embedding, log)
	options.Table = a.table
	options.SolutionFields = toolset.SolutionFields()
	if a.setup, err = setup.Open(a.host, s.desired, a.Audit, log); err != nil {
		return nil, errors.Join(err, a.host.Close())
	}
	if a.Store, a.Index, err = openStores(c, missing(s, c.Database), log); err != nil {
		return nil, errors.Join(err, a.setup.Close(), a.host.Close())
	}
	a.made = &madeSpaces{store: a.Store.Spaces, configured: config.Policy(c).Spaces, log: log}
	a.Tokens = tokens.New(a.Store.Tokens, a.Audit, a.clock, log)
	a.Logins = logins.New(a.Store.Logins, a.Audit, a.clock, log)
	if a.Provider, err = newProvider(c, a.clock, log); err != nil {
		return nil, errors.Join(err, a.setup.Close(), a.host.Close(), a.closeStores())
	}
	a.Engine = usecases.New(a.measuredStore(), a.setup, options, log)
	return a, nil
}

func (a *App) engineOptions() usecases.Options {
	c := a.Config
	return usecases.Options{
		Options: director.Options{
			ApprovalTTL: time.Duration(c.Approval.TTL), ApprovalURL: a.page.url, HasPage: a.page.offered, Names: c.Auth.Names,
			RequireComplete: c.Attest.RequireComplete, Budgets: c.Sampling.Budgets(), Keys: a.stateKeys, Audit: a.Audit, Clock: a.clock,
			Observer: observer(a.measures, func(m *metrics.Metrics) observe.Observer { return m }),
		},
		RunTTL: time.Duration(c.Run.TTL), RunKeep: time.Duration(*c.Run.Keep), DeclineTTL: time.Duration(*c.Approval.RememberDeclines),
		ScoreThreshold: c.Search.ScoreThreshold, SimilarThreshold: c.Search.SimilarThreshold,
		Changed: a.changed,
	}
}

// changed is called after protocols of a space were stored or deleted.
func (a *App) changed(space string) {
	a.changes.add(space)
	if a.Index != nil {
		a.Index.Feeder.Wake()
	}
}

// restartSettings are the settings that only a restart applies: open reads them
// once. Every reload reads the others again.
func restartSettings(c config.Config) map[string]any {
	return map[string]any{
		"database": c.Database, "keys_dir": c.KeysDir, "drivers.dir": c.Drivers.Dir, "drivers.watch": *c.Drivers.Watch, "drivers.isolation": c.Drivers.Isolation,
		"approval.ttl": c.Approval.TTL, "approval.remember_declines": c.Approval.RememberDeclines, "approval.listen": c.Approval.Listen,
		"run": c.Run, "handover": c.Handover, "sampling": c.Sampling.Budgets(), "attest": c.Attest,
		"qdrant": c.Qdrant.Plain(), "embedding": c.Embedding, "mcp": c.MCP, "http": c.HTTP, "replica": c.Replica, "metrics": c.Metrics,
		"admin": c.Admin, "log": c.Log, "audit": c.Audit, "auth": c.Auth, "oidc": c.OIDC, "spaces": c.Spaces, "operators": c.Operators,
	}
}

// close stops drivers, engine and store; the first error is the one that matters.
func (a *App) close() error {
	w := &a.working
	err := errors.Join(w.during("a reload", a.setup.Close), w.during("drivers", a.host.Close), w.during("ratings", a.Engine.Close), w.during("the use of tokens", a.Tokens.Close))
	if a.Provider != nil {
		err = errors.Join(err, w.during("the identity provider", a.Provider.Close))
	}
	if a.handover != nil {
		err = errors.Join(err, w.during("the handover file", a.handover.Close))
	}
	return errors.Join(err, w.during("stores", a.closeStores), w.during("the audit log", a.Audit.Close))
}

// errStillWorking: the process has to end although it is not done.
var errStillWorking = errors.New("calls or jobs did not end in time, and the server ends without them; what was acknowledged is stored")

// With opens a server, runs do on it and closes it again. A server that stops returns in
// time even if a call, a driver or a job never ends: then the process has to end.
func (s Options) With(ctx context.Context, do func(context.Context, *App) error) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- errors.Join(err, a.close()) }()
		err = do(ctx, a)
	}()
	return inTime(done, a.stopping, &a.working)
}

// inTime returns what is done, or an error once the time to stop is over, which names what
// still works.
func inTime(done <-chan error, stopping <-chan time.Duration, w *working) error {
	select {
	case err := <-done:
		return err
	case limit := <-stopping:
		select {
		case err := <-done:
			return err
		case <-time.After(limit):
			return fmt.Errorf("%w (still working: %s)", errStillWorking, w)
		}
	}
}

// challengeTypes are the types that the present challenge drivers handle.
func (a *App) challengeTypes() []string {
	var types []string
	for _, d := range a.setup.Descriptors() {
		if d.Role == driver.RoleChallenge {
			types = append(types, d.Handles...)
		}
	}
	return types
}

// capabilities are the pointers of those that the present drivers need of clients.
func (a *App) capabilities() (pointers []string) {
	for _, d := range a.setup.Descriptors() {
		for _, need := range d.Needs {
			if pointer, ok := driver.CapabilityPointer(need); ok && !slices.Contains(pointers, pointer) {
				pointers = append(pointers, pointer)
			}
		}
	}
	return pointers
}

// observer is what is measured as an observer. Where nothing is, it is nil, and does not
// merely hold a nil.
func observer[T any](measures *metrics.Metrics, as func(*metrics.Metrics) T) (none T) {
	if measures == nil {
		return none
	}
	return as(measures)
}

// measuredStore is the store that the engine calls.
func (a *App) measuredStore() usecases.Store {
	if a.measures == nil {
		return a.engineStore()
	}
	return a.measures.Store(a.engineStore())
}

// changes are the spaces whose protocols changed since somebody took them. Writers
// never wait for the clients that are notified.
type changes struct {
	some chan struct{} // has an element while there are any

	mu     sync.Mutex // guards the field below
	spaces map[string]bool
}

func newChanges() *changes {
	return &changes{some: make(chan struct{}, 1), spaces: map[string]bool{}}
}

func (c *changes) add(space string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spaces[space] = true
	select {
	case c.some <- struct{}{}:
	default:
	}
}

func (c *changes) take() (spaces []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for space := range c.spaces {
		spaces = append(spaces, space)
	}
	clear(c.spaces)
	return spaces
}

// working names what a server is doing, so that one that does not stop in time can say
// what it waits for. The zero value does nothing; it is safe for concurrent use.
type working struct {
	mu    sync.Mutex // guards names
	names []string   // of what has begun and not ended, in that order
}

// during runs do under a name.
func (w *working) during(name string, do func() error) error {
	w.mu.Lock()
	w.names = append(w.names, name)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.names, name)
		w.names = slices.Delete(w.names, i, i+1)
	}()
	return do()
}

// String lists the names, each once.
func (w *working) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, name := range w.names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}
