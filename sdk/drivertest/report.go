package drivertest

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Status is what came of a check.
type Status string

// The statuses.
const (
	Passed Status = "passed"
	// Failed: a MUST is broken.
	Failed Status = "failed"
	// Warned: a SHOULD is broken.
	Warned Status = "warned"
	// Skipped: the check could not run, but could with what Give names.
	Skipped Status = "skipped"
	// NotConcerned: the rule is not about this driver.
	NotConcerned Status = "not_concerned"
)

// Result is what came of one check.
type Result struct {
	ID     string        `json:"id"`
	Level  Level         `json:"level"`
	Status Status        `json:"status"`
	Rule   string        `json:"rule"`
	Detail string        `json:"detail,omitempty"` // what is wrong, why it did not run, or which samples it left out
	Give   string        `json:"give,omitempty"`   // what would make a skipped one run
	Took   time.Duration `json:"-"`
}

// Report is the verdict on a driver.
type Report struct {
	Driver  driver.Descriptor // the zero value: it could not be described
	Results []Result          // in the order of Checks
	Began   time.Time
	Took    time.Duration
	// Interrupted: the context ended before all checks had run.
	Interrupted bool
}

// Conforms reports whether no MUST is broken.
func (r Report) Conforms() bool { return r.Count(Failed) == 0 }

// Count is the number of checks that came to the status.
func (r Report) Count(status Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == status {
			n++
		}
	}
	return n
}

// Wanted lists what would make the skipped checks run, each once.
func (r Report) Wanted() []string {
	var out []string
	for _, result := range r.Results {
		if result.Status == Skipped {
			out = appendNew(out, result.Give)
		}
	}
	return out
}

// Checked is the number of checks that ran, whatever came of them.
func (r Report) Checked() int { return r.Count(Passed) + r.Count(Failed) + r.Count(Warned) }

func (r Report) verdict() string {
	switch {
	case !r.Conforms():
		return "fail"
	case r.Interrupted:
		return "interrupted"
	case r.Checked() == 0:
		return "nothing was checked"
	}
	return "pass"
}

// signs are how the statuses look in the text, all of one width.
var signs = map[Status]string{Passed: "ok  ", Failed: "FAIL", Warned: "warn", Skipped: "skip", NotConcerned: "-   "}

// Line is the result on one line; a finding follows below it, indented.
func (r Result) Line() string {
	line := fmt.Sprintf("%s %-6s %-27s ", signs[r.Status], r.Level, r.ID)
	switch r.Status {
	case Skipped:
		return line + r.Detail + "; give " + r.Give
	case NotConcerned:
		return line + r.Detail
	}
	if r.Detail != "" {
		return line + r.Rule + "\n       " + strings.ReplaceAll(r.Detail, "\n", "\n       ")
	}
	return line + r.Rule
}

// Human writes the report for people: the checks, then the count.
func (r Report) Human(w io.Writer) error {
	var b strings.Builder
	if d := r.Driver; d.Name == "" {
		fmt.Fprintln(&b, "a driver that could not be described")
	} else {
		fmt.Fprintf(&b, "%s %s, %s driver, %s, transport %s\n",
			printable(d.Name), printable(d.Version), d.Role, d.Effect, printable(string(cmp.Or(d.Transport, "grpc"))))
	}
	for _, result := range r.Results {
		fmt.Fprintln(&b, result.Line())
	}
	if wanted := r.Wanted(); len(wanted) > 0 {
		fmt.Fprintln(&b, "\nto run what was skipped, give:")
		for _, give := range wanted {
			fmt.Fprintf(&b, "  %s\n", give)
		}
	}
	fmt.Fprintf(&b, "\n%d checks: %d passed, %d failed, %d warned, %d skipped, %d not about this driver\n%s\n",
		len(r.Results), r.Count(Passed), r.Count(Failed), r.Count(Warned), r.Count(Skipped), r.Count(NotConcerned),
		strings.ToUpper(r.verdict()))
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON writes the report as one JSON object.
func (r Report) JSON(w io.Writer) error {
	type check struct {
		Result
		TookMS float64 `json:"took_ms"`
	}
	checks := make([]check, len(r.Results))
	for i, result := range r.Results {
		checks[i] = check{result, milliseconds(result.Took)}
	}
	var described *driver.Descriptor
	if r.Driver.Name != "" {
		described = &r.Driver
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Verdict string             `json:"verdict"`
		Driver  *driver.Descriptor `json:"driver,omitempty"`
		Counts  map[Status]int     `json:"counts"`
		Wanted  []string           `json:"wanted,omitempty"`
		Began   time.Time          `json:"began"`
		TookMS  float64            `json:"took_ms"`
		Checks  []check            `json:"checks"`
	}{r.verdict(), described, r.counts(), r.Wanted(), r.Began.UTC(), milliseconds(r.Took), checks})
}

func (r Report) counts() map[Status]int {
	out := map[Status]int{}
	for status := range signs {
		out[status] = r.Count(status)
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

type junitSuite struct {
	XMLName   xml.Name    `xml:"testsuite"`
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes the report as the XML that CI systems read. That format has no
// warnings: a broken SHOULD is a passed case whose output says so.
func (r Report) JUnit(w io.Writer) error {
	name := cmp.Or(r.Driver.Name, "driver")
	suite := junitSuite{
		Name: "kairos driver " + name, Tests: len(r.Results), Failures: r.Count(Failed),
		Skipped: r.Count(Skipped) + r.Count(NotConcerned), Time: seconds(r.Took), Timestamp: r.Began.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, result := range r.Results {
		suite.Cases = append(suite.Cases, result.junit(name))
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r Result) junit(name string) junitCase {
	c := junitCase{Class: "kairos.driver." + name, Name: r.ID, Time: seconds(r.Took)}
	switch r.Status {
	case Failed:
		c.Failure = &junitMessage{Message: r.Rule, Type: string(r.Level), Text: r.Detail}
	case Skipped:
		c.Skipped = &junitMessage{Message: r.Detail + "; give " + r.Give}
	case NotConcerned:
		c.Skipped = &junitMessage{Message: "not about this driver: " + r.Detail}
	case Warned:
		c.Output = "warning: " + r.Rule + "\n" + r.Detail
	}
	return c
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
