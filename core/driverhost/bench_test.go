package driverhost_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// bareClient starts a driver with go-plugin alone: the floor of this package.
func bareClient(b *testing.B) (*driverrpc.Client, func()) {
	b.Helper()
	// go-plugin passes stdin on, and a driver takes its end for the host's.
	read, write, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = read
	b.Cleanup(func() {
		os.Stdin = stdin
		_, _ = read.Close(), write.Close()
	})
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  driverrpc.Handshake(),
		Plugins:          driverrpc.Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              exec.Command(filepath.Join(binaries, "kairos-driver-alpha")),
		Logger:           hclog.NewNullLogger(),
		AutoMTLS:         true,
	})
	protocol, err := client.Client()
	if err != nil {
		b.Fatal(err)
	}
	raw, err := protocol.Dispense(driverrpc.PluginName)
	if err != nil {
		b.Fatal(err)
	}
	rpc, ok := raw.(*driverrpc.Client)
	if !ok {
		b.Fatalf("dispensed a %T", raw)
	}
	return rpc, client.Kill
}

// BenchmarkCall compares a call through the host with the same call through
// go-plugin alone.
func BenchmarkCall(b *testing.B) {
	advance := func(b *testing.B, c driver.Challenge) {
		req := driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"pid"}`)}
		for b.Loop() {
			if _, err := c.Advance(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("bare", func(b *testing.B) {
		rpc, stop := bareClient(b)
		defer stop()
		advance(b, rpc.Challenge())
	})
	b.Run("host", func(b *testing.B) {
		h := newHost(b, driverhost.Config{}, io.Discard)
		c, ok := h.Challenge("alpha")
		if !ok {
			b.Fatal("there is no driver alpha")
		}
		mustObey(b, h, "alpha", "pid")
		advance(b, c)
	})
}

// BenchmarkStartToFirstCall compares the first call through a fresh host with
// a start by go-plugin alone, which checks no sum.
func BenchmarkStartToFirstCall(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			rpc, stop := bareClient(b)
			if _, err := rpc.Describe(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			stop()
			b.StartTimer()
		}
	})
	b.Run("host", func(b *testing.B) {
		startDrivers(b, "alpha")
	})
	b.Run("host, three drivers at once", func(b *testing.B) {
		startDrivers(b, "alpha", "beta", "gamma")
	})
}

func startDrivers(b *testing.B, names ...string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), driverhost.LockName)
	if err := driverhost.WriteLock(path, lockOf(b)); err != nil {
		b.Fatal(err)
	}
	lock, err := driverhost.ReadLock(path)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		h := newHost(b, driverhost.Config{Lock: lock}, io.Discard)
		h.Warm(b.Context(), names...)
		for _, name := range names {
			mustObey(b, h, name, "pid")
		}
		b.StopTimer()
		if err := h.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkSwapUnderLoad swaps a driver while eight callers call it. A failed
// call fails the benchmark. worst-added-ms is how much longer than the slowest
// call of an undisturbed second the slowest call under the swaps took.
func BenchmarkSwapUnderLoad(b *testing.B) {
	cfg := folder(b, "alpha")
	h := newHost(b, cfg, io.Discard)
	var current switched
	current.Store(h.Set)
	pidOf(b, h, "alpha") // its start would disturb the measurement
	quietest := startLoad(b, 8, current.hold)
	<-time.After(time.Second)
	if err := quietest.stop(); err != nil {
		b.Fatal(err)
	}
	load := startLoad(b, 8, current.hold)
	for b.Loop() {
		current.swap(b, h.Host, cfg)
		load.everyCallerAnswered(b)
	}
	if err := load.stop(); err != nil {
		b.Fatalf("calls failed: %v", err)
	}
	added := slices.Max(load.worst) - slices.Max(quietest.worst)
	b.ReportMetric(float64(added.Microseconds())/1000, "worst-added-ms")
}

// BenchmarkKillUnderLoad ends the process under eight callers, again and again.
func BenchmarkKillUnderLoad(b *testing.B) {
	h := newHost(b, driverhost.Config{}, io.Discard)
	load := startLoad(b, 8, func() (challenges, func()) { return h, func() {} })
	for b.Loop() {
		if err := syscall.Kill(pidOf(b, h, "alpha"), syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		load.everyCallerAnswered(b)
	}
	if err := load.stop(); err != nil {
		b.Fatalf("calls failed: %v", err)
	}
	b.ReportMetric(float64(slices.Max(load.worst).Microseconds())/1000, "worst-call-ms")
}

// BenchmarkStopOfAHangingDriver stops a frozen process. over-grace-ms is what
// that took beyond the grace for a call in flight and for the process itself.
func BenchmarkStopOfAHangingDriver(b *testing.B) {
	const grace = 200 * time.Millisecond
	var over time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		h := newHost(b, driverhost.Config{Stop: grace}, io.Discard)
		if err := syscall.Kill(pidOf(b, h, "alpha"), syscall.SIGSTOP); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		began := time.Now()
		if err := h.Close(); err != nil {
			b.Fatal(err)
		}
		over += time.Since(began) - grace
		n++
	}
	b.ReportMetric(float64(over.Microseconds())/1000/float64(n), "over-grace-ms")
}
