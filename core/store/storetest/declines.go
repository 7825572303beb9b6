package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/declines"
)

var declineCases = map[string]func(*testing.T, Runs){
	"the latest decline of an action is kept":        declinesAreKept,
	"a decline is found by its principal and space":  declinesAreFound,
	"a decline is removed where it was made":         declinesAreRemoved,
	"old declines of everybody go when one is added": oldDeclinesGo,
}

func decline(principal, space, key string, at time.Time) declines.Decline {
	return declines.Decline{
		Principal: principal, Space: space, Key: key, Action: declines.Action{"type": "act", "action what": key},
		Run: "01890000-0000-7000-8000-000000000001", Step: 2, Label: "Ship «it»", Title: "Release", Via: "elicitation", At: at,
	}
}

func saveDeclines(t *testing.T, s Runs, before time.Time, all ...declines.Decline) {
	t.Helper()
	for _, d := range all {
		if err := s.SaveDecline(t.Context(), d, before); err != nil {
			t.Fatal(err)
		}
	}
}

// hasDeclines checks which declines count for a principal in a space.
func hasDeclines(t *testing.T, s Runs, principal, space string, want ...declines.Decline) {
	t.Helper()
	wantRead(t, fmt.Sprintf("DeclinesOf(%s, %s)", principal, space), want)(s.DeclinesOf(t.Context(), principal, space))
}

func declinesAreKept(t *testing.T, s Runs) {
	first, second, other := decline("me", mine, "a", epoch), decline("me", mine, "a", epoch.Add(time.Minute)), decline("me", mine, "b", epoch)
	second.Label = "Ship it again"
	saveDeclines(t, s, epoch.Add(-time.Hour), first, second, other)
	hasDeclines(t, s, "me", mine, second, other)
}

func declinesAreFound(t *testing.T, s Runs) {
	here, elsewhere, theirsHere, theirsElsewhere := decline("me", mine, "a", epoch.Add(3*time.Second)), decline("me", theirs, "a", epoch.Add(2*time.Second)),
		decline("you", mine, "a", epoch.Add(time.Second)), decline("you", theirs, "a", epoch)
	saveDeclines(t, s, epoch.Add(-time.Hour), here, elsewhere, theirsHere, theirsElsewhere)
	hasDeclines(t, s, "me", mine, here, elsewhere, theirsHere)
	hasDeclines(t, s, "you", theirs, elsewhere, theirsHere, theirsElsewhere)
	hasDeclines(t, s, "you", "user:nowhere", theirsHere, theirsElsewhere)
	hasDeclines(t, s, "nobody", "user:nowhere")
}

func declinesAreRemoved(t *testing.T, s Runs) {
	here, elsewhere, theirsHere := decline("me", mine, "a", epoch.Add(2*time.Second)), decline("me", theirs, "a", epoch.Add(time.Second)), decline("you", mine, "a", epoch)
	saveDeclines(t, s, epoch.Add(-time.Hour), here, elsewhere, theirsHere)
	for range 2 { // the second time there is none
		if err := s.RemoveDecline(t.Context(), here); err != nil {
			t.Fatal(err)
		}
		hasDeclines(t, s, "me", mine, elsewhere, theirsHere)
	}
}

func oldDeclinesGo(t *testing.T, s Runs) {
	old, theirsOld, later := decline("me", mine, "a", epoch), decline("you", theirs, "a", epoch), decline("me", mine, "b", epoch.Add(time.Hour))
	saveDeclines(t, s, epoch, old, theirsOld)
	hasDeclines(t, s, "me", mine, old)
	saveDeclines(t, s, epoch.Add(time.Second), later)
	hasDeclines(t, s, "me", mine, later)
	hasDeclines(t, s, "you", theirs)
}
