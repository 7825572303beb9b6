package storetest

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// absentIsSaid: what a read calls absent is not looked for afterwards.
func absentIsSaid(t *testing.T, s Runs) {
	c := NewChain(mine, "Nobody decided anything", "One")
	r := NewRun("somebody", c)
	r.Space = theirs // a run may belong to another space than its protocol
	mustCreateRun(t, s, runs.Save{Run: r}, c)
	r.Revision = 1
	wantAbsent := func(when string, want runs.Absent) {
		t.Helper()
		if got, err := s.RunUnless(t.Context(), r); err != nil || got.Changed || got.Absent != want {
			t.Errorf("%s: RunUnless = %+v, %v, want %+v absent", when, got, err, want)
		}
	}
	none := runs.Absent{Acceptances: true, Declines: true}
	wantAbsent("nothing is stored", none)
	saveDeclines(t, s, epoch, decline("somebody else", mine, "a", epoch))
	saveAcceptances(t, s, acceptance("01890000-0000-7000-8000-00000000000a", theirs, "p"))
	wantAbsent("what is stored is of others", none)

	for when, d := range map[string]run.Run{
		"its principal declined": {Principal: r.Principal, Space: "elsewhere"}, "declined in its space": {Principal: "somebody else", Space: theirs},
	} {
		declined := decline(d.Principal, d.Space, "b", epoch.Add(time.Minute))
		saveDeclines(t, s, epoch, declined)
		wantAbsent(when, runs.Absent{Acceptances: true})
		if err := s.RemoveDecline(t.Context(), declined); err != nil {
			t.Fatal(err)
		}
		wantAbsent("the decline is removed", none)
	}
	saveAcceptances(t, s, acceptance("01890000-0000-7000-8000-00000000000b", mine, "p"))
	wantAbsent("allowed in the space of its protocol", runs.Absent{Declines: true})
}
