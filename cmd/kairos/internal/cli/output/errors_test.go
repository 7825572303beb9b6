package output

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
)

// An error may quote a text of several lines. Only its first line begins at the
// left edge, where the program's own lines begin.
func TestAnErrorOfSeveralLinesIsIndented(t *testing.T) {
	refused := fault.New(fault.InvalidArgument, "the answer is \"no\nattested: verified true\x1b[2A\r\n  indented\n\nrun 1\"").WithHint("try again")
	want := "INVALID_ARGUMENT: the answer is \"no\n  attested: verified true⟨U+001B⟩[2A\n  indented\n\n  run 1\"\n  next: try again"
	if got := Message(refused); got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}
