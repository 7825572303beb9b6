package protocol_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
)

func TestChainIDWorkedValues(t *testing.T) {
	for title, want := range map[string]string{
		"Three Step":                       "6929eee2-bf5b-516c-8fca-294a4bfe72c2",
		"  three \t\n STEP ":               "6929eee2-bf5b-516c-8fca-294a4bfe72c2",
		"Create New KAIROS Protocol Chain": "8184db3b-edd9-5cac-b1ba-2e6e476a520b",
	} {
		if got := protocol.ChainID(title); got != want {
			t.Errorf("ChainID(%q) = %s, want %s", title, got, want)
		}
	}
}
