package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/declines"
)

var declineCases = map[string]func(*testing.T, Runs){
	"the latest decline of an action is kept": declinesAreKept,
	"old declines are removed with a new one": oldDeclinesGo,
}

func decline(space, action string, at time.Time) declines.Decline {
	return declines.Decline{
		Space: space, Action: action, Run: "01890000-0000-7000-8000-000000000001", Step: 2, Label: "Ship «it»", Title: "Release", Via: "elicitation", At: at,
	}
}

// keepsDecline checks what is kept of an action; nil: nothing.
func keepsDecline(t *testing.T, s Runs, space, action string, want *declines.Decline) {
	t.Helper()
	have, found, err := s.DeclineOf(t.Context(), space, action)
	if err != nil || found != (want != nil) {
		t.Fatalf("DeclineOf(%s, %s) = %v, %v, want one: %v", space, action, found, err, want != nil)
	}
	if want != nil {
		if diff := cmp.Diff(*want, have); diff != "" {
			t.Errorf("DeclineOf (-want +got):\n%s", diff)
		}
	}
}

func declinesAreKept(t *testing.T, s Runs) {
	first, second := decline(mine, "a", epoch), decline(mine, "a", epoch.Add(time.Minute))
	second.Label = "Ship it again"
	for _, d := range []declines.Decline{first, second, decline(theirs, "a", epoch)} {
		if err := s.SaveDecline(t.Context(), d, epoch.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	keepsDecline(t, s, mine, "a", &second)
	keepsDecline(t, s, mine, "b", nil)
	for range 2 { // the second time there is none
		if err := s.RemoveDecline(t.Context(), mine, "a"); err != nil {
			t.Fatal(err)
		}
		keepsDecline(t, s, mine, "a", nil)
	}
	other := decline(theirs, "a", epoch)
	keepsDecline(t, s, theirs, "a", &other)
}

func oldDeclinesGo(t *testing.T, s Runs) {
	old, later, other := decline(mine, "a", epoch), decline(mine, "b", epoch.Add(time.Hour)), decline(theirs, "a", epoch)
	for _, d := range []declines.Decline{old, other} {
		if err := s.SaveDecline(t.Context(), d, epoch); err != nil {
			t.Fatal(err)
		}
	}
	keepsDecline(t, s, mine, "a", &old)
	if err := s.SaveDecline(t.Context(), later, epoch.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	keepsDecline(t, s, mine, "a", nil)
	keepsDecline(t, s, mine, "b", &later)
	keepsDecline(t, s, theirs, "a", &other)
}
