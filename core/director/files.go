package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// filesDisplay is what a files input shows: to the driver that looks at the
// files, and to an agent that has to report them.
type filesDisplay struct {
	Files json.RawMessage `json:"files"`
	// Roots that the run began with.
	Roots []string `json:"roots,omitempty"`
	// Since is when the run began, where a file has to be newer.
	Since *time.Time `json:"since,omitempty"`
}

// filesInput asks for the files that the step demands, once its evidence is there.
func (ob *obtaining) filesInput(k task) (driver.Input, error) {
	checks, err := soundFiles(k)
	if err != nil {
		return driver.Input{}, err
	}
	shown := filesDisplay{Files: k.common.Files, Roots: ob.t.Run.Roots}
	if slices.ContainsFunc(checks, func(c filecheck.Check) bool { return c.NewerThanRun }) {
		began := ob.t.Run.CreatedAt.UTC()
		shown.Since = &began
	}
	display, err := json.Marshal(shown)
	if err != nil {
		return driver.Input{}, fmt.Errorf("encode the files of step %d: %w", k.where.Index, err)
	}
	in := driver.Input{
		ID: driver.KindFiles, Kind: driver.KindFiles, Type: k.common.Type, Display: display,
		Description: demanded(checks), Approval: driver.ApprovalAuto,
	}
	if len(checks) > 0 {
		in.Schema = filecheck.ReportSchema
	}
	return in, nil
}

func demanded(checks []filecheck.Check) string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = fmt.Sprintf("%s (%s)", c.Name(), c.Made())
	}
	return plain.Clip("This step demands files: "+strings.Join(names, "; ")+".", 2000)
}

// soundFiles reads the demanded files with their templates filled. A value that
// spoils the list is an error. A list that was stored before anybody judged
// lists may be unsound by itself: there are no checks then, and a report of it
// is compared with nothing, as ever.
func soundFiles(k task) ([]filecheck.Check, error) {
	checks, found := filecheck.Parse(k.common.Files)
	if len(found) == 0 {
		return checks, nil
	}
	if len(k.step.FileProblems()) > 0 {
		return nil, nil
	}
	return nil, fault.New(fault.InvalidArgument, "A value cannot be put into the files of step %d: %s", k.where.Index, describe(found)).
		WithNext("begin another run whose input and results give names of files below a root, or attest this one as a failure")
}

// fileTrouble says what is wrong with an answer to a files input before anybody
// looks at what it says; nil: nothing.
func (ob *obtaining) fileTrouble(ctx context.Context, a driver.Answer, r decision.Route, seq int64) (Round, bool, error) {
	k, err := ob.t.open(ctx)
	if err != nil {
		return Round{}, true, err
	}
	if a.Provenance != driver.AgentReported {
		if _, ok := filecheck.ReadResult(a.Value); ok {
			return Round{}, false, nil
		}
		return Round{}, true, ob.closeRoute(ctx, driver.KindFiles, r, decision.Errored, "it does not say whether the files passed", seq)
	}
	checks, err := soundFiles(k)
	if err != nil || len(checks) == 0 {
		return Round{}, err != nil, err
	}
	_, problems := filecheck.ReadReport(a.Value)
	if len(problems) == 0 {
		return Round{}, false, nil
	}
	round, err := ob.t.replies.refuse(ctx, fault.MissingField, "the report of the files cannot be read: "+describe(problems))
	return round, true, err
}

// filesSettled takes what was said of the files, which is recorded by now:
// files that are not as demanded make the whole step wrong, unless it passes
// anyway.
func (ob *obtaining) filesSettled(ctx context.Context, a driver.Answer) (Round, error) {
	k, err := ob.t.open(ctx)
	if err != nil {
		return Round{}, err
	}
	why, err := mismatch(k, a)
	if err != nil {
		return Round{}, err
	}
	if why != "" && k.common.IsRequired() {
		return ob.t.replies.reject(ctx, fault.FilesMismatch, why)
	}
	return Round{}, ob.moreDue()
}

// mismatch says in what the files are not as demanded, or nothing.
func mismatch(k task, a driver.Answer) (string, error) {
	if a.Provenance != driver.AgentReported {
		result, _ := filecheck.ReadResult(a.Value)
		if result.Passed {
			return "", nil
		}
		return cmp.Or(plain.Clip(result.Message, 2000), "The files are not as this step demands."), nil
	}
	checks, err := soundFiles(k)
	if err != nil || len(checks) == 0 {
		return "", err
	}
	report, _ := filecheck.ReadReport(a.Value)
	found := report.Contradictions(checks)
	if len(found) == 0 {
		return "", nil
	}
	return plain.Clip("The report says itself that the files are not as this step demands: "+strings.Join(found, "; "), 2000), nil
}
