package storetest

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var grantCases = map[string]func(*testing.T, Runs){
	"grants are kept, found and removed":       grantsAreKept,
	"grants of another space are out of reach": grantsOfAnotherSpace,
	"of several grants all are kept or none":   grantsAllOrNone,
}

func grant(id, space, protocol string) grants.Grant {
	return grants.Grant{
		ID: id, Space: space, Protocol: protocol, Title: "Release", Step: 2, Label: "Ship «it»", Driver: "tools", Effect: driver.EffectEffects,
		Run: "01890000-0000-7000-8000-000000000001", By: "me", At: epoch,
	}
}

func saveGrants(t *testing.T, s grants.Store, all ...grants.Grant) {
	t.Helper()
	if err := s.SaveGrants(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// hasGrants checks which grants some spaces have, the newest first, and which of them are
// for protocol p1 of mine.
func hasGrants(t *testing.T, s grants.Store, spaces []string, want, of []grants.Grant) {
	t.Helper()
	wantRead(t, "Grants", want)(s.Grants(t.Context(), spaces))
	wantRead(t, "GrantsFor", of)(s.GrantsFor(t.Context(), mine, "p1"))
}

func removeGrant(t *testing.T, s grants.Store, id string, want bool) {
	t.Helper()
	wantRead(t, "RemoveGrant", want)(s.RemoveGrant(t.Context(), []string{mine}, id))
}

func grantsAreKept(t *testing.T, s Runs) {
	first, second := grant("01890000-0000-7000-8000-00000000000a", mine, "p1"), grant("01890000-0000-7000-8000-00000000000b", mine, "p2")
	saveGrants(t, s, first, second)
	hasGrants(t, s, []string{mine, theirs}, []grants.Grant{second, first}, []grants.Grant{first})
	removeGrant(t, s, first.ID, true)
	removeGrant(t, s, first.ID, false)
	hasGrants(t, s, []string{mine}, []grants.Grant{second}, nil)
}

func grantsOfAnotherSpace(t *testing.T, s Runs) {
	g := grant("01890000-0000-7000-8000-00000000000a", theirs, "p1")
	saveGrants(t, s, g)
	hasGrants(t, s, []string{mine}, nil, nil)
	removeGrant(t, s, g.ID, false)
}

func grantsAllOrNone(t *testing.T, s Runs) {
	g := grant("01890000-0000-7000-8000-00000000000a", mine, "p1")
	if err := s.SaveGrants(t.Context(), []grants.Grant{g, g}); err == nil {
		t.Error("the same id twice was taken")
	}
	hasGrants(t, s, []string{mine}, nil, nil)
}
