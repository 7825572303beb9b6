package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

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
