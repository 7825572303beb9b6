// Package storetest is the contract of stores as tests. Every store passes Run, or
// the part of it for the data that it keeps. To fix a bug in a store, first add a
// case here.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/sessions"
	"github.com/kairos-mcp/kairos/core/tokens"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Protocols is the contract of a store of protocols.
type Protocols interface {
	library.Protocols
	library.ProtocolWriter
	library.ProtocolHistory
	library.Changes
	library.Vectors
	library.Ratings
	io.Closer
}

// Runs is the contract of a store of runs.
type Runs interface {
	runs.Runs
	runs.Index
	archive.RunArchive
	runs.History
	archive.Eraser
	acceptances.Store
	declines.Store
	sessions.Store
	tokens.Store
	logins.Store
	io.Closer
}

// Store is the complete contract: both are parts of one store.
type Store struct {
	Protocols Protocols
	Runs      Runs
}

// Close implements io.Closer.
func (s Store) Close() error { return s.Protocols.Close() }

// Run checks the whole contract. open returns an empty store; the test closes it.
func Run(t *testing.T, open func(t *testing.T) Store) {
	RunProtocols(t, func(t *testing.T) Protocols { return open(t).Protocols })
	RunRuns(t, func(t *testing.T) Runs { return open(t).Runs })
	runArea(t, "both", bothCases, open)
}

// RunProtocols checks the contract of a store that keeps protocols.
func RunProtocols(t *testing.T, open func(t *testing.T) Protocols) {
	runArea(t, "protocols", protocolCases, open)
	runArea(t, "history", historyCases, open)
	runArea(t, "list", listCases, open)
	runArea(t, "changes", changeCases, open)
	runArea(t, "vectors", vectorCases, open)
	runArea(t, "ratings", ratingCases, open)
}

// RunRuns checks the contract of a store that keeps runs.
func RunRuns(t *testing.T, open func(t *testing.T) Runs) {
	runArea(t, "runs", runCases, open)
	runArea(t, "archive", archiveCases, open)
	runArea(t, "redact", redactCases, open)
	runArea(t, "acceptances", acceptanceCases, open)
	runArea(t, "declines", declineCases, open)
	runArea(t, "sessions", sessionCases, open)
	runArea(t, "tokens", tokenCases, open)
	runArea(t, "logins", loginCases, open)
}

func runArea[S io.Closer](t *testing.T, area string, cases map[string]func(*testing.T, S), open func(*testing.T) S) {
	t.Run(area, func(t *testing.T) {
		for name, check := range cases {
			t.Run(name, func(t *testing.T) {
				s := open(t)
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Errorf("Close() = %v, want nil", err)
					}
				})
				check(t, s)
			})
		}
	})
}

var bothCases = map[string]func(*testing.T, Store){
	"a pin outlives its protocol": pinOutlivesProtocol,
}

// The spaces of the cases.
const (
	mine   = "user:test:mine"
	theirs = "user:test:theirs"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// NewChain returns a protocol with every field set; its id follows its title.
func NewChain(space, title string, labels ...string) protocol.Chain {
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(title)).String()
	slug := "slug-" + id[:8]
	c := protocol.Chain{
		ID:          id,
		Space:       space,
		Title:       title,
		FrontMatter: "slug: " + slug + "\nversion: 1.2.3\n# a comment\ntags: [front, matter]\n",
		Slug:        slug,
		Version:     "1.2.3",
		AltTitle:    "Also " + title,
		Tags:        []string{"front", "matter"},
		Triggers:    []string{"somebody asks for " + title},
		Summary:     "Needed by whoever asks for " + title + ".",
		Description: "What " + title + " is for.",
		Inputs:      json.RawMessage(`{"type":"object","properties":{"who":{"type":"string"}}}`),
		ModelID:     "model-1",
		CreatedAt:   epoch,
		UpdatedAt:   epoch.Add(time.Hour),
	}
	for i, label := range labels {
		c.Steps = append(c.Steps, protocol.Step{
			UUID: uuid.NewString(), Label: label, Name: fmt.Sprintf("step_%d", i+1),
			Text:      "## " + label + "\n\nDo it: «Ünïcödé», 日本語, \"quotes\" and\na second line.\n",
			Challenge: json.RawMessage(`{"type":"any","any":{"cmd":"echo {{ input.who }}"}}`),
			Templates: []driver.Template{{Pointer: "/any/cmd", Escaping: driver.EscapeShell}},
			Tags:      []string{"tag-a", "tag-b"},
		})
	}
	return c
}

// NewRun returns a run of the chain in its state after begin, not yet stored.
func NewRun(principal string, c protocol.Chain) run.Run {
	nonce := NewNonce()
	return run.Run{
		ID:         run.ID(uuid.Must(uuid.NewV7()).String()),
		FirstNonce: nonce,
		Principal:  principal,
		Space:      c.Space,
		Connection: "connection-1",
		ChainID:    c.ID,
		Title:      c.Title,
		Pin:        Pin(c),
		StepCount:  len(c.Steps),
		Input:      json.RawMessage(`{"who":"Zoë 🐙"}`),
		State:      run.Open,
		Step:       run.Step{Index: 1, Nonce: nonce},
		CreatedAt:  epoch,
		UpdatedAt:  epoch,
	}
}

// NewNonce returns a unique nonce.
func NewNonce() string {
	id := uuid.New()
	return fmt.Sprintf("%x", id[:])
}

// Pin returns the digest under which a chain is pinned.
func Pin(c protocol.Chain) string {
	document, err := json.Marshal(c)
	if err != nil {
		panic(err) // chains of tests can be encoded
	}
	digest, err := run.Digest(document)
	if err != nil {
		panic(err)
	}
	return digest
}

// mustSave stores new chains.
func mustSave(t *testing.T, s library.ProtocolWriter, chains ...protocol.Chain) {
	t.Helper()
	if _, err := s.SaveChains(t.Context(), fresh(chains...)); err != nil {
		t.Fatalf("SaveChains = %v, want nil", err)
	}
}

// fresh returns the changes that store new chains.
func fresh(chains ...protocol.Chain) []library.Change {
	changes := make([]library.Change, len(chains))
	for i, c := range chains {
		changes[i] = library.Change{Chain: c}
	}
	return changes
}

// mustReplace stores a chain over a revision and returns the new one.
func mustReplace(t *testing.T, s library.ProtocolWriter, c protocol.Chain, replaces int64) int64 {
	t.Helper()
	revisions, err := s.SaveChains(t.Context(), []library.Change{{Chain: c, Replaces: replaces}})
	if err != nil || len(revisions) != 1 {
		t.Fatalf("SaveChains(%q over revision %d) = %v, %v, want one revision", c.Title, replaces, revisions, err)
	}
	return revisions[0]
}

func mustDelete(t *testing.T, s library.ProtocolWriter, c protocol.Chain, replaces int64) {
	t.Helper()
	if err := s.DeleteChain(t.Context(), c.Space, c.ID, replaces); err != nil {
		t.Fatalf("DeleteChain(%q, revision %d) = %v, want nil", c.Title, replaces, err)
	}
}

// at is the chain as it is read at a revision.
func at(c protocol.Chain, revision int64) protocol.Chain {
	c.Revision = revision
	return c
}

// mustCreate stores a new run and returns it as stored.
func mustCreate(t *testing.T, s runs.Runs, principal string, c protocol.Chain) run.Run {
	t.Helper()
	r := NewRun(principal, c)
	mustCreateRun(t, s, runs.Save{Run: r}, c)
	return mustRun(t, s, r.ID)
}

func mustRun(t *testing.T, s runs.Runs, id run.ID) run.Run {
	t.Helper()
	r, err := s.Run(t.Context(), id)
	if err != nil {
		t.Fatalf("Run(%s) = %v, want nil", id, err)
	}
	return r
}

func wantCode(t *testing.T, call string, err error, want fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); got != want {
		t.Errorf("%s = %v (code %q), want code %q", call, err, got, want)
	}
}

// wantSame compares what was read with what was stored.
func wantSame(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantRead is wantSame for the result of a call, which must not fail.
func wantRead[T any](t *testing.T, call string, want T, options ...cmp.Option) func(got T, err error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s = %v, want nil", call, err)
			return
		}
		wantSame(t, call, want, got, options...)
	}
}

func wantCancelled(t *testing.T, call string, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s = %v, want context.Canceled", call, err)
	}
}

func wantCount(t *testing.T, s library.Protocols, space string, want int) {
	t.Helper()
	if got, err := s.Count(t.Context(), space); err != nil || got != want {
		t.Errorf("Count(%s) = %d, %v, want %d, nil", space, got, err, want)
	}
}

// wantNoChain checks that mine has no chain of the id.
func wantNoChain(t *testing.T, s library.Protocols, id string) {
	t.Helper()
	_, err := s.Chain(t.Context(), []string{mine}, id)
	wantCode(t, "Chain("+id+")", err, fault.NotFound)
}

// wantNoStep checks that no chain of mine has the step.
func wantNoStep(t *testing.T, s library.Protocols, uuid string) {
	t.Helper()
	_, _, err := s.StepChain(t.Context(), []string{mine}, uuid)
	wantCode(t, "StepChain("+uuid+")", err, fault.NotFound)
}

// wantRevisions checks which revisions the history of a chain has.
func wantRevisions(t *testing.T, s library.ProtocolHistory, spaces []string, id string, want ...int64) []library.Version {
	t.Helper()
	versions, err := s.Versions(t.Context(), spaces, id)
	var got []int64
	for _, v := range versions {
		got = append(got, v.Revision)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("Versions(%s) = revisions %v, %v, want %v", id, got, err, want)
	}
	return versions
}

func mustCreateRun(t *testing.T, s runs.Runs, save runs.Save, pin protocol.Chain) {
	t.Helper()
	if err := s.CreateRun(t.Context(), save, pin); err != nil {
		t.Fatalf("CreateRun(%s) = %v, want nil", save.Run.ID, err)
	}
}

func mustSaveRun(t *testing.T, s runs.Runs, save runs.Save) {
	t.Helper()
	if err := s.SaveRun(t.Context(), save); err != nil {
		t.Fatalf("SaveRun(%s) = %v, want nil", save.Run.ID, err)
	}
}

// wantRecorded checks whether a run has a reply of the key.
func wantRecorded(t *testing.T, s runs.History, id run.ID, key string, want bool) {
	t.Helper()
	if _, ok, err := s.Recorded(t.Context(), id, key); err != nil || ok != want {
		t.Errorf("Recorded(%s, %s) = %t, %v, want %t, nil", id, key, ok, err, want)
	}
}

// wantReasons checks the reasons of a run's events, oldest first.
func wantReasons(t *testing.T, s runs.History, id run.ID, want ...string) {
	t.Helper()
	events, err := s.Events(t.Context(), id)
	if got := reasons(events); err != nil || !slices.Equal(got, want) {
		t.Errorf("Events(%s) have the reasons %q, %v, want %q", id, got, err, want)
	}
}

// wantListed checks which titles mine has, in order, read in pages of one and as one.
func wantListed(t *testing.T, s library.Protocols, want ...string) {
	t.Helper()
	for _, limit := range []int{1, 1000} {
		if got := listed(t, s, mine, limit); !slices.Equal(got, want) {
			t.Errorf("List in pages of %d = %q, want %q", limit, got, want)
		}
	}
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func pinOutlivesProtocol(t *testing.T, s Store) {
	c := NewChain(mine, "Pinned", "One", "Two")
	mustSave(t, s.Protocols, c)
	first, second := mustCreate(t, s.Runs, "somebody", c), mustCreate(t, s.Runs, "somebody", c)
	if first.Pin != second.Pin {
		t.Fatalf("pins %q and %q differ for one chain", first.Pin, second.Pin)
	}
	mustDelete(t, s.Protocols, c, 1)
	wantRead(t, "Pinned", c)(s.Runs.Pinned(t.Context(), first.Pin))
}
