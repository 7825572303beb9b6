package driverhost_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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
