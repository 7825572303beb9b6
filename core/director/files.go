package director

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

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
