package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// documented calls the Python driver of docs/reference/driver-wire.md.
func documented(t *testing.T) *driverrpc.ExecClient {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("PYTHON IS MISSING, the driver in docs/reference/driver-wire.md was not tried: install Python 3")
	}
	manual, err := os.ReadFile("reference/driver-wire.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(manual), "```python\n")
	program, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("driver-wire.md holds no Python driver")
	}
	file := filepath.Join(t.TempDir(), "contains")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return driverrpc.NewExecClient(func(ctx context.Context, method string, request []byte) ([]byte, error) {
		cmd := exec.CommandContext(ctx, python, file, driverrpc.CallFlag, method)
		if method == driverrpc.MethodDescribe {
			cmd = exec.CommandContext(ctx, python, file, driverrpc.DescribeFlag)
		}
		cmd.Stdin = bytes.NewReader(request)
		reply, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		return reply, nil
	})
}

// TestTheDriverInTheWireDocumentationWorks plays a step with it.
func TestTheDriverInTheWireDocumentationWorks(t *testing.T) {
	c := documented(t)
	if d, err := c.Describe(t.Context()); err != nil || d.Transport != driver.TransportExec {
		t.Errorf("Describe = %+v, %v", d, err)
	}
	if err := c.CheckHealth(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err := c.Challenge().Validate(t.Context(), driver.ValidateRequest{Challenge: json.RawMessage(`{"contains":{}}`)}); err != nil || len(r.Diagnostics) != 1 {
		t.Errorf("Validate = %+v, %v, want one diagnostic", r, err)
	}
	req := driver.AdvanceRequest{Challenge: json.RawMessage(`{"contains":{"word":"tea"}}`)}
	if r, err := c.Challenge().Advance(t.Context(), req); err != nil || len(r.NeedInput) != 1 {
		t.Errorf("Advance without an answer = %+v, %v, want one input needed", r, err)
	}
	for value, accepted := range map[string]bool{`"hot tea"`: true, `"coffee"`: false, `5`: false} {
		req.Answers = []driver.Answer{{InputID: "evidence", Value: json.RawMessage(value), Provenance: driver.AgentReported}}
		r, err := c.Challenge().Advance(t.Context(), req)
		if err != nil || (r.Accepted != nil) != accepted || (r.Rejected != nil) == accepted {
			t.Errorf("Advance with %s = %+v, %v, want accepted: %t", value, r, err, accepted)
		}
	}
}

func TestTheDriverInTheWireDocumentationBreaksNoRule(t *testing.T) {
	c := documented(t)
	d, err := c.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	challenge := json.RawMessage(`{"type":"contains","contains":{"word":"tea"}}`)
	says := func(value string) driver.AdvanceRequest {
		return driver.AdvanceRequest{Challenge: challenge, Answers: []driver.Answer{
			{InputID: "evidence", Value: json.RawMessage(value), Provenance: driver.AgentReported}}}
	}
	report, err := drivertest.Verify(t.Context(), drivertest.Subject{
		Descriptor: d, Challenge: c.Challenge(), Configurer: c, Samples: []drivertest.Sample{
			{Name: "valid", Request: driver.ValidateRequest{Challenge: challenge}, Want: drivertest.Valid},
			{Name: "first round", Request: driver.AdvanceRequest{Challenge: challenge}, Want: drivertest.NeedInput},
			{Name: "there", Request: says(`"hot tea"`), Want: drivertest.Accepted},
			{Name: "missing", Request: says(`"coffee"`), Want: drivertest.Rejected},
		},
	}, drivertest.Options{Only: []string{
		"descriptor/valid", "health/*", "sample/*", "call/sound-result", "call/says-why", "challenge/garbage", "challenge/pointers",
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report.Results {
		if result.Status == drivertest.Failed || result.Status == drivertest.Warned {
			t.Error(result.Line())
		}
	}
}
