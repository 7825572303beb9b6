package archive_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
)

const ward = `# Ward

## First

` + "```json\n{\"challenge\": {\"type\": \"shell\", \"shell\": {\"cmd\": \"true\"}}}\n```" + `

## Second

` + "```json\n{\"challenge\": {\"type\": \"mcp\", \"mcp\": {\"tool_name\": \"t\"}}}\n```" + `

## Read
`

func (w *world) unserved() archive.Unserved {
	w.t.Helper()
	u, err := w.Unserved(context.Background(), w.caller)
	if err != nil {
		w.t.Fatalf("Unserved: %v", err)
	}
	return u
}

// told is what a finding says, in short.
func told(s archive.UnservedStep) string {
	return strings.Join([]string{s.Label, s.Type, s.Driver, string(s.Trouble)}, " ")
}

func (w *world) wantUnserved(steps, runs []string) {
	w.t.Helper()
	u := w.unserved()
	gotSteps, gotRuns := []string{}, []string{}
	for _, s := range u.Steps {
		gotSteps = append(gotSteps, told(s))
	}
	for _, r := range u.Runs {
		gotRuns = append(gotRuns, told(r.UnservedStep))
	}
	if diff := cmp.Diff(steps, gotSteps); diff != "" {
		w.t.Errorf("unserved steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(runs, gotRuns); diff != "" {
		w.t.Errorf("unserved runs (-want +got):\n%s", diff)
	}
}

func TestNothingIsUnservedWhileTheDriversServe(t *testing.T) {
	w := newWorld(t, 0)
	w.begin(w.mint(ward)[0])
	w.wantUnserved([]string{}, []string{})
}

func TestStepsAndRunsOfABrokenDriverAreListed(t *testing.T) {
	w := newWorld(t, 0)
	uris := w.mint(ward)
	w.begin(uris[0])
	w.drivers["shell"] = true
	w.wantUnserved([]string{"First shell shell broken"}, []string{"First shell shell broken"})
	u := w.unserved()
	if s := u.Steps[0]; s.URI != uris[0] || s.Step != 1 || s.Protocol != "Ward" || !strings.Contains(s.Problem, "shell is broken") {
		t.Errorf("the step is %+v, want its place and the driver's own words", s)
	}
	if u.Runs[0].Run == "" {
		t.Error("the run has no id")
	}
	w.drivers["shell"] = false
	w.wantUnserved([]string{}, []string{})
}

func TestRunsThatArePastTheStepDoNotWait(t *testing.T) {
	w := newWorld(t, 0)
	w.solve(w.begin(w.mint(ward)[0]))
	w.drivers["shell"] = true
	w.wantUnserved([]string{"First shell shell broken"}, []string{})
}

func TestRunsThatAreOverDoNotWait(t *testing.T) {
	w := newWorld(t, 0)
	w.begin(w.mint(ward)[0])
	w.machine.Pass(100 * 24 * 3600e9)
	w.drivers["shell"] = true
	w.wantUnserved([]string{"First shell shell broken"}, []string{})
}

func TestStepsOfADriverThatIsGoneAreListed(t *testing.T) {
	w := newWorld(t, 0)
	w.begin(w.mint(ward)[0])
	var err error
	if *w.setup, err = driverstest.Checking(w.drivers, "mcp", "comment", "user_input"); err != nil {
		t.Fatal(err)
	}
	w.wantUnserved([]string{"First shell  gone"}, []string{"First shell  gone"})
}

func TestStepsThatADriverNoLongerTakesAreListed(t *testing.T) {
	w := newWorld(t, 0)
	w.begin(w.mint(ward)[0])
	w.drivers["strict shell"] = true
	w.wantUnserved([]string{"First shell shell refuses"}, []string{"First shell shell refuses"})
	if p := w.unserved().Steps[0].Problem; !strings.Contains(p, "/shell") {
		t.Errorf("the problem is %q, want the driver's diagnostic with its pointer", p)
	}
}

func TestUnservedChangesNoRun(t *testing.T) {
	w := newWorld(t, 0)
	id := w.begin(w.mint(ward)[0])
	before, err := w.store.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	w.drivers["shell"] = true
	w.unserved()
	after, err := w.store.Run(t.Context(), id)
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("the run changed, %v (-before +after):\n%s", err, diff)
	}
}
