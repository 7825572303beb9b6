package present

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// TestNearMisses: a result that is almost small enough is not cut in half but left out, and
// how large it is is said.
func TestNearMisses(t *testing.T) {
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	for name, tc := range map[string]struct {
		size int
		by   driver.Provenance
		kept bool
	}{
		"a small report":             {256, driver.AgentReported, true},
		"a report one byte too long": {257, driver.AgentReported, false},
		"a large report":             {34 << 10, driver.AgentReported, false},
		"what KAIROS observed":       {8 << 10, driver.ServerObserved, true},
		"one byte more":              {8<<10 + 1, driver.ServerObserved, false},
		"what a person answered":     {300, driver.ClientAttested, true},
	} {
		want := string(text(tc.size))
		if !tc.kept {
			want = fmt.Sprintf(`"not repeated: %d bytes; later steps read it as {{ steps.build }}"`, tc.size)
		}
		if got := string(repeated(text(tc.size), "build", tc.by)); got != want {
			t.Errorf("%s: %d bytes are repeated as %.80s, want %.80s", name, tc.size, got, want)
		}
	}
}
