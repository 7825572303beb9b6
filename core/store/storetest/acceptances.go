package storetest

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var acceptanceCases = map[string]func(*testing.T, Runs){
	"acceptances are kept, found and removed":       acceptancesAreKept,
	"acceptances of another space are out of reach": acceptancesOfAnotherSpace,
	"of several acceptances all are kept or none":   acceptancesAllOrNone,
}

func acceptance(id, space, protocol string) acceptances.Acceptance {
	return acceptances.Acceptance{
		ID: id, Space: space, Protocol: protocol, Title: "Release", Step: 2, Label: "Ship «it»", Driver: "tools", Effect: driver.EffectEffects,
		Run: "01890000-0000-7000-8000-000000000001", By: "me", At: epoch,
	}
}

func saveAcceptances(t *testing.T, s acceptances.Store, all ...acceptances.Acceptance) {
	t.Helper()
	if err := s.SaveAcceptances(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// hasAcceptances checks which acceptances some spaces have, the newest first, and which of them are
// for protocol p1 of mine.
func hasAcceptances(t *testing.T, s acceptances.Store, spaces []string, want, of []acceptances.Acceptance) {
	t.Helper()
	wantRead(t, "Acceptances", want)(s.Acceptances(t.Context(), spaces))
	wantRead(t, "AcceptancesFor", of)(s.AcceptancesFor(t.Context(), mine, "p1"))
}

func removeAcceptance(t *testing.T, s acceptances.Store, id string, want bool) {
	t.Helper()
	wantRead(t, "RemoveAcceptance", want)(s.RemoveAcceptance(t.Context(), []string{mine}, id))
}

func acceptancesAreKept(t *testing.T, s Runs) {
	first, second := acceptance("01890000-0000-7000-8000-00000000000a", mine, "p1"), acceptance("01890000-0000-7000-8000-00000000000b", mine, "p2")
	saveAcceptances(t, s, first, second)
	hasAcceptances(t, s, []string{mine, theirs}, []acceptances.Acceptance{second, first}, []acceptances.Acceptance{first})
	removeAcceptance(t, s, first.ID, true)
	removeAcceptance(t, s, first.ID, false)
	hasAcceptances(t, s, []string{mine}, []acceptances.Acceptance{second}, nil)
}

func acceptancesOfAnotherSpace(t *testing.T, s Runs) {
	g := acceptance("01890000-0000-7000-8000-00000000000a", theirs, "p1")
	saveAcceptances(t, s, g)
	hasAcceptances(t, s, []string{mine}, nil, nil)
	removeAcceptance(t, s, g.ID, false)
}

func acceptancesAllOrNone(t *testing.T, s Runs) {
	g := acceptance("01890000-0000-7000-8000-00000000000a", mine, "p1")
	if err := s.SaveAcceptances(t.Context(), []acceptances.Acceptance{g, g}); err == nil {
		t.Error("the same id twice was taken")
	}
	hasAcceptances(t, s, []string{mine}, nil, nil)
}
