package ops

import (
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

func TestADriverThatUsedTooMuchMemoryIsAProblem(t *testing.T) {
	well := driverhost.Status{Name: "quiz", State: driverhost.Ready}
	if found := ailments(socket.Found{}, well, driverhost.Lock{}); len(found) > 0 {
		t.Errorf("a driver that is well: %+v", found)
	}
	well.Excess = driverhost.MemoryExcess{Count: 2, At: time.Now(), Why: "it used 1500 MiB of memory and may use 256"}
	found := ailments(socket.Found{}, well, driverhost.Lock{})
	if len(found) != 1 || !strings.Contains(found[0].Problem, "1500 MiB") || !strings.Contains(found[0].Fix, "drivers.settings.quiz.memory_mib") {
		t.Errorf("a driver that was ended for its memory: %+v, want what it used and what to do", found)
	}
}
