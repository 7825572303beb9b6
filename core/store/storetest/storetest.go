// Package storetest is the store contract as tests. Every store passes Run; to
// fix a bug in one, first add a case here.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Store is all that the engine asks of stores.
type Store interface {
	engine.Protocols
	engine.ProtocolWriter
	engine.Searcher
	engine.Runs
	engine.RunIndex
	engine.RunHistory
	io.Closer
}

// Run checks the whole contract. open returns an empty store; the test closes it.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, area := range []struct {
		name  string
		cases map[string]func(*testing.T, Store)
	}{
		{"protocols", protocolCases},
		{"search", searchCases},
		{"runs", runCases},
	} {
		t.Run(area.name, func(t *testing.T) {
			for name, check := range area.cases {
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
}

// The spaces of the cases.
const (
	mine   = "user:test:mine"
	theirs = "user:test:theirs"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// NewChain returns a protocol with every field set; its id follows its title.
func NewChain(space, title string, labels ...string) protocol.Chain {
	c := protocol.Chain{
		ID:          uuid.NewSHA1(uuid.NameSpaceOID, []byte(title)).String(),
		Space:       space,
		Title:       title,
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

// NewRun returns a run of the chain as it stands after begin, not yet stored.
func NewRun(principal string, c protocol.Chain) run.Run {
	return run.Run{
		ID:         run.ID(uuid.Must(uuid.NewV7()).String()),
		Principal:  principal,
		Space:      c.Space,
		Connection: "connection-1",
		ChainID:    c.ID,
		Title:      c.Title,
		Pin:        Pin(c),
		StepCount:  len(c.Steps),
		Input:      json.RawMessage(`{"who":"Zoë 🐙"}`),
		State:      run.Open,
		Step:       run.Step{Index: 1, Nonce: NewNonce()},
		CreatedAt:  epoch,
		UpdatedAt:  epoch,
	}
}

// NewNonce returns a nonce that nothing else has.
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

func mustSave(t *testing.T, s Store, chains ...protocol.Chain) {
	t.Helper()
	if err := s.SaveChains(t.Context(), chains, false); err != nil {
		t.Fatalf("SaveChains = %v, want nil", err)
	}
}

// mustCreate stores a new run and returns it as stored.
func mustCreate(t *testing.T, s Store, principal string, c protocol.Chain) run.Run {
	t.Helper()
	r := NewRun(principal, c)
	if err := s.CreateRun(t.Context(), engine.Save{Run: r}, c); err != nil {
		t.Fatalf("CreateRun(%s) = %v, want nil", r.ID, err)
	}
	return mustRun(t, s, r.ID)
}

func mustRun(t *testing.T, s Store, id run.ID) run.Run {
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

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
