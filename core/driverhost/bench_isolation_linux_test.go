package driverhost_test

import (
	"io"
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// BenchmarkIsolation starts drivers at each level: one process a call on the exec
// transport, and on gRPC to the first answer of a fresh host.
func BenchmarkIsolation(b *testing.B) {
	for _, level := range []driverhost.Level{driverhost.LevelNone, driverhost.LevelNamespace, driverhost.LevelLandlock} {
		isolated := driverhost.Confinement{Level: level}
		b.Run("exec, "+string(level), func(b *testing.B) {
			e := newExec(b, "", driverhost.ExecSetup{Confinement: isolated}, io.Discard)
			for b.Loop() {
				if _, err := e.Run(b.Context(), "Advance", order("echo", "text", "x")); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("grpc, "+string(level), func(b *testing.B) {
			for b.Loop() {
				h := driverhost.New(quiet(), driverhost.Options{Confinement: isolated})
				set, err := h.Load(complete(b, driverhost.Config{}))
				check(b, err)
				mustObey(b, hosted{h, set}, "alpha", "pid")
				b.StopTimer()
				check(b, h.Close())
				b.StartTimer()
			}
		})
	}
}
