package drivertest

import (
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// EachWay runs a test on the driver as it is, and over gRPC.
func EachWay(t *testing.T, d driver.Driver, test func(*testing.T, driver.Driver)) {
	t.Helper()
	t.Run("direct", func(t *testing.T) { test(t, d) })
	client, stop, err := driverrpc.Loopback(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	over := driver.Driver{Descriptor: d.Descriptor, Challenge: client.Challenge(), Capability: client.Capability()}
	t.Run("grpc", func(t *testing.T) { test(t, over) })
}
