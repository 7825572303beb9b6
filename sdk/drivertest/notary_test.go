package drivertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// notary is the sound challenge driver with effects of the kit's own tests: it signs
// what it is given as evidence, and its proof is the number of the signature. Faults are
// as those of counter.
type notary struct {
	plain
	fault string

	mu     sync.Mutex // guards the fields below
	signed int
	known  map[string]int // signatures by key; 0: none will come
}

// sent is in place of the number of a signature that takes time.
const sent = -1

func notaryDriver(fault string) driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "notary", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"notary"},
			Effect: driver.EffectChanges, Features: []string{driver.FeatureRecover},
			ConfigSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		},
		Challenge: &notary{fault: fault, known: map[string]int{}},
	}
}

func (*notary) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	if !fields.Open(req.Challenge, "").Has("notary") {
		return driver.ValidateResult{Diagnostics: []driver.Diagnostic{driver.Problem("/notary", "is missing")}}, nil
	}
	return driver.ValidateResult{}, nil
}

func (n *notary) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	said, answered := req.Answer("evidence")
	number, found := n.known[req.IdempotencyKey]
	switch {
	case answered && string(said.Value) == `"no"`:
		return driver.Decline("it is not to be signed"), nil
	case found && number == 0 && !req.Recover:
		return driver.AdvanceResult{}, errors.New("it was given up")
	case answered && string(said.Value) == `"by letter"` && (number == sent || !req.Recover):
		n.known[req.IdempotencyKey] = sent
		return driver.AdvanceLater("the letter is on its way", 0), nil
	case found && number > 0 && (answered || n.fault == "challenge/asks-first, at once"):
		return accept(number), nil
	case req.Recover:
		n.known[req.IdempotencyKey] = 0
		return driver.AdvanceNotDone("nothing was signed"), nil
	case !answered && n.fault == "":
		return needsText(), nil
	}
	n.signed++
	n.known[req.IdempotencyKey] = n.signed
	if !answered && n.fault == "challenge/asks-first" {
		return needsText(), nil
	}
	return accept(n.signed), nil
}

func needsText() driver.AdvanceResult {
	return driver.Need(driver.Input{
		ID: "evidence", Kind: driver.KindEvidence, Type: "notary", Description: "What is to be signed.", Schema: json.RawMessage(`{"type":"string"}`),
	})
}

func accept(number int) driver.AdvanceResult {
	return driver.Accept(json.RawMessage(fmt.Sprintf(`{"signature":%d}`, number)), nil)
}

func notarySamples(fault string) []sampleOf {
	given := func(text, more string) string {
		return fmt.Sprintf(`{"challenge":{"type":"notary","notary":{}},"answers":[{"input_id":"evidence","value":%q,"provenance":"agent-reported"}]%s}`, text, more)
	}
	out := []sampleOf{
		{"valid", "Validate", `{"challenge":{"type":"notary","notary":{}}}`, "valid"},
		{"no notary", "Validate", `{"challenge":{}}`, "invalid"},
		{"first round", "Advance", `{"challenge":{"type":"notary","notary":{}}}`, "need_input"},
		{"sign", "Advance", given("a deed", ""), "accepted"},
		{"slow", "Advance", given("by letter", ""), "pending"},
		{"never signed", "Advance", given("a deed", `,"recover":true`), "not_done"},
		{"no", "Advance", given("no", ""), "declined"},
	}
	if fault == "challenge/asks-first, at once" {
		out[2].want = "accepted"
	}
	return out
}
