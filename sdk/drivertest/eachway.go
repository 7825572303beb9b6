package drivertest

import (
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// EachWay runs a test on the driver directly and over gRPC, as a host calls it.
func EachWay(t *testing.T, d driver.Driver, test func(*testing.T, driver.Driver)) {
	t.Helper()
	t.Run("direct", func(t *testing.T) { test(t, d) })
	t.Run("grpc", func(t *testing.T) {
		client, stop, err := driverrpc.Loopback(d)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}()
		test(t, driver.Driver{Descriptor: d.Descriptor, Challenge: client.Challenge(), Capability: client.Capability()})
	})
}
