package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// TestNoFaultOrdersALoop: the reply to a halt, whatever its code, either names a call that differs
// from the one that was made, or leaves the agent its own judgement and says what others have to do.
func TestNoFaultOrdersALoop(t *testing.T) {
	local := func(s *plan.State) { s.Caller.Client.Transport = "stdio" }
	roots := func(s *plan.State) { s.Run.Roots = []string{"/srv"} }
	empty := submitted(`{"type":"shell","nonce":"nonce"}`)
	for name, edit := range map[string]edits{
		"nothing was sent":               nil,
		"a placeholder was sent":         {empty},
		"evidence was sent":              {report},
		"over stdio":                     {local, empty},
		"over stdio, with roots":         {local, roots, empty},
		"a person declined":              {declined("evidence", "form"), empty},
		"a person declined, on the page": {declined("evidence", "page"), empty},
		"it failed often":                {empty, func(s *plan.State) { s.Run.Step.Failures = 3 }},
	} {
		for _, row := range fault.Table {
			s := state(t, edit...)
			r := plan.HaltReply(s, fault.New(row.Code, "It does not work."))
			switch {
			case r.MustObey != (r.NextCall != nil):
				t.Errorf("%s, %s: must_obey is %t and next_call %+v", name, row.Code, r.MustObey, r.NextCall)
			case r.NextCall == nil && !strings.Contains(r.NextAction, "kairos_attest"):
				t.Errorf("%s, %s: next_action = %q, want a way to end the run", name, row.Code, r.NextAction)
			case r.NextCall != nil && r.NextCall.Tool == api.ToolNext && sameSolution(t, r.NextCall, s):
				t.Errorf("%s, %s: the next call %s is the one that was made", name, row.Code, r.NextCall.Arguments)
			}
		}
	}
}

// sameSolution reports whether the call has neither evidence nor a hash where the last one had neither.
func sameSolution(t *testing.T, c *api.NextCall, s *plan.State) bool {
	t.Helper()
	var next struct {
		Solution map[string]any `json:"solution"`
	}
	if err := json.Unmarshal(c.Arguments, &next); err != nil {
		t.Fatal(err)
	}
	return len(next.Solution) == 2 && !s.Solution.Supplied()
}

func TestFilesThatNobodyCanLookAtAreSoughtInARunWithRoots(t *testing.T) {
	f := fault.New(fault.FilesUnverified, "Nobody can look.")
	local := func(s *plan.State) {
		s.Caller.Client.Transport = "stdio"
		s.Run.Input = json.RawMessage(`{"name":"x"}`)
	}
	s := state(t, local)
	r := plan.HaltReply(s, f)
	if !r.MustObey || r.NextCall == nil || r.NextCall.Tool != api.ToolBegin {
		t.Fatalf("HaltReply = %+v, want kairos_begin", r)
	}
	var next struct {
		URI   string            `json:"uri"`
		Roots []string          `json:"roots"`
		Input map[string]string `json:"input"`
	}
	if err := json.Unmarshal(r.NextCall.Arguments, &next); err != nil {
		t.Fatal(err)
	}
	if len(next.Roots) != 1 || !strings.HasPrefix(next.Roots[0], "<") || next.Input["name"] != "x" || !strings.HasSuffix(next.URI, "1") {
		t.Errorf("next_call = %s, want the first step, a place for a folder, and the input of the run", r.NextCall.Arguments)
	}
	s.Run.Roots = []string{"/srv"}
	if r := plan.HaltReply(s, f); r.MustObey || r.NextCall != nil {
		t.Errorf("with roots HaltReply = %+v, want no call", r)
	}
	remote := state(t, func(s *plan.State) { s.Caller.Client = driver.Client{Transport: "http"} })
	if r := plan.HaltReply(remote, f); r.MustObey || r.NextCall != nil {
		t.Errorf("for a client elsewhere HaltReply = %+v, want no call", r)
	}
}

func TestALinkEndsTheMessage(t *testing.T) {
	r := plan.WithLink(api.StepReply{Message: "Nobody has answered yet.", ApprovalURL: "https://example.com/approve/x"})
	if want := "Nobody has answered yet. The approval page: https://example.com/approve/x"; r.Message != want {
		t.Errorf("message = %q, want %q", r.Message, want)
	}
}
