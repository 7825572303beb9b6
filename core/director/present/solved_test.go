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
		"what KAIROS observed":   {8 << 10, driver.ServerObserved, true},
		"one byte more":          {8<<10 + 1, driver.ServerObserved, false},
		"what a person answered": {300, driver.ClientAttested, true},
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

// TestWhatAnAgentReportedIsNotEchoed: it knows what it has sent, and clients cut long replies.
func TestWhatAnAgentReportedIsNotEchoed(t *testing.T) {
	if got := repeated(json.RawMessage(`{"exit_code":0}`), "build", driver.AgentReported); got != nil {
		t.Errorf("the reply repeats %s, which the agent has just sent", got)
	}
}
