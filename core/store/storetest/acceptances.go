package storetest

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var acceptanceCases = map[string]func(*testing.T, Runs){
	"acceptances are kept, found and removed":       acceptancesAreKept,
	"acceptances of another space are out of reach": acceptancesOfAnotherSpace,
	"of several acceptances all are kept or none":   acceptancesAllOrNone,
	"what is accepted again replaces":               acceptancesReplace,
	"acceptances for a run end with it":             acceptancesEndWithTheirRun,
}

const acceptedRun = run.ID("01890000-0000-7000-8000-000000000001")

func acceptance(id, space, protocol string) acceptances.Acceptance {
	return acceptances.Acceptance{
		ID: id, Space: space, Protocol: protocol, Title: "Release", Step: 2, Label: "Ship «it»", Driver: "tools", Effect: driver.EffectChanges,
		Run: acceptedRun, By: "me", At: epoch,
	}
}

func saveAcceptances(t *testing.T, s acceptances.Store, all ...acceptances.Acceptance) {
	t.Helper()
	if err := s.SaveAcceptances(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// hasAcceptances checks which acceptances some spaces have, the newest first, and which of
// them are for protocol p1 of mine in the run.
func hasAcceptances(t *testing.T, s acceptances.Store, spaces []string, want, of []acceptances.Acceptance) {
	t.Helper()
	wantRead(t, "Acceptances", want)(s.Acceptances(t.Context(), spaces))
	wantRead(t, "AcceptancesFor", of)(s.AcceptancesFor(t.Context(), mine, "p1", acceptedRun))
}

func removeAcceptance(t *testing.T, s acceptances.Store, id string, want bool) {
	t.Helper()
	wantRead(t, "RemoveAcceptance", want)(s.RemoveAcceptance(t.Context(), []string{mine}, id))
}

func acceptancesAreKept(t *testing.T, s Runs) {
	first, second := acceptance("01890000-0000-7000-8000-00000000000a", mine, "p1"), acceptance("01890000-0000-7000-8000-00000000000b", mine, "p2")
	other := acceptance("01890000-0000-7000-8000-00000000000c", mine, "p1")
	other.Run = "another run"
	saveAcceptances(t, s, first, second, other)
	hasAcceptances(t, s, []string{mine, theirs}, []acceptances.Acceptance{other, second, first}, []acceptances.Acceptance{first})
	removeAcceptance(t, s, first.ID, true)
	removeAcceptance(t, s, first.ID, false)
	hasAcceptances(t, s, []string{mine}, []acceptances.Acceptance{other, second}, nil)
}

func acceptancesOfAnotherSpace(t *testing.T, s Runs) {
	a := acceptance("01890000-0000-7000-8000-00000000000a", theirs, "p1")
	saveAcceptances(t, s, a)
	hasAcceptances(t, s, []string{mine}, nil, nil)
	removeAcceptance(t, s, a.ID, false)
}

func acceptancesAllOrNone(t *testing.T, s Runs) {
	a := acceptance("01890000-0000-7000-8000-00000000000a", mine, "p1")
	b := a
	b.Step++
	if err := s.SaveAcceptances(t.Context(), []acceptances.Acceptance{a, b}); err == nil {
		t.Error("the same id twice was taken")
	}
	hasAcceptances(t, s, []string{mine}, nil, nil)
}

// acceptancesReplace: of what differs in its space, version, run, step or driver both are kept.
func acceptancesReplace(t *testing.T, s Runs) {
	first := acceptance("01890000-0000-7000-8000-00000000000a", mine, "p1")
	saveAcceptances(t, s, first)
	again := first
	again.ID, again.Effect, again.By = "01890000-0000-7000-8000-00000000000b", driver.EffectReads, "somebody else"
	saveAcceptances(t, s, again)
	hasAcceptances(t, s, []string{mine}, []acceptances.Acceptance{again}, []acceptances.Acceptance{again})
	for name, change := range map[string]func(*acceptances.Acceptance){
		"space": func(a *acceptances.Acceptance) { a.Space = theirs }, "version": func(a *acceptances.Acceptance) { a.Protocol = "p2" },
		"run": func(a *acceptances.Acceptance) { a.Run = "" }, "step": func(a *acceptances.Acceptance) { a.Step = 3 },
		"driver": func(a *acceptances.Acceptance) { a.Driver = "command" },
	} {
		other := first
		other.ID = "01890000-0000-7000-8000-00000000000c"
		change(&other)
		saveAcceptances(t, s, other)
		wantRead(t, "Acceptances with another "+name, []acceptances.Acceptance{other, again})(s.Acceptances(t.Context(), []string{mine, theirs}))
		if _, err := s.RemoveAcceptance(t.Context(), []string{mine, theirs}, other.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func acceptancesEndWithTheirRun(t *testing.T, s Runs) {
	c := NewChain(mine, "It ends", "One")
	r := NewRun("somebody", c)
	r.State, r.UpdatedAt = run.Closed, epoch
	mustCreateRun(t, s, runs.Save{Run: r}, c)
	its, every := acceptance("01890000-0000-7000-8000-00000000000a", mine, "p1"), acceptance("01890000-0000-7000-8000-00000000000b", mine, "p1")
	its.Run, every.Run = r.ID, ""
	saveAcceptances(t, s, its, every)
	wantRead(t, "RemoveEnded", 1)(s.RemoveEnded(t.Context(), epoch.Add(time.Hour), 10))
	wantRead(t, "Acceptances", []acceptances.Acceptance{every})(s.Acceptances(t.Context(), []string{mine}))
}
