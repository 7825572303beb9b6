package library_test

import (
	"context"
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
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a library on a real store.
type world struct {
	*library.Library
	t       testing.TB
	store   *sqlitetest.Store
	drivers driverstest.Knobs
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
	store, err := sqlitetest.Open(path, log)
	if err != nil {
		return nil, err
	}
	setup, err := checking(driverstest.Knobs{})
	if err != nil {
		return nil, err
	}
	l := library.New(storeOf(store), setup, library.Options{}, log)
	if err := errors.Join(l.Ready(context.Background()), l.Close(), store.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func checking(k driverstest.Knobs) (driverstest.Fixed, error) {
	return driverstest.Checking(k, "shell", "mcp", "user_input", "comment", "count")
}

func storeOf(s *sqlitetest.Store) library.Store {
	return library.Store{Protocols: s, Writer: s, Versions: s, Searcher: outlines.New(s, meaning.Default, slog.New(slog.DiscardHandler)), Vectors: s, Ratings: s}
}

// worldOn is a world with this database.
func worldOn(t testing.TB, path string, change func(*library.Options)) *world {
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
	w := &world{
		t: t, store: store, drivers: driverstest.Knobs{}, machine: clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
		caller: access.Caller{Principal: "me", Space: "user:test:me", Connection: "c1"},
	}
	if w.setups, err = checking(w.drivers); err != nil {
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

const threeSteps = driverstest.ThreeSteps

func doc(title string, steps ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", title)
	for _, s := range steps {
		heading, body, _ := strings.Cut(s, ": ")
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", heading, body)
	}
	return b.String()
}
