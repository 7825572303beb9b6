package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func eachWay(t *testing.T, test func(*testing.T, driver.Capability)) {
	t.Helper()
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) { test(t, d.Capability) })
}
