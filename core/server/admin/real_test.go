package admin_test

import (
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/admin"
	"github.com/kairos-mcp/kairos/core/setup"
)

// The real parts; the scripts of cmd/kairos run them behind a real socket.
var (
	_ admin.Drivers = (*driverhost.Host)(nil)
	_ admin.Setup   = (*setup.Current)(nil)
)
