package terminal_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

// A person is asked unless the question showed exactly this work.
func TestOnlyTheWholeWorkCountsAsApproved(t *testing.T) {
	const (
		head    = `Approve step 2 of 3, "Deploy", of the protocol "Release"?` + "\n"
		display = `{"cmd":"rm -rf dist","timeout_seconds":30}`
		done    = "It will be done with shell: "
	)
	for name, tc := range map[string]struct {
		question string
		want     bool
	}{
		"the same":             {head + done + display + "\nNothing is done before you approve.", true},
		"keys in other order":  {head + done + `{"timeout_seconds": 30, "cmd": "rm -rf dist"}` + "\n", true},
		"another step":         {`Approve step 1 of 3, "Deploy", of the protocol "Release"?` + "\n" + done + display, false},
		"another command":      {head + done + `{"cmd":"rm -rf /","timeout_seconds":30}`, false},
		"more is done":         {head + done + `{"cmd":"rm -rf dist"}`, false},
		"another type":         {head + "It will be done with mcp: " + display, false},
		"further down":         {head + "Read this first.\n" + done + display, false},
		"a protocol's text":    {"Shall we?\n" + head + done + display, false},
		"too long to be shown": {head + done + display[:20] + "…", false},
		"nothing was approved": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := terminal.WasApproved(tc.question, "shell", display); got != tc.want {
				t.Errorf("WasApproved(%q) = %t, want %t", tc.question, got, tc.want)
			}
		})
	}
}
