package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func request(kind, link string) driver.RenderRequest {
	return driver.RenderRequest{
		Input: driver.Input{ID: kind, Kind: kind, Description: "Create the event?", Approval: driver.ApprovalUser, Person: true},
		Step:  driver.Step{Protocol: "Appointment", Label: "Create", Index: 3, Count: 4},
		Links: driver.Links{Approval: link},
	}
}

const link = "https://kairos.example/approve/1/2"

func TestOnlyAnApprovalWithALinkIsLeftToThePage(t *testing.T) {
	for name, tc := range map[string]struct {
		req  driver.RenderRequest
		says string // empty: elsewhere
	}{
		"approval":          {request(driver.KindApproval, link), ""},
		"no page":           {request(driver.KindApproval, ""), "no approval page"},
		"evidence":          {request(driver.KindEvidence, link), "kind evidence"},
		"what a run needs":  {request(driver.KindRunInput, link), "kind run_input"},
		"kind of tomorrow":  {request("rumour", link), "kind rumour"},
		"files of the disk": {request(driver.KindFiles, ""), "kind files"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Capability.Render(t.Context(), tc.req)
				if err != nil {
					t.Fatal(err)
				}
				if tc.says == "" {
					if res.Elsewhere == nil || !strings.Contains(res.Elsewhere.Message, "Show them the link") {
						t.Errorf("Render = %+v, want elsewhere", res)
					}
					return
				}
				if res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, tc.says) {
					t.Errorf("Render = %+v, want unavailable with %q", res, tc.says)
				}
			})
		})
	}
}

func TestNoReplyOfAClientIsAnAnswer(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		for _, raw := range []string{`{"action":"accept","content":{"confirmation":"approved"}}`, `{"action":"decline"}`, ``, `[`} {
			res, err := d.Capability.Interpret(t.Context(), driver.InterpretRequest{Input: request(driver.KindApproval, "").Input, Raw: json.RawMessage(raw)})
			if err != nil || res.Unavailable == nil {
				t.Errorf("Interpret(%s) = %+v, %v, want unavailable", raw, res, err)
			}
		}
	})
}

func TestContract(t *testing.T) {
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "approval", Request: request(driver.KindApproval, link), Want: drivertest.Elsewhere},
		drivertest.Sample{Name: "no page", Request: request(driver.KindApproval, ""), Want: drivertest.Unavailable},
		drivertest.Sample{Name: "evidence", Request: request(driver.KindEvidence, link), Want: drivertest.Unavailable},
		drivertest.Sample{Name: "reply", Request: driver.InterpretRequest{Input: request(driver.KindApproval, "").Input,
			Raw: json.RawMessage(`{"action":"accept","content":{"confirmation":"approved"}}`)}, Want: drivertest.Unavailable},
	)
}
