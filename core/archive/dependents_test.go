package archive_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
)

func (w *world) dependents(name string) []archive.Dependent {
	w.t.Helper()
	runs, err := w.Dependents(w.t.Context(), w.caller, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return runs
}

func TestRunsDependOnTheJudgeOfTheirOpenStepOnly(t *testing.T) {
	w := newWorld(t, 0)
	id := w.begin(w.mint(driverstest.ThreeSteps)[0]) // shell, shell, comment
	if got := w.dependents("shell"); len(got) != 1 || got[0].Run != id || got[0].Step != 1 || got[0].Label != "First" {
		t.Errorf("dependents of shell at step 1: %+v, want the run", got)
	}
	for _, name := range []string{"comment", "agent", "nobody"} {
		if got := w.dependents(name); len(got) != 0 {
			t.Errorf("dependents of %s at step 1: %+v, want none", name, got)
		}
	}
	w.solve(id)
	w.solve(id)
	if got := w.dependents("shell"); len(got) != 0 {
		t.Errorf("dependents of shell at step 3: %+v, want none", got)
	}
	if got := w.dependents("comment"); len(got) != 1 {
		t.Errorf("dependents of comment at step 3: %+v, want the run", got)
	}
	other := w.caller
	other.Principal = "somebody else"
	if got, err := w.Dependents(t.Context(), other, "comment"); err != nil || len(got) != 0 {
		t.Errorf("dependents for another principal: %+v, %v, want none", got, err)
	}
	other.Operator = true
	if got, err := w.Dependents(t.Context(), other, "comment"); err != nil || len(got) != 1 {
		t.Errorf("dependents for an operator: %+v, %v, want the run", got, err)
	}
	w.solve(id)
	if got := w.dependents("comment"); len(got) != 0 {
		t.Errorf("dependents of comment after the last step: %+v, want none", got)
	}
}

func TestARunDependsOnTheDriverWhoseQuestionIsOpen(t *testing.T) {
	w := newWorld(t, 0)
	w.asks(w.begin(w.mint(driverstest.ThreeSteps)[0]), "elicitation")
	for name, want := range map[string]int{"elicitation": 1, "shell": 1, "sampling": 0} {
		if got := w.dependents(name); len(got) != want {
			t.Errorf("dependents of %s: %+v, want %d", name, got, want)
		}
	}
}
