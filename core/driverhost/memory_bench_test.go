package driverhost_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// BenchmarkRemembered is a call whose answer is remembered, of a step with a text of 1 KB.
func BenchmarkRemembered(b *testing.B) {
	h := newHost(b, driverhost.Config{}, io.Discard)
	c, _ := h.Challenge("pure")
	req := driver.AdvanceRequest{
		Challenge: json.RawMessage(`{"do":"config","shell":{"cmd":"` + strings.Repeat(`make check; `, 30) + `","timeout_seconds":60}}`),
		Step:      driver.Step{Protocol: "Bench", Label: "One", Text: strings.Repeat("Do it \"well\".\n", 70), Index: 1, Count: 5},
		Client: driver.Client{Name: "bench", Version: "1", Era: "2025-11-25", Transport: "http", Capabilities: json.RawMessage(
			`{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{"listChanged":true},"extensions":{"io.example/one":{}}}`)},
	}
	for b.Loop() {
		if _, err := c.Advance(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
