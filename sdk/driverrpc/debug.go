package driverrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

const (
	// socketPathMax is what every system takes as the path of a unix socket.
	socketPathMax = 100
	// debugGrace is how long calls may continue once the process is to end.
	debugGrace = 2 * time.Second
)

// serveDebug serves the driver for hosts that attach to it, until SIGINT or
// SIGTERM. Standard output gets the one line that tells a host where it is.
func serveDebug(d driver.Driver, log *slog.Logger, stdout, stderr io.Writer) (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	dir, err := privateFolder()
	if err != nil {
		return fmt.Errorf("make a folder for the socket: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address := filepath.Join(dir, "driver.sock")
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	server := newServer(d, log)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	line, err := attachLine(Attachment{Name: d.Descriptor.Name, Address: address, PID: os.Getpid()})
	if err == nil {
		fmt.Fprintln(stderr, `Put the next line in front of "kairos serve --dev"; end with Ctrl-C.`)
		_, err = fmt.Fprintln(stdout, line)
	}
	if err == nil {
		<-ctx.Done()
	}
	stopWithin(server, debugGrace)
	return errors.Join(err, <-served)
}

// privateFolder makes a folder that only this user can look into, on a path
// short enough for a socket.
func privateFolder() (string, error) {
	const pattern = "kairos-debug-*"
	if len(filepath.Join(os.TempDir(), pattern, "0123456789", "driver.sock")) > socketPathMax {
		return os.MkdirTemp("/tmp", pattern)
	}
	return os.MkdirTemp("", pattern)
}

// attachLine is an assignment as every shell reads it.
func attachLine(a Attachment) (string, error) {
	value, err := marshalJSON([]Attachment{a})
	if err != nil {
		return "", err
	}
	quoted := strings.ReplaceAll(strings.TrimSpace(string(value)), "'", `'\''`)
	return AttachEnv + "='" + quoted + "'", nil
}

// stopWithin lets running calls end, but not for longer than the grace.
func stopWithin(server *grpc.Server, grace time.Duration) {
	late := time.AfterFunc(grace, server.Stop)
	defer late.Stop()
	server.GracefulStop()
}
