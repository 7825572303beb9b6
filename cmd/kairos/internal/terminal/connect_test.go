package terminal

import (
	"strings"
	"testing"
)

// Whether such a server ends before or after it is written to is a matter of luck.
func TestAServerThatEndsAtOnceSaysTheSameEachTime(t *testing.T) {
	for range 100 {
		_, err := connect(t.Context(), child{argv: []string{"false"}})
		if err == nil || !strings.Contains(err.Error(), "false did not start; what it wrote to standard error says why") {
			t.Fatal(err)
		}
	}
}
