package main

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func TestContract(t *testing.T) {
	reported := func(challenge, value string) driver.AdvanceRequest {
		return driver.AdvanceRequest{Challenge: json.RawMessage(challenge), Answers: []driver.Answer{
			{InputID: "evidence", Value: json.RawMessage(value), Provenance: driver.AgentReported}}}
	}
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(build)}, Want: drivertest.Valid},
		drivertest.Sample{Name: "legacy", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"cmd":"x"}`)}, Want: drivertest.Valid},
		drivertest.Sample{Name: "invalid", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"shell":{}}`)}, Want: drivertest.Invalid},
		drivertest.Sample{Name: "ask", Request: driver.AdvanceRequest{Challenge: json.RawMessage(build)}, Want: drivertest.NeedInput},
		drivertest.Sample{Name: "passed", Request: reported(build, `{"exit_code":0,"stdout":"ok"}`), Want: drivertest.Accepted},
		drivertest.Sample{Name: "failed", Request: reported(build, `{"exit_code":1}`), Want: drivertest.Rejected},
		drivertest.Sample{Name: "empty", Request: reported(build, `{}`), Want: drivertest.Rejected},
		drivertest.Sample{Name: "broken challenge", Request: reported(`{"shell":{}}`, `{"exit_code":0}`), Want: drivertest.Unavailable},
	)
}
