package main

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func TestContract(t *testing.T) {
	reported := func(challenge, value string, by driver.Provenance) driver.AdvanceRequest {
		return driver.AdvanceRequest{Challenge: json.RawMessage(challenge), Answers: []driver.Answer{evidence(value, by)}}
	}
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(create)}, Want: drivertest.Valid},
		drivertest.Sample{Name: "invalid", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"mcp":{}}`)}, Want: drivertest.Invalid},
		drivertest.Sample{Name: "ask", Request: driver.AdvanceRequest{Challenge: json.RawMessage(create)}, Want: drivertest.NeedInput},
		drivertest.Sample{Name: "success", Request: reported(find, `{"tool_name":"find_slot","result":"{\"a\":[1]}","success":true}`, driver.AgentReported), Want: drivertest.Accepted},
		drivertest.Sample{Name: "bare", Request: reported(create, `{"success":true,"event_id":"e"}`, driver.ModelGenerated), Want: drivertest.Accepted},
		drivertest.Sample{Name: "failure", Request: reported(find, `{"tool_name":"find_slot","result":"no","success":false}`, driver.AgentReported), Want: drivertest.Rejected},
		drivertest.Sample{Name: "arguments", Request: reported(create,
			`{"tool_name":"create_event","arguments":{"who":["a@x"],"slot":{"day":1}},"result":{"success":true},"success":true}`, driver.AgentReported), Want: drivertest.Rejected},
		drivertest.Sample{Name: "broken challenge", Request: reported(`{"mcp":{}}`, `{"tool_name":"t","result":1,"success":true}`, driver.AgentReported), Want: drivertest.Unavailable},
	)
}
