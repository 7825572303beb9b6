package driverhost_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
)

func TestADriverThatUsesTooMuchMemoryIsEndedAndStartedAgain(t *testing.T) {
	c := newClinic(t, 5*time.Second)
	c.open(t)
	before, _ := c.StatusOf("faulty")
	if strings.Contains(strings.Join(before.Protection, " "), "memory: cgroup") {
		t.Skip("SKIPPED: this machine lets drivers have cgroups, whose limit the kernel enforces")
	}
	for i, hungry := range []string{"hungry", "hungry-child"} {
		t.Run(hungry, func(t *testing.T) {
			c.open(t)
			c.breakIt(t, hungry)
			if reply := c.submit(t); reply.ErrorCode != string(fault.DriverUnavailable) {
				t.Errorf("error %q, want %s: %s", reply.ErrorCode, fault.DriverUnavailable, reply.Message)
			}
			status, _ := c.StatusOf("faulty")
			if status.Excess.Count <= i || !strings.Contains(status.Excess.Why, "MiB of memory and may use 256") {
				t.Errorf("status = %+v, want why it was ended", status.Excess)
			}
			if !strings.Contains(status.LastError, "died") {
				t.Errorf("last error %q, want that it died", status.LastError)
			}
			found := false
			lines, _ := c.Logs("faulty", 0)
			for _, line := range lines {
				found = found || strings.Contains(line.Text, "MiB of memory and may use 256")
			}
			if !found {
				t.Error("the journal does not say why it was ended")
			}
			c.checkNobodyLeft(t)
			c.repair(t)
			eventually(t, "the step is judged", func() bool { return c.submit(t).ErrorCode == "" })
		})
	}
}
