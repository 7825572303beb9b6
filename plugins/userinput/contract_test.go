package main

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func TestContract(t *testing.T) {
	answered := func(challenge, value string, by driver.Provenance) driver.AdvanceRequest {
		return driver.AdvanceRequest{Challenge: json.RawMessage(challenge), Answers: []driver.Answer{evidence(value, by)}}
	}
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(trip)}, Want: drivertest.Valid},
		drivertest.Sample{Name: "invalid", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"user_input":{"prompt":1}}`)}, Want: drivertest.Invalid},
		drivertest.Sample{Name: "ask", Request: driver.AdvanceRequest{Challenge: json.RawMessage(confirm)}, Want: drivertest.NeedInput},
		drivertest.Sample{Name: "ask form", Request: driver.AdvanceRequest{Challenge: json.RawMessage(trip)}, Want: drivertest.NeedInput},
		drivertest.Sample{Name: "approved", Request: answered(confirm, `{"confirmation":"approved"}`, person), Want: drivertest.Accepted},
		drivertest.Sample{Name: "declined", Request: answered(confirm, `{"confirmation":"rejected"}`, person), Want: drivertest.Declined},
		drivertest.Sample{Name: "declined to the agent", Request: answered(duration, `{"confirmation":"rejected"}`, agent), Want: drivertest.Declined},
		drivertest.Sample{Name: "form", Request: answered(duration, `{"minutes":30}`, person), Want: drivertest.Accepted},
		drivertest.Sample{Name: "plain", Request: answered(duration, `{"confirmation":"30"}`, agent), Want: drivertest.Accepted},
		drivertest.Sample{Name: "prose", Request: answered(duration, `{"confirmation":"half an hour"}`, agent), Want: drivertest.Rejected},
		drivertest.Sample{Name: "broken challenge", Request: answered(`{"user_input":[]}`, `{"confirmation":"approved"}`, agent), Want: drivertest.Unavailable},
	)
}
