package drivertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// crane is the sound driver of the kit's own tests that acts on what a protocol
// says: it lifts what is planned. Faults are as those of counter.
type crane struct {
	plain
	fault    string
	previews atomic.Int64
}

func craneDriver(fault string) driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "crane", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
			Effect: driver.EffectChanges, Features: []string{driver.FeaturePreview, driver.FeaturePartial},
			ConfigSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		},
		Capability: &crane{fault: fault},
	}
}

// lift is its plan, and what is proposed to it.
type lift struct {
	Tons  int   `json:"tons"`
	Count int64 `json:"count,omitempty"`
}

func (c *crane) Preview(_ context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	asked := req.Input.Display
	if len(asked) == 0 {
		if len(req.Proposal) == 0 {
			return driver.ProposalNeeded(json.RawMessage(`{"type":"object","required":["tons"]}`), "Say how much."), nil
		}
		asked = req.Proposal
	}
	var l lift
	if err := json.Unmarshal(asked, &l); err != nil || l.Tons <= 0 {
		if c.fault == "preview/proposal" && err != nil {
			return driver.PreviewResult{}, err
		}
		return driver.ProposalInvalid(driver.Problem("/tons", "must be a number above 0")), nil
	}
	p := driver.Plan{Text: fmt.Sprintf("Lift %d tons", l.Tons), Effect: driver.EffectChanges}
	switch c.fault {
	case "preview/sound":
		p.Text = " "
	case "preview/sound, effect":
		p.Effect = driver.EffectPure
	case "preview/repeatable":
		l.Count = c.previews.Add(1)
	}
	var err error
	p.Data, err = json.Marshal(l)
	return driver.Planned(p), err
}

func (c *crane) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	var l lift
	if req.Input.Kind != driver.KindEvidence {
		return driver.CannotRender("it lifts evidence only"), nil
	}
	if err := json.Unmarshal(req.Plan, &l); (err != nil || l.Tons <= 0) && c.fault != "preview/planned" {
		return driver.CannotRender("nothing is planned"), nil
	}
	value, err := json.Marshal(l)
	return driver.RenderResult{Answer: &driver.Answer{Value: value, Provenance: driver.ServerObserved}}, err
}

func (*crane) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	var reply struct {
		Action string `json:"action"`
	}
	if req.ClientError == nil && json.Unmarshal(req.Raw, &reply) == nil && reply.Action == "decline" {
		return driver.PersonDeclined("not today"), nil
	}
	return driver.CannotInterpret("it asks nobody"), nil
}

func craneSamples(fault string) []sampleOf {
	unplanned := "unavailable"
	if fault == "preview/planned" {
		unplanned = "answer"
	}
	return []sampleOf{
		{"planned", "Render", `{"input":{"id":"evidence","kind":"evidence","display":{"tons":2}},"plan":{"tons":2}}`, "answer"},
		{"to be proposed", "Render", `{"input":{"id":"evidence","kind":"evidence"}}`, unplanned},
		{"reply", "Interpret", `{"input":{"id":"evidence","kind":"evidence"},"raw":{}}`, "unavailable"},
		{"no", "Interpret", `{"input":{"id":"evidence","kind":"evidence"},"raw":{"action":"decline"}}`, "declined"},
	}
}
