package drivertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func someReport() drivertest.Report {
	return drivertest.Report{
		Driver: driver.Descriptor{Name: "counter", Version: "1.0.0", Role: driver.RoleChallenge, Effect: driver.EffectPure},
		Results: []drivertest.Result{
			{ID: "a/passed", Level: drivertest.Must, Status: drivertest.Passed, Rule: "it works", Took: time.Second},
			{ID: "a/failed", Level: drivertest.Must, Status: drivertest.Failed, Rule: "it is sound", Detail: "it <broke>\nin two"},
			{ID: "a/warned", Level: drivertest.Should, Status: drivertest.Warned, Rule: "it is quick", Detail: "2s"},
			{ID: "a/skipped", Level: drivertest.Must, Status: drivertest.Skipped, Rule: "a decline stays", Detail: "no sample", Give: "a decline"},
			{ID: "a/other", Level: drivertest.Must, Status: drivertest.NotConcerned, Rule: "it asks", Detail: "it judges"},
		},
	}
}

func TestReportForPeopleHasALineForEachCheckAndTheCount(t *testing.T) {
	var out bytes.Buffer
	if err := someReport().Human(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"counter 1.0.0, challenge driver, pure, transport grpc\n", "FAIL MUST   a/failed ", "       in two\n", "warn SHOULD a/warned ",
		"skip MUST   a/skipped                   no sample; give a decline\n", "  a decline\n",
		"5 checks: 1 passed, 1 failed, 1 warned, 1 skipped, 1 not about this driver\nFAIL\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := someReport().JSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict string
		Counts  map[string]int
		Wanted  []string
		Checks  []struct {
			ID, Status, Give string
			TookMS           float64 `json:"took_ms"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Verdict != "fail" || got.Counts["failed"] != 1 || len(got.Checks) != 5 || got.Checks[0].TookMS != 1000 || len(got.Wanted) != 1 {
		t.Errorf("the report is %s", out.String())
	}
}

func TestReportAsJUnit(t *testing.T) {
	var out bytes.Buffer
	if err := someReport().JUnit(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Text string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 5 || got.Failures != 1 || got.Skipped != 2 || got.Cases[1].Failure == nil ||
		got.Cases[1].Failure.Text != "it <broke>\nin two" || got.Cases[2].Failure != nil {
		t.Errorf("the report is %s", out.String())
	}
}

// TestNearMisses: a file of samples that is almost right is refused and told why.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"not JSON":      {`{`, "ends too early"},
		"empty":         {" \n", "the file is empty"},
		"list":          {`[]`, `must be an object with "config" and "samples"`},
		"wrong type":    {`{"samples":{}}`, `"samples" cannot be of type object`},
		"wrong request": {`{"samples":[{"name":"a","method":"Render","request":[]}]}`, "it is of type array, and must be an object"},
		"unknown key":   {`{"sample":[]}`, `unknown field "sample"`},
		"no name":       {`{"samples":[{"method":"Render","request":{}}]}`, "sample 1"},
		"method":        {`{"samples":[{"name":"a","method":"Judge","request":{}}]}`, `method "Judge"`},
		"outcome":       {`{"samples":[{"name":"a","method":"Render","request":{},"want":"accepted"}]}`, `"accepted" is not an outcome of Render`},
		"no request":    {`{"samples":[{"name":"a","method":"Render"}]}`, "no request"},
		"request's key": {`{"samples":[{"name":"a","method":"Advance","request":{"answer":1}}]}`, `unknown field "answer"`},
		"twice":         {`{"samples":[{"name":"a","method":"Render","request":{}},{"name":"a","method":"Render","request":{}}]}`, "twice"},
		"more":          {`{} {}`, "something behind"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := drivertest.ParseSamples([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ParseSamples(%s) = %v, want an error with %q", tc.text, err, tc.want)
			}
		})
	}
}

func TestVerifyNamesTheCallersMistakes(t *testing.T) {
	s := direct(t, "desk", "")
	if _, err := drivertest.Verify(t.Context(), s, drivertest.Options{Only: []string{"["}}); err == nil {
		t.Error("took a broken pattern")
	}
	s.Samples = []drivertest.Sample{{Name: "other role", Request: driver.ValidateRequest{}}}
	if _, err := drivertest.Verify(t.Context(), s, drivertest.Options{}); err == nil || !strings.Contains(err.Error(), "Validate is for challenge drivers") {
		t.Errorf("Verify = %v, want an error about the sample", err)
	}
}

func TestOnlyTheNamedChecksRun(t *testing.T) {
	report := verify(t, direct(t, "desk", ""), drivertest.Options{Only: []string{"descriptor/*", "health/answers"}})
	if len(report.Results) != 3 {
		t.Errorf("%d checks ran, want 3: %+v", len(report.Results), report.Results)
	}
}

// A driver that hangs in spite of its context must not hang the report.
func TestHangingDriverIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	s := direct(t, "desk", "")
	s.Configurer = hanging{release}
	report := verify(t, s, drivertest.Options{Only: []string{"health/answers"}, Timeout: 10 * time.Millisecond, Soon: 10 * time.Millisecond})
	close(release)
	if r := report.Results[0]; r.Status != drivertest.Failed || !strings.Contains(r.Detail, "ran out of its time limit of 10ms (give more with --timeout)") {
		t.Errorf("the result is %+v", r)
	}
}

type hanging struct{ release chan struct{} }

func (h hanging) Configure(context.Context, json.RawMessage, bool) ([]driver.Diagnostic, error) {
	return nil, nil
}

func (h hanging) CheckHealth(context.Context) error {
	<-h.release
	return nil
}

type interrupting struct {
	driver.Configurer
	cancel context.CancelFunc
}

func (i interrupting) CheckHealth(context.Context) error {
	i.cancel()
	return nil
}

// A cancelled run reports what it knows, and passes nothing.
func TestInterruptedRunReportsWhatItFound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := direct(t, "desk", "")
	s.Configurer = interrupting{cancel: cancel}
	report, err := drivertest.Verify(ctx, s, drivertest.Options{Only: []string{"descriptor/valid", "health/answers"}})
	if !errors.Is(err, context.Canceled) || len(report.Results) != 1 || !report.Interrupted {
		t.Fatalf("Verify = %+v, %v, want one result and context.Canceled", report, err)
	}
	var out bytes.Buffer
	if err := report.Human(&out); err != nil || !strings.HasSuffix(out.String(), "\nINTERRUPTED\n") {
		t.Errorf("the report is %s", out.String())
	}
}

// The driver is not at fault for a call that ends because the check's time is over.
func TestEndOfACheckIsNotTakenForAnAnswer(t *testing.T) {
	s := direct(t, "counter", "")
	s.Challenge = slow{s.Challenge}
	report := verify(t, s, drivertest.Options{Only: []string{"call/repeatable"}, Timeout: 20 * time.Millisecond})
	const want = "the check ran out of its time limit of 20ms (give more with --timeout)"
	if r := report.Results[0]; r.Status != drivertest.Failed || r.Detail != want {
		t.Errorf("the result is %+v, want %q", r, want)
	}
}

// slow gives no answer to Advance before its caller is gone.
type slow struct{ driver.Challenge }

func (s slow) Advance(ctx context.Context, _ driver.AdvanceRequest) (driver.AdvanceResult, error) {
	<-ctx.Done()
	return driver.AdvanceResult{}, ctx.Err()
}

func TestReportWithoutAnythingCheckedDoesNotPass(t *testing.T) {
	report := verify(t, direct(t, "desk", ""), drivertest.Options{Only: []string{"challenge/*", "process/*"}})
	var out bytes.Buffer
	if err := report.Human(&out); err != nil || report.Checked() != 0 || !strings.HasSuffix(out.String(), "\nNOTHING WAS CHECKED\n") {
		t.Errorf("the report is %s", out.String())
	}
}

// A very large sample is called, but not again and again.
func TestVeryLargeSamplesAreLeftOutOfManyCalls(t *testing.T) {
	s := direct(t, "counter", "")
	s.Samples = append(s.Samples, drivertest.Sample{Name: "large", Request: driver.ValidateRequest{
		Challenge: json.RawMessage(`{"counter":"` + strings.Repeat("a", 10<<20) + `"}`)}})
	report := verify(t, s, drivertest.Options{Only: []string{"sample/outcome", "call/repeatable", "call/no-growth"}})
	for _, r := range report.Results {
		leftOut := strings.Contains(r.Detail, `left out: sample "large"`)
		if r.Status != drivertest.Passed || leftOut != (r.ID != "sample/outcome") {
			t.Error(r.Line())
		}
	}
}
