package driverhost_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// BenchmarkStream compares streamed with unary calls, in turns, so that both see the same
// machine. cpu-µs is the CPU time of host and driver for each call.
func BenchmarkStream(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			streamed, unary := newWay(b, callers, false), newWay(b, callers, true)
			for b.Loop() {
				streamed.turn(b)
				unary.turn(b)
			}
			streamed.report(b, "stream")
			unary.report(b, "unary")
		})
	}
}

// way is one way of calling a driver, and what it has cost.
type way struct {
	challenge driver.Challenge
	callers   int
	pid       int
	cpu, wall time.Duration
	calls     int
}

func newWay(b *testing.B, callers int, unary bool) *way {
	h := newHost(b, driverhost.Config{}, io.Discard)
	w := &way{callers: callers, pid: pidOf(b, h, "alpha")}
	if unary {
		driverhost.MakeUnary(h.Set, "alpha")
	}
	w.challenge, _ = h.Challenge("alpha")
	return w
}

func (w *way) turn(b *testing.B) {
	const calls = 3200
	req := driver.AdvanceRequest{
		Challenge: json.RawMessage(`{"do":"pid"}`),
		Answers:   []driver.Answer{{InputID: "evidence", Value: json.RawMessage(`"` + strings.Repeat("a", 1200) + `"`), Provenance: driver.AgentReported}},
	}
	before, began := w.used(b), time.Now()
	var wg sync.WaitGroup
	for range w.callers {
		wg.Go(func() {
			for range calls / w.callers {
				if _, err := w.challenge.Advance(b.Context(), req); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.wall += time.Since(began)
	w.cpu += w.used(b) - before
	w.calls += calls
}

// used is the CPU time of this process and the driver.
func (w *way) used(b *testing.B) time.Duration {
	var own syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	var driver unix.Timespec
	check(b, unix.ClockGettime(int32(^w.pid<<3|2), &driver))
	return time.Duration(own.Utime.Nano() + own.Stime.Nano() + driver.Nano())
}

func (w *way) report(b *testing.B, name string) {
	b.ReportMetric(float64(w.cpu.Nanoseconds())/1000/float64(w.calls), name+"-cpu-µs")
	b.ReportMetric(float64(w.wall.Nanoseconds())/1000/float64(w.calls)*float64(w.callers), name+"-µs")
}
