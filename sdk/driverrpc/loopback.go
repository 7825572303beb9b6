package driverrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Loopback serves the driver inside this process and returns a client that
// calls it over gRPC, for tests: what a process would do, without a process.
// Call the returned function to stop it; calls still running are cut off.
func Loopback(d driver.Driver) (*Client, func() error, error) {
	if err := CheckDriver(d); err != nil {
		return nil, nil, fmt.Errorf("driver: %w", err)
	}
	listener := bufconn.Listen(1 << 20)
	server := newServer(d, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		if errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
			err = nil
		}
		served <- err
	}()

	options := append(DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	conn, err := grpc.NewClient("passthrough:loopback", options...)
	if err != nil {
		server.Stop()
		return nil, nil, errors.Join(fmt.Errorf("dial the loopback: %w", err), <-served)
	}
	stop := func() error {
		err := conn.Close()
		server.Stop()
		return errors.Join(err, <-served)
	}
	return NewClient(conn), stop, nil
}
