package driverhost_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

func TestADriverThatUsesTooMuchMemoryIsEndedAndStartedAgain(t *testing.T) {
	h := newHost(t, driverhost.Config{Call: 30 * time.Second}, io.Discard)
	pidOf(t, h, "alpha")
	if s, _ := h.StatusOf("alpha"); strings.Contains(strings.Join(s.Protection, " "), "memory: cgroup") {
		t.Skip("SKIPPED: this machine lets drivers have cgroups, whose limit the kernel enforces")
	}
	const why = "MiB of memory and may use 256"
	for i, hungry := range []string{"hungry", "hungry child"} {
		t.Run(hungry, func(t *testing.T) {
			if _, err := obey(t.Context(), t, h, "alpha", hungry); err == nil || !strings.Contains(err.Error(), "its process died during the call") {
				t.Errorf("error = %v, want that the process died", err)
			}
			s, _ := h.StatusOf("alpha")
			if s.Excess.Count <= i || !strings.Contains(s.Excess.Why, why) {
				t.Errorf("status = %+v, want why it was ended", s.Excess)
			}
			lines, _ := h.Logs("alpha", 0)
			if !slices.ContainsFunc(lines, func(l driverhost.Line) bool { return strings.Contains(l.Text, why) }) {
				t.Error("the journal does not say why it was ended")
			}
			servesAgain(t, h)
		})
	}
}
