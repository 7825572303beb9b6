package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/drivertest/golden"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

var step = driver.Step{Protocol: "Appointment", Label: "Create the event", Index: 4, Count: 4}

func command() driver.Input {
	return driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: "shell", Description: "Run this command: make",
		Display: json.RawMessage(`{"cmd":"make","timeout_seconds":30}`)}
}

func form() driver.Input {
	return driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: "user_input", Description: "How long?", Person: true,
		Approval: driver.ApprovalUser, Display: json.RawMessage(`{"prompt":"How long?"}`)}
}

func approvalInput() driver.Input {
	return driver.Input{ID: "approval", Kind: driver.KindApproval, Type: "mcp", Description: "Approve step 4?", Person: true,
		Display: json.RawMessage(`{"tool_name": "create_event"}`)}
}

func files() driver.Input {
	return driver.Input{ID: "files", Kind: driver.KindFiles, Type: "shell", Description: "The file out.txt must exist."}
}

func TestChallengesAsTheAgentSeesThem(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		for name, req := range map[string]driver.RenderRequest{
			"command":  {Input: command(), Step: step},
			"form":     {Input: form(), Step: step},
			"approval": {Input: approvalInput(), Step: step},
			"files":    {Input: files(), Step: step},
			"repair":   {Input: command(), Step: step, Diagnostics: []driver.Diagnostic{driver.Problem("/shell", "must be an object, not a list")}},
		} {
			res, err := d.Capability.Render(t.Context(), req)
			if err != nil || res.AgentChallenge == nil {
				t.Fatalf("Render(%s) = %+v, %v, want a challenge for the agent", name, res, err)
			}
			golden.Compare(t, name, res.AgentChallenge)
		}
		similarity := driver.RenderRequest{Input: driver.Input{ID: "relevance", Kind: driver.KindSimilarity}}
		if res, err := d.Capability.Render(t.Context(), similarity); err != nil || res.Unavailable == nil {
			t.Errorf("Render(similarity) = %+v, %v, want unavailable", res, err)
		}
	})
}

func TestApprovalIsNotRepeatedWhenTheTextHasIt(t *testing.T) {
	in := approvalInput()
	in.Description = `Approve step 4? mcp: {"tool_name":"create_event"}`
	res, err := agent{}.Render(t.Context(), driver.RenderRequest{Input: in})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(res.AgentChallenge.Description, "create_event"); n != 1 {
		t.Errorf("the action stands %d times in %q, want once", n, res.AgentChallenge.Description)
	}
}

func TestSolutionIsPassedOnAsReported(t *testing.T) {
	const answer, declined, invalid, missing = "answer", "declined", "invalid", "missing"
	for name, tc := range map[string]struct {
		in              driver.Input
		raw, want, says string
	}{
		"by type":          {command(), `{"type":"shell","nonce":"n","shell":{"exit_code":0}}`, answer, `{"exit_code":0}`},
		"by evidence":      {command(), `{"type":"shell","evidence":{"exit_code":1}}`, answer, `{"exit_code":1}`},
		"type first":       {command(), `{"type":"shell","shell":{"exit_code":1},"evidence":{"exit_code":0}}`, answer, `{"exit_code":1}`},
		"blank type":       {command(), `{"type":"shell","shell":{"stdout":" "},"evidence":{"exit_code":0}}`, answer, `{"exit_code":0}`},
		"not judged":       {command(), `{"type":"shell","shell":{"stdout":"trust me"}}`, answer, `{"stdout":"trust me"}`},
		"false counts":     {command(), `{"type":"shell","shell":{"ok":false}}`, answer, `{"ok":false}`},
		"placeholder":      {command(), `{"type":"shell","nonce":"n"}`, missing, "shell"},
		"empty object":     {command(), `{"type":"shell","shell":{}}`, missing, "shell"},
		"blank strings":    {command(), `{"type":"shell","shell":{"stdout":"","stderr":" ","x":[null,""]},"evidence":null}`, missing, "shell"},
		"other type":       {command(), `{"type":"mcp","mcp":{"success":true}}`, missing, "shell"},
		"form":             {form(), `{"type":"user_input","user_input":{"confirmation":"see form"},"evidence":{"minutes":30}}`, answer, `{"minutes":30}`},
		"form as text":     {form(), `{"type":"user_input","user_input":{"confirmation":"30"}}`, answer, `{"confirmation":"30"}`},
		"form placeholder": {form(), `{"type":"user_input","user_input":{"confirmation":""}}`, missing, "user_input"},
		"files":            {files(), `{"type":"shell","shell":{"exit_code":0},"evidence":{"out.txt":{"exists":true}}}`, answer, `{"out.txt":{"exists":true}}`},
		"files elsewhere":  {files(), `{"type":"shell","shell":{"exit_code":0}}`, missing, ""},
		"approved":         {approvalInput(), `{"type":"user_input","user_input":{"confirmation":" Approved "}}`, answer, `{"confirmation":"approved"}`},
		"approved beside":  {approvalInput(), `{"type":"user_input","evidence":{"confirmation":"approved"}}`, answer, `{"confirmation":"approved"}`},
		"rejected":         {approvalInput(), `{"type":"user_input","user_input":{"confirmation":"REJECTED"}}`, declined, "rejected"},
		"unseen":           {form(), `{"type":"user_input","user_input":{"confirmation":"\u200b\u3164"}}`, missing, "user_input"},
		"unseen evidence":  {command(), `{"type":"shell","shell":{"stdout":"\u2800"}}`, missing, "shell"},
		"approved.":        {approvalInput(), `{"type":"user_input","user_input":{"confirmation":"“Approved.”"}}`, answer, `{"confirmation":"approved"}`},
		"rejected!":        {approvalInput(), `{"type":"user_input","user_input":{"confirmation":"Rejected!"}}`, declined, "rejected"},
		"Cyrillic":         {approvalInput(), `{"type":"user_input","user_input":{"confirmation":"r\u0435jected"}}`, declined, "rejected"},
		"yes":              {approvalInput(), `{"type":"user_input","user_input":{"confirmation":"yes, approved"}}`, invalid, "must be approved or rejected"},
		"true":             {approvalInput(), `{"type":"user_input","user_input":{"confirmation":true}}`, invalid, "must be a string"},
		"no word":          {approvalInput(), `{"type":"user_input","user_input":{"timestamp":"now"}}`, invalid, "is missing"},
		"text":             {approvalInput(), `{"type":"user_input","user_input":"approved"}`, invalid, "must be an object"},
		"no approval":      {approvalInput(), `{"type":"user_input"}`, missing, "approval"},
		"the work instead": {approvalInput(), `{"type":"mcp","mcp":{"tool_name":"create_event","result":{},"success":true}}`, missing, "approval"},
		"two answers":      {approvalInput(), `{"user_input":{"confirmation":"rejected","confirmation":"approved"}}`, invalid, "occurs twice"},
		"two objects":      {approvalInput(), `{"user_input":{"confirmation":"rejected"},"user_input":{"confirmation":"approved"}}`, invalid, "occurs twice"},
		"prose":            {command(), `it worked`, invalid, "not JSON"},
		"list":             {command(), `[]`, invalid, "must be an object"},
		"nothing":          {command(), ``, invalid, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Capability.Interpret(t.Context(), driver.InterpretRequest{Input: tc.in, Step: step, Raw: json.RawMessage(tc.raw)})
				if err != nil {
					t.Fatal(err)
				}
				var got, says string
				switch {
				case res.Answer != nil:
					got, says = answer, string(res.Answer.Value)
					if res.Answer.Provenance != driver.AgentReported {
						t.Errorf("provenance = %q, want agent-reported", res.Answer.Provenance)
					}
				case res.Declined != nil:
					got, says = declined, res.Declined.Reason
				case res.Invalid != nil:
					got, says = invalid, fields.Text(res.Invalid.Diagnostics)
				case res.Missing != nil:
					got, says = missing, res.Missing.Reason
				}
				if got != tc.want || !strings.Contains(says, tc.says) {
					t.Errorf("Interpret(%s) = %s %q, want %s %q", tc.raw, got, says, tc.want, tc.says)
				}
			})
		})
	}
}

func TestContract(t *testing.T) {
	solution := func(in driver.Input, raw string) driver.InterpretRequest {
		return driver.InterpretRequest{Input: in, Step: step, Raw: json.RawMessage(raw)}
	}
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "evidence", Request: driver.RenderRequest{Input: command(), Step: step}, Want: drivertest.AgentChallenge},
		drivertest.Sample{Name: "approval", Request: driver.RenderRequest{Input: approvalInput(), Step: step}, Want: drivertest.AgentChallenge},
		drivertest.Sample{Name: "answer", Request: solution(command(), `{"type":"shell","shell":{"exit_code":0}}`), Want: drivertest.Answer},
		drivertest.Sample{Name: "placeholder", Request: solution(command(), `{"type":"shell"}`), Want: drivertest.Missing},
		drivertest.Sample{Name: "approved", Request: solution(approvalInput(), `{"user_input":{"confirmation":"approved"}}`), Want: drivertest.Answer},
		drivertest.Sample{Name: "rejected", Request: solution(approvalInput(), `{"user_input":{"confirmation":"rejected"}}`), Want: drivertest.Declined},
		drivertest.Sample{Name: "own words", Request: solution(approvalInput(), `{"user_input":{"confirmation":"sure"}}`), Want: drivertest.NotAnswer},
	)
}

// Only the word approved approves, and an answer is never more than was submitted.
func FuzzSolution(f *testing.F) {
	for _, seed := range []string{`{"user_input":{"confirmation":"approved"}}`, `{"shell":{"exit_code":0}}`, `{"evidence":[[]]}`, `{"user_input":{"confirmation":"rejected"}}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, in := range []driver.Input{command(), form(), approvalInput(), files()} {
			res, err := agent{}.Interpret(t.Context(), driver.InterpretRequest{Input: in, Raw: raw})
			if err != nil {
				t.Fatal(err)
			}
			if res.Answer == nil {
				continue
			}
			if in.Kind != driver.KindApproval && !strings.Contains(string(raw), string(res.Answer.Value)) {
				t.Errorf("Interpret(%s) = %s, which was not submitted", raw, res.Answer.Value)
			}
			if in.Kind == driver.KindApproval && !strings.Contains(plain.Skeleton(string(raw)), "approved") && !strings.Contains(string(raw), `\`) {
				t.Errorf("Interpret(%s) approves", raw)
			}
		}
	})
}
