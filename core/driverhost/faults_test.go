package driverhost_test

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

func TestWhateverADriverDoesItIsRefusedAndServesAgain(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	well := pidOf(t, h, "beta")
	for name, tc := range map[string]struct {
		do, reason string
		noted      string // of the status, if it says something else
	}{
		"a proof that is not JSON":  {do: "garbage", reason: "JSON"},
		"no outcome":                {do: "nothing", reason: "outcome"},
		"a reply that is too large": {do: "huge", reason: "larger than max"},
		"children that outlive it":  {"leave", "its process died during the call", "its process died: it ended unexpectedly: exit status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			children := filepath.Join(t.TempDir(), "pids")
			_, err := obey(t.Context(), t, h, "alpha", tc.do, "file", children)
			if err == nil || !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("error = %v, want one with %q", err, tc.reason)
			}
			if s, _ := h.StatusOf("alpha"); !strings.Contains(s.LastError, cmp.Or(tc.noted, tc.reason)) {
				t.Errorf("the status says %q, want something with %q", s.LastError, cmp.Or(tc.noted, tc.reason))
			}
			if got := pidOf(t, h, "beta"); got != well {
				t.Errorf("the driver that is well has process %d now, had %d", got, well)
			}
			b, _ := os.ReadFile(children) // most have none
			for _, field := range strings.Fields(string(b)) {
				pid, err := strconv.Atoi(field)
				check(t, err)
				eventually(t, "a child of the driver is gone", func() bool { return gone(pid) })
			}
			servesAgain(t, h)
		})
	}
}

func servesAgain(t *testing.T, h hosted) {
	t.Helper()
	eventually(t, "the driver serves calls", func() bool {
		_, err := obey(t.Context(), t, h, "alpha", "pid")
		return err == nil
	})
}
