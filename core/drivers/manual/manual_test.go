package manual_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/drivers/manual"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestThePageOfAChallengeDriver(t *testing.T) {
	page := manual.Page(driver.Descriptor{
		Name: "quiz", Version: "1.2.3", Role: driver.RoleChallenge, Handles: []string{"quiz"}, Effect: driver.EffectReads,
		ConfigSchema: json.RawMessage(`{"properties":{"key":{"type":"string","writeOnly":true,"description":"of the server"}}}`),
		ParamsSchema: json.RawMessage(`{"required":["ask","at"],"properties":{"ask":{"type":"string","description":"the question"},` +
			`"at":{"type":["integer","null"],"minimum":1},"of":{"properties":{"lang":{"enum":["en","de"]}}},"tags":{"type":"array","items":{"type":"string"}}}}`),
		OutputSchema: json.RawMessage(`{"properties":{"right":{"type":"boolean"}}}`),
	}, 1)
	for _, want := range []string{
		"# quiz\n", "challenge driver, version 1.2.3", "| effect | reads |", "Parameters in `challenge.quiz`:",
		"| `ask` | string | required | the question |", "| `at` | integer or null, at least 1 | required |", "| `of.lang` | any: en, de | none |", "array of string",
		`{"challenge": {"type": "quiz", "quiz": {"ask":"...","at":"..."}}}`, "| `right` | boolean |", "| `key` | string | none | of the server (secret) |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// TestNearMisses: a descriptor that says too little, or more than it may, is shown as what it is.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct {
		d          driver.Descriptor
		want, lack string
	}{
		"no params": {driver.Descriptor{Role: driver.RoleChallenge, Handles: []string{"quiz"}}, "does not say which parameters `challenge.quiz` has", "Parameters in"},
		"no output": {driver.Descriptor{Role: driver.RoleChallenge}, "what the step's `output_schema` says", "Output, which"},
		"none at all": {driver.Descriptor{Role: driver.RoleChallenge, Handles: []string{"quiz"}, ParamsSchema: json.RawMessage(`{"type":"object"}`)},
			"Parameters of `challenge.quiz`: none", "does not say"},
		"a capability":     {driver.Descriptor{Role: driver.RoleCapability, Handles: []string{"evidence"}}, "Takes no configuration.", "Output"},
		"not a schema":     {driver.Descriptor{ConfigSchema: json.RawMessage(`[1]`)}, "Takes no configuration.", "| key |"},
		"a cell that ends": {driver.Descriptor{Version: "1 | <b>\n# x"}, `1 \| &lt;b>`, "\n# x"},
	} {
		t.Run(name, func(t *testing.T) {
			if page := manual.Page(tc.d, 2); !strings.Contains(page, tc.want) || strings.Contains(page, tc.lack) {
				t.Errorf("the page lacks %q or has %q:\n%s", tc.want, tc.lack, page)
			}
		})
	}
}
