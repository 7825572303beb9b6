package app

import (
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// adminSocket is where this process is to listen; empty: nowhere.
func adminSocket(c config.Config) string {
	switch s := c.Admin.Socket; s {
	case "":
		return admin.DefaultSocket()
	case config.AdminOff:
		return ""
	default:
		return files.Absolute(admin.SocketIn(s))[0]
	}
}
