package library_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// knobs make drivers fail ("shell") and take no challenge any more ("strict shell").
type knobs map[string]bool

func (k knobs) set(name string, on bool) { k[name] = on }

// fakeDrivers are challenge drivers that only check challenges.
type fakeDrivers struct {
	drivers.Finder
	knobs
}

func (d fakeDrivers) Challenge(name string) (driver.Challenge, bool) {
	return checker{name: name, knobs: d.knobs}, true
}

type checker struct {
	driver.Challenge
	name string
	knobs
}

func (c checker) Validate(_ context.Context, req driver.ValidateRequest) (res driver.ValidateResult, err error) {
	var challenge map[string]json.RawMessage
	if err := json.Unmarshal(req.Challenge, &challenge); err != nil {
		return res, err
	}
	if c.knobs["strict "+c.name] {
		res.Diagnostics = append(res.Diagnostics, driver.Problem("/"+c.name, "is no longer taken"))
	}
	if strings.Contains(string(challenge[c.name]), `"bad"`) {
		res.Diagnostics = append(res.Diagnostics, driver.Problem("/"+c.name+"/bad", "is bad"))
	}
	res.Templates = []driver.Template{{Pointer: "/" + c.name, Escaping: driver.EscapeText}}
	if c.knobs[c.name] {
		err = fmt.Errorf("driver %s is broken", c.name)
	}
	return res, err
}

// world is a library on a real store.
type world struct {
	*library.Library
	t       testing.TB
	store   *sqlite.Store
	drivers knobs
	setups  drivers.Setups
	machine *clocktest.Source
	caller  access.Caller
	another func() *library.Library // of another server with the same database
}

func newWorld(t testing.TB, change func(*library.Options)) *world {
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
// it anew for each world would take minutes with the race detector.
var freshDatabase = sync.OnceValues(func() (db []byte, err error) {
	dir, err := os.MkdirTemp("", "kairos-fresh-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "kairos.db")
	log := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(path, log)
	if err != nil {
		return nil, err
	}
	setup, err := compiled(knobs{})
	if err != nil {
		return nil, err
	}
	l := library.New(storeOf(store), setup, library.Options{}, log)
	if err := errors.Join(l.Ready(context.Background()), l.Close(), store.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

const tree = "defaults: {missing_type: shell, no_challenge_type: comment}\nchallenges:\n  - {name: any, match: {}, evidence: [{via: agent}]}\n"

// compiled is a setup with the drivers of these tests.
func compiled(k knobs) (driverstest.Fixed, error) {
	all := []driver.Descriptor{{Name: "agent", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence}}}
	for _, name := range []string{"shell", "mcp", "user_input", "comment"} {
		all = append(all, driver.Descriptor{Name: name, Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{name}})
	}
	compiled, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(tree)}, all)
	return driverstest.Fixed{Drivers: fakeDrivers{knobs: k}, Tree: compiled}, err
}

func storeOf(s *sqlite.Store) library.Store {
	return library.Store{Protocols: s, Writer: s, Versions: s, Searcher: s, Vectors: s, Ratings: s}
}

// worldOn is a world with this database.
func worldOn(t testing.TB, path string, change func(*library.Options)) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(path, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{
		t: t, store: store, drivers: knobs{}, machine: clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
		caller: access.Caller{Principal: "me", Space: "user:test:me", Connection: "c1"},
	}
	if w.setups, err = compiled(w.drivers); err != nil {
		t.Fatal(err)
	}
	var opt library.Options
	if change != nil {
		change(&opt)
	}
	w.another = func() *library.Library {
		opt.Clock = clock.New(w.machine)
		l := library.New(storeOf(store), w.setups, opt, log)
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	w.Library = w.another()
	return w
}

func (w *world) mint(doc string) []string {
	w.t.Helper()
	reply := w.mintReply(doc)
	uris := make([]string, len(reply.Items))
	for i, item := range reply.Items {
		uris[i] = item.URI
	}
	return uris
}

func (w *world) mintReply(doc string) api.MintReply {
	w.t.Helper()
	reply, err := w.Mint(context.Background(), w.caller, api.MintRequest{Document: doc, ModelID: "test", Force: true})
	if err != nil {
		w.t.Fatalf("Mint: %v", err)
	}
	return reply
}

const threeSteps = "# Three Steps\n\n## First\n\nbody one\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n" +
	"\n## Second\n\nbody two\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"b\"}}}\n```\n" +
	"\n## Third\n\nbody three\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{}}}\n```\n"

func doc(title string, steps ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", title)
	for _, s := range steps {
		heading, body, _ := strings.Cut(s, ": ")
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", heading, body)
	}
	return b.String()
}
