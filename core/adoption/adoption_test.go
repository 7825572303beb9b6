package adoption_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/adoption"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

var errKilled = errors.New("killed")

// killed is a writer that ends before it deletes anything.
type killed struct{ library.ProtocolWriter }

func (killed) DeleteChain(context.Context, string, string, int64) error { return errKilled }

func TestAnInterruptedAdoptionIsCompletedByTheNext(t *testing.T) {
	s := sqlitetest.New(t)
	ada, bob := adoption.Owner{Principal: "user:acme:ada", Space: "user:acme:ada"}, adoption.Owner{Principal: "user:acme:bob", Space: "user:acme:bob"}
	chain := storetest.NewChain(ada.Space, "Moved", "One")
	if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: chain}}); err != nil {
		t.Fatal(err)
	}
	digest, err := chain.ContentDigest()
	if err != nil {
		t.Fatal(err)
	}
	accepted := acceptances.Acceptance{ID: "a", Space: ada.Space, Protocol: digest, Chain: chain.ID, Step: 1, Driver: "command", Effect: "reads", By: "ada"}
	if err := s.SaveAcceptances(t.Context(), []acceptances.Acceptance{accepted}); err != nil {
		t.Fatal(err)
	}
	store := adoption.Store{
		Protocols: s.Protocols, Writer: killed{s.Protocols}, Archive: s.Archive, Acceptances: s.People, Declines: s.People, Clock: clock.System(),
		Runs: runs.New(runs.Store{Runs: s.Runs, Index: s.Runs, History: s.Runs}, runs.Options{}),
	}
	if _, err := adoption.Move(t.Context(), store, ada, bob); !errors.Is(err, errKilled) {
		t.Fatalf("Move = %v, want %v", err, errKilled)
	}
	store.Writer = s.Protocols
	if r, err := adoption.Move(t.Context(), store, ada, bob); err != nil || !slices.Equal(r.Protocols, []string{"Moved"}) {
		t.Fatalf("the next Move = %+v, %v, want the protocol", r, err)
	}
	for space, want := range map[string]int{ada.Space: 0, bob.Space: 1} {
		n, err := s.Count(t.Context(), space)
		if err != nil || n != want {
			t.Errorf("%s has %d protocols, %v, want %d", space, n, err, want)
		}
		if all, err := s.AcceptancesFor(t.Context(), space, digest, ""); err != nil || len(all) != want {
			t.Errorf("%s has %d acceptances, %v, want %d", space, len(all), err, want)
		}
	}
	if _, err := adoption.Move(t.Context(), store, ada, bob); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Move of nothing = %v, want %s", err, fault.NotFound)
	}
}

func TestRunsOfSpacesThatNobodyElseReadsStay(t *testing.T) {
	s := sqlitetest.New(t)
	local, ada := adoption.Owner{Principal: "local", Space: "user:local:operator"}, adoption.Owner{Principal: "user:acme:ada", Space: "user:acme:ada"}
	var ids []run.ID
	for _, space := range []string{local.Space, "space:local"} {
		chain := storetest.NewChain(space, "Open", "One")
		r := storetest.NewRun(local.Principal, chain)
		if err := s.CreateRun(t.Context(), runs.Save{Run: r}, chain); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	store := adoption.Store{
		Protocols: s.Protocols, Writer: s.Protocols, Archive: s.Archive, Acceptances: s.People, Declines: s.People, Clock: clock.System(),
		Runs: runs.New(runs.Store{Runs: s.Runs, Index: s.Runs, History: s.Runs}, runs.Options{}), Stay: []string{"space:local"},
	}
	if r, err := adoption.Move(t.Context(), store, local, ada); err != nil || !slices.Equal(r.Runs, ids[:1]) {
		t.Fatalf("Move = %+v, %v, want run %s alone", r, err, ids[0])
	}
	for i, want := range []string{ada.Principal, local.Principal} {
		if r, err := s.Run(t.Context(), ids[i]); err != nil || r.Principal != want {
			t.Errorf("run %d is of %q, %v, want %s", i, r.Principal, err, want)
		}
	}
}
