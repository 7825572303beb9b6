package input

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
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

// Files asks for the files that the step demands, once its evidence is there.
func Files(k *Task, r run.Run) (driver.Input, error) {
	checks, err := FileChecks(k)
	if err != nil {
		return driver.Input{}, err
	}
	shown := filesDisplay{Files: k.Common.Files, Roots: r.Roots}
	if slices.ContainsFunc(checks, func(c filecheck.Check) bool { return c.NewerThanRun }) {
		began := r.CreatedAt.UTC()
		shown.Since = &began
	}
	display, err := json.Marshal(shown)
	if err != nil {
		return driver.Input{}, fmt.Errorf("encode the files of step %d: %w", k.Where.Index, err)
	}
	in := driver.Input{
		ID: driver.KindFiles, Kind: driver.KindFiles, Type: k.Common.Type, Display: display,
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

// FileChecks reads the demanded files with their templates filled. A value that
// spoils the list is an error. A list that was stored before anybody judged
// lists may be unsound by itself: there are no checks then, and a report of it
// is compared with nothing, as ever.
func FileChecks(k *Task) ([]filecheck.Check, error) {
	checks, found := filecheck.Parse(k.Common.Files)
	if len(found) == 0 {
		return checks, nil
	}
	if len(k.Step.FileProblems()) > 0 {
		return nil, nil
	}
	return nil, fault.New(fault.InvalidArgument, "A value cannot be put into the files of step %d: %s", k.Where.Index, Describe(found)).
		WithNext("begin another run whose input and results give names of files below a root, or attest this one as a failure")
}

// FilesMismatch says in what the files are not as demanded, or nothing.
func FilesMismatch(k *Task, a driver.Answer) (string, error) {
	if a.Provenance != driver.AgentReported {
		result, _ := filecheck.ReadResult(a.Value)
		if result.Passed {
			return "", nil
		}
		return cmp.Or(plain.Clip(result.Message, 2000), "The files are not as this step demands."), nil
	}
	checks, err := FileChecks(k)
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

func takesFileReport(k *Task) bool { return !k.Common.FilesRequired }

func noFiles(step int, troubles string) *fault.Error {
	return fault.New(fault.FilesUnverified, "Step %d demands files that the server has to look at itself, and it cannot%s", step, troubles)
}

// settleFiles checks that an answer says something about the files. Its content
// is checked once it is recorded.
func settleFiles(k *Task, _ Setting, a driver.Answer) (Settlement, error) {
	if a.Provenance != driver.AgentReported {
		if _, ok := filecheck.ReadResult(a.Value); !ok {
			return Settlement{Unusable: "it does not say whether the files passed"}, nil
		}
		return Settlement{}, nil
	}
	checks, err := FileChecks(k)
	if err != nil || len(checks) == 0 {
		return Settlement{}, err
	}
	if _, problems := filecheck.ReadReport(a.Value); len(problems) > 0 {
		return Settlement{Refused: "the report of the files cannot be read: " + Describe(problems)}, nil
	}
	return Settlement{}, nil
}
