package director_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/sdk/driver"
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
	w := newWorld(t, nil)
	w.begin(w.mint(ward)[0])
	w.wantUnserved([]string{}, []string{})
}

func TestStepsAndRunsOfABrokenDriverAreListed(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(ward)
	w.begin(uris[0])
	w.drivers.set("shell", true)
	w.wantUnserved([]string{"First shell shell broken"}, []string{"First shell shell broken"})
	u := w.unserved()
	if s := u.Steps[0]; s.URI != uris[0] || s.Step != 1 || s.Protocol != "Ward" || !strings.Contains(s.Problem, "shell is broken") {
		t.Errorf("the step is %+v, want its place and the driver's own words", s)
	}
	if u.Runs[0].Run == "" {
		t.Error("the run has no id")
	}
	w.drivers.set("shell", false)
	w.wantUnserved([]string{}, []string{})
}

func TestRunsThatArePastTheStepDoNotWait(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(ward)
	r := w.begin(uris[0])
	w.at(w.next(uris[0], solve(r, `{"ok":true}`)), uris[1])
	w.drivers.set("shell", true)
	w.wantUnserved([]string{"First shell shell broken"}, []string{})
}

func TestRunsThatAreOverDoNotWait(t *testing.T) {
	w := newWorld(t, nil)
	w.begin(w.mint(ward)[0])
	w.machine.Pass(100 * 24 * 3600e9)
	w.drivers.set("shell", true)
	w.wantUnserved([]string{"First shell shell broken"}, []string{})
}

func TestStepsOfADriverThatIsGoneAreListed(t *testing.T) {
	w := newWorld(t, nil)
	w.begin(w.mint(ward)[0])
	var left []driver.Descriptor
	for name, d := range descriptors {
		if name != "shell" {
			left = append(left, d)
		}
	}
	tree, err := decision.Compile(decision.Default(), left)
	if err != nil {
		t.Fatal(err)
	}
	w.setups.replace(drivers.Setup{Drivers: w.drivers, Tree: tree})
	w.wantUnserved([]string{"First shell  gone"}, []string{"First shell  gone"})
}

func TestStepsThatADriverNoLongerTakesAreListed(t *testing.T) {
	w := newWorld(t, nil)
	w.begin(w.mint(ward)[0])
	w.drivers.set("strict shell", true)
	w.wantUnserved([]string{"First shell shell refuses"}, []string{"First shell shell refuses"})
	if p := w.unserved().Steps[0].Problem; !strings.Contains(p, "/shell") {
		t.Errorf("the problem is %q, want the driver's diagnostic with its pointer", p)
	}
}

func TestUnservedChangesNoRun(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(ward)
	r := w.begin(uris[0])
	w.drivers.set("shell", true)
	w.unserved()
	w.drivers.set("shell", false)
	next := w.next(uris[0], solve(r, `{"ok":true}`))
	w.at(next, uris[1])
	if next.RetryCount != nil {
		t.Errorf("retry_count = %d, want none", *next.RetryCount)
	}
}
