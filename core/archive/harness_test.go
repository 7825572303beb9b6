package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// server is an archive with its runs and its library.
type server struct {
	*archive.Archive
	runs    *runs.Keeper
	library *library.Library
}

// world is a server on a real store.
type world struct {
	server
	t       testing.TB
	store   *sqlitetest.Store
	drivers driverstest.Knobs
	setup   *driverstest.Fixed
	machine *clocktest.Source
	caller  access.Caller
	another func() server // with the same database
}

func newWorld(t testing.TB, keep time.Duration) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := sqlitetest.Open(filepath.Join(t.TempDir(), "kairos.db"), log)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, store: store, drivers: driverstest.Knobs{}, machine: clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
		caller: access.Caller{Principal: "me", Space: "user:test:me", Connection: "c1"},
	}
	setup, err := driverstest.Checking(w.drivers, "shell", "mcp", "comment", "user_input")
	if err != nil {
		t.Fatal(err)
	}
	w.setup = &setup
	var libraries []*library.Library
	w.another = func() server {
		c := clock.New(w.machine)
		l := library.New(library.Store{Protocols: store, Writer: store, Versions: store, Searcher: outlines.New(store, nil, log), Vectors: store, Ratings: store}, w.setup, library.Options{Clock: c}, log)
		libraries = append(libraries, l)
		k := runs.New(runs.Store{Runs: store, Index: store, History: store}, runs.Options{Clock: c})
		a := archive.New(archive.Store{Protocols: store, Runs: store, History: store, Archive: store, Eraser: store}, k, l, w.setup, archive.Options{RunKeep: keep, Clock: c})
		return server{a, k, l}
	}
	w.server = w.another()
	t.Cleanup(func() {
		for _, l := range libraries {
			err = errors.Join(err, l.Close())
		}
		if err := errors.Join(err, store.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) mint(doc string) []string {
	w.t.Helper()
	reply, err := w.library.Mint(w.t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "test", Force: true})
	if err != nil {
		w.t.Fatalf("Mint: %v", err)
	}
	uris := make([]string, len(reply.Items))
	for i, item := range reply.Items {
		uris[i] = item.URI
	}
	return uris
}

// begin stores a new run of the protocol.
func (w *world) begin(uri string) run.ID {
	w.t.Helper()
	chain, _, err := w.library.FindStep(w.t.Context(), w.caller, uri)
	if err != nil {
		w.t.Fatal(err)
	}
	pin, err := library.Digest(chain)
	if err != nil {
		w.t.Fatal(err)
	}
	w.machine.Pass(time.Millisecond)
	c := clock.New(w.machine)
	id := run.ID(c.NewID())
	w.save(w.runs.Create(run.Run{
		ID: id, FirstNonce: string(id), Principal: w.caller.Principal, Space: w.caller.Space, Connection: w.caller.Connection, ChainID: chain.ID,
		Title: chain.Title, Pin: pin, Input: json.RawMessage(`{"who":"Betty Wolf"}`), StepCount: len(chain.Steps), State: run.Open, Step: run.Step{Index: 1, Nonce: string(id)}, CreatedAt: c.Now(), UpdatedAt: c.Now(),
	}, chain))
	return id
}

// happen stores what happened in the run.
func (w *world) happen(id run.ID, events ...run.Event) {
	w.t.Helper()
	change, err := w.runs.Open(w.t.Context(), w.caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.save(change, events...)
}

func (w *world) save(change *runs.Change, events ...run.Event) {
	w.t.Helper()
	for _, ev := range events {
		if err := change.Append(ev); err != nil {
			w.t.Fatalf("%s: %v", ev.Kind, err)
		}
	}
	if _, err := change.Save(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

var evidence = driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: "shell"}

// solve stores that the agent solved the open step.
func (w *world) solve(id run.ID) { w.solveWith(id, `{"ok":true}`) }

func (w *world) solveWith(id run.ID, value string) {
	w.t.Helper()
	change, err := w.runs.Open(w.t.Context(), w.caller, id)
	if err != nil {
		w.t.Fatal(err)
	}
	answer := driver.Answer{InputID: evidence.ID, Value: json.RawMessage(value), Provenance: driver.AgentReported, Via: "agent"}
	given := run.Evidence{Answers: []driver.Answer{answer}, Output: answer.Value, Salt: "salt"}
	digest, err := given.Digest()
	if err != nil {
		w.t.Fatal(err)
	}
	at := change.Run.Step
	proof, err := run.Proof{
		Previous: change.Run.ProofHash(), Run: id, Step: at.Index, StepUUID: change.Chain.Steps[at.Index-1].UUID, EvidenceDigest: digest,
		Provenance: driver.AgentReported, At: change.Now(),
	}.Seal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.save(change,
		run.Event{Kind: run.Needed, Inputs: []driver.Input{evidence}}, run.Event{Kind: run.Supplied, Input: evidence.ID, Via: "agent", Answer: &answer},
		run.Event{Kind: run.Accepted, Proof: &proof, Evidence: &given, Nonce: at.Nonce + "+", Solves: at.Nonce})
}

// asks stores that the driver's question is open.
func (w *world) asks(id run.ID, via string) {
	w.t.Helper()
	w.happen(id, run.Event{Kind: run.Needed, Inputs: []driver.Input{evidence}},
		run.Event{Kind: run.Asked, Input: evidence.ID, Via: via, Question: &run.Question{Seq: 1, Input: evidence, Via: via, AskedAt: w.machine.Wall()}})
}

func (w *world) state(id run.ID) run.State {
	w.t.Helper()
	r, err := w.store.Run(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.State
}
