package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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

func grantsAreKept(t *testing.T, s Runs) {
	first, second := grant("01890000-0000-7000-8000-00000000000a", mine, "p1"), grant("01890000-0000-7000-8000-00000000000b", mine, "p2")
	if err := s.SaveGrants(t.Context(), []grants.Grant{first, second}); err != nil {
		t.Fatal(err)
	}
	all, err := s.Grants(t.Context(), []string{mine, theirs})
	if diff := cmp.Diff([]grants.Grant{second, first}, all); diff != "" || err != nil {
		t.Errorf("Grants = %v (-want +got, the newest first):\n%s", err, diff)
	}
	of, err := s.GrantsFor(t.Context(), mine, "p1")
	if diff := cmp.Diff([]grants.Grant{first}, of); diff != "" || err != nil {
		t.Errorf("GrantsFor = %v (-want +got):\n%s", err, diff)
	}
	for _, want := range []bool{true, false} {
		if there, err := s.RemoveGrant(t.Context(), []string{mine}, first.ID); err != nil || there != want {
			t.Errorf("RemoveGrant = %v, %v, want %v", there, err, want)
		}
	}
	if of, err := s.GrantsFor(t.Context(), mine, "p1"); err != nil || len(of) > 0 {
		t.Errorf("GrantsFor after it was removed = %v, %v", of, err)
	}
}

func grantsOfAnotherSpace(t *testing.T, s Runs) {
	g := grant("01890000-0000-7000-8000-00000000000a", theirs, "p1")
	if err := s.SaveGrants(t.Context(), []grants.Grant{g}); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Grants(t.Context(), []string{mine}); err != nil || len(all) > 0 {
		t.Errorf("Grants = %v, %v", all, err)
	}
	if of, err := s.GrantsFor(t.Context(), mine, "p1"); err != nil || len(of) > 0 {
		t.Errorf("GrantsFor = %v, %v", of, err)
	}
	if there, err := s.RemoveGrant(t.Context(), []string{mine}, g.ID); err != nil || there {
		t.Errorf("RemoveGrant = %v, %v", there, err)
	}
}

func grantsAllOrNone(t *testing.T, s Runs) {
	g := grant("01890000-0000-7000-8000-00000000000a", mine, "p1")
	if err := s.SaveGrants(t.Context(), []grants.Grant{g, g}); err == nil {
		t.Error("the same id twice was taken")
	}
	if all, err := s.Grants(t.Context(), []string{mine}); err != nil || len(all) > 0 {
		t.Errorf("Grants = %v, %v, want none", all, err)
	}
}
