package forgery_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/e2e/forgery"
)

func TestTheListIsWhole(t *testing.T) {
	if n := len(forgery.All()); n < 44 {
		t.Errorf("%d attacks, want at least 44", n)
	}
	names := make(map[string]bool)
	for _, a := range forgery.All() {
		if names[a.Name] {
			t.Errorf("%s is listed twice", a.Name)
		}
		names[a.Name] = true
		for field, text := range map[string]string{"Name": a.Name, "Has": a.Has, "Does": a.Does, "Truth": a.Truth, "Wins": a.Wins} {
			if text == "" {
				t.Errorf("%s: %s is empty", a.Name, field)
			}
		}
		if a.From != "" && a.From != forgery.HeldOut && a.From != forgery.Outside {
			t.Errorf("%s comes from %q", a.Name, a.From)
		}
		for i, o := range a.Expected {
			if o != forgery.Wins && o != forgery.Fails {
				t.Errorf("%s: expects %q of %s", a.Name, o, forgery.Records[i].Record)
			}
		}
		if lost := a.Expected[3] == forgery.Wins; lost != (a.Lost != "") {
			t.Errorf("%s: expected %s against observation, and Lost is %q; say why exactly where it is lost", a.Name, a.Expected[3], a.Lost)
		}
	}
}
