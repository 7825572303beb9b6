package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// BenchmarkIdleDriver is what each shipped driver costs by itself: the memory
// that its process holds after its first call, and the time from its start to
// the handshake, in which the host's check of its sum is not counted.
func BenchmarkIdleDriver(b *testing.B) {
	for name, call := range firstCalls() {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(programs(b), "drivers", "kairos-driver-"+name)
			var up samples
			var held []float64
			for range startSamples {
				var client *plugin.Client
				up.measure(func() { client = launch(b, path) })
				if err := call(b.Context(), connect(b, client)); err != nil {
					b.Fatal(err)
				}
				held = append(held, residentMB(b, client.ID()))
				client.Kill()
			}
			slices.Sort(held)
			b.ReportMetric(held[len(held)/2], "rss-MB")
			b.ReportMetric(up.p50(), "start-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// firstCalls are the calls that a first step makes of each driver.
func firstCalls() map[string]func(context.Context, *driverrpc.Client) error {
	advance := func(challenge string) func(context.Context, *driverrpc.Client) error {
		return func(ctx context.Context, c *driverrpc.Client) error {
			res, err := c.Challenge().Advance(ctx, driver.AdvanceRequest{
				Challenge: json.RawMessage(challenge), Step: driver.Step{Text: "Do it.", Index: 1, Count: 1},
			})
			if err == nil && len(res.NeedInput) != 1 {
				err = fmt.Errorf("Advance = %+v, want one input", res)
			}
			return err
		}
	}
	render := func(ctx context.Context, c *driverrpc.Client) error {
		_, err := c.Capability().Render(ctx, driver.RenderRequest{
			Input: driver.Input{
				ID: "evidence", Kind: driver.KindEvidence, Type: "user_input",
				Schema: json.RawMessage(`{"type":"object","properties":{"minutes":{"type":"integer"}}}`),
			},
			Client: driver.Client{ElicitationForm: true, Sampling: true, Roots: true},
		})
		return err
	}
	return map[string]func(context.Context, *driverrpc.Client) error{
		"shell":       advance(`{"type":"shell","shell":{"cmd":"true"}}`),
		"mcp":         advance(`{"type":"mcp","mcp":{"tool_name":"t"}}`),
		"user_input":  advance(`{"type":"user_input"}`),
		"comment":     advance(`{"type":"comment"}`),
		"elicitation": render,
		"sampling":    render,
		"agent":       render,
		"page":        render,
		"roots":       render,
	}
}

// launch starts a driver as go-plugin alone does and waits for its handshake.
func launch(b *testing.B, path string) *plugin.Client {
	b.Helper()
	// go-plugin passes stdin on, and a driver takes its end for the host's.
	stdin := os.Stdin
	read, write, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	os.Stdin = read
	b.Cleanup(func() { _, _ = read.Close(), write.Close() })
	defer func() { os.Stdin = stdin }()
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  driverrpc.Handshake(),
		Plugins:          driverrpc.Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              exec.Command(path),
		Logger:           hclog.NewNullLogger(),
		AutoMTLS:         true,
		SkipHostEnv:      true,
	})
	if _, err := client.Start(); err != nil {
		b.Fatal(err)
	}
	return client
}

// residentMB is the resident memory of a process (Linux).
func residentMB(b *testing.B, pid string) float64 {
	b.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		b.Skipf("no figures of processes here: %v", err)
	}
	var kib float64
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			if _, err := fmt.Sscan(value, &kib); err != nil {
				b.Fatal(err)
			}
		}
	}
	return kib / 1024
}
