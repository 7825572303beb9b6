package sandbox

import (
	"strings"
	"testing"
)

// The messages are bubblewrap's, from machines and containers that forbid sandboxes.
func TestARefusalSaysWhatHelps(t *testing.T) {
	for said, want := range map[string]string{
		"bwrap: setting up uid map: Permission denied":                             "AppArmor",
		"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted":             "apparmor_restrict_unprivileged_userns",
		"bwrap: No permissions to create new namespace, likely because ...":        "container forbids user namespaces",
		"bwrap: Creating new namespace failed: Operation not permitted":            "unprivileged_userns_clone",
		"bwrap: Failed to make / slave: Permission denied":                         "container",
		"bwrap: Can't mount proc on /newroot/proc: Operation not permitted":        "container forbids mounts",
		"bwrap: execvp sh: No such file or directory":                              "no such program",
		"bwrap: Can't find source path /no/such/folder: No such file or directory": "kairos doctor",
		"": "bubblewrap ended",
	} {
		if err := refusal(Result{Stderr: Output{Text: said + "\n"}}); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), said) {
			t.Errorf("refusal(%q) = %v, want %q", said, err, want)
		}
	}
}
