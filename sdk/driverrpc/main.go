package driverrpc

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Main serves the driver as a plugin process and does not return before the
// host is done with it; it is all that a driver's main function calls. With
// --describe it prints the descriptor as JSON instead. It exits with status 1
// when the driver is not sound or when a person starts it by hand.
//
// Logs of slog's default logger go to stderr as JSON lines, which the host
// collects. stdin is the lifeline: the process ends when the host closes it.
func Main(d driver.Driver) {
	stderr := os.Stderr // go-plugin replaces os.Stderr once it serves
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	slog.SetDefault(log)

	if err := CheckDriver(d); err != nil {
		fmt.Fprintf(stderr, "%s is not a sound driver:\n%v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
	if slices.Contains(os.Args[1:], DescribeFlag) {
		if err := writeDescriptor(os.Stdout, d.Descriptor); err != nil {
			fmt.Fprintf(stderr, "print the descriptor: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(cookieKey) != cookieValue {
		fmt.Fprintf(stderr, "%s is the KAIROS %s driver %q, version %s.\n"+
			"KAIROS starts it by itself; run by hand it does nothing. Try %s to see what it is.\n",
			filepath.Base(os.Args[0]), d.Descriptor.Role, d.Descriptor.Name, d.Descriptor.Version, DescribeFlag)
		os.Exit(1)
	}
	go exitWithHost(os.Stdin)
	serve(d, log, stderr)
}

func serve(d driver.Driver, log *slog.Logger, stderr io.Writer) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{PluginName: &grpcPlugin{served: d}},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return newServer(log, options...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Output: stderr, Level: hclog.Warn}),
	})
}

// exitWithHost ends the process when the lifeline closes, which also happens
// when the host dies without a word. The host drains calls before it closes it.
func exitWithHost(lifeline io.Reader) {
	_, _ = io.Copy(io.Discard, lifeline)
	if dir := os.Getenv(plugin.EnvUnixSocketDir); dir != "" {
		sockets, _ := filepath.Glob(filepath.Join(dir, "plugin*"))
		for _, socket := range sockets {
			_ = os.Remove(socket)
		}
		_ = os.Remove(dir) // refuses, as it should, if anything else is in it
	}
	os.Exit(0)
}

func writeDescriptor(w io.Writer, d driver.Descriptor) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}
