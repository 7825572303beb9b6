package app

import (
	"os"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// Confinement says how drivers are isolated, and which files are the server's own. more
// are drivers folders besides the configured one.
func Confinement(c config.Config, file string, more ...string) driverhost.Confinement {
	out := driverhost.Confinement{Level: driverhost.Level(c.Drivers.Isolation)}
	if c.Drivers.Isolation == config.IsolationAuto {
		out.Level = ""
	}
	private := slices.Concat(c.Database.Files(), socket.DefaultFolders(), more, []string{
		c.Drivers.Dir, c.MCP.StateKeyFile, c.Signing.KeyFile, c.ToolsFile, c.Qdrant.APIKeyFile, c.Embedding.APIKeyFile, c.HTTP.TLS.Key,
	})
	if c.Admin.Socket != "" && c.Admin.Socket != config.AdminOff {
		own := adminSocket(c)
		private = append(private, own, socket.TokenFile(own))
		if info, err := os.Stat(c.Admin.Socket); strings.HasSuffix(c.Admin.Socket, "/") || err == nil && info.IsDir() {
			private = append(private, c.Admin.Socket)
		}
	}
	out.Private, out.Settings = absolutePaths(private...), absolutePaths(file, c.Tree)
	for _, s := range c.Drivers.Settings {
		out.Folders = append(out.Folders, files.Absolute(s.Folders...)...)
	}
	return out
}

// absolutePaths are the paths that are set, as absolute ones.
func absolutePaths(paths ...string) []string {
	set := files.Absolute(slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == "" })...)
	slices.Sort(set)
	return slices.Compact(set)
}
