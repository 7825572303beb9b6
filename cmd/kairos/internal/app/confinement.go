package app

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// Confinement says what drivers must not see: database, keys, lock and admin
// sockets. The configuration file is hidden only together with its folder. more
// are drivers folders besides the configured one.
func Confinement(c config.Config, file string, more ...string) driverhost.Confinement {
	out := driverhost.Confinement{Level: driverhost.Level(c.Drivers.Isolation)}
	if c.Drivers.Isolation == config.IsolationAuto {
		out.Level = ""
	}
	if out.Level == driverhost.LevelNone {
		return out
	}
	add := func(to *[]string, path, suffix string) {
		for _, p := range files.Absolute(path) {
			*to = append(*to, literal(p)+suffix)
		}
	}
	secret := func(path, suffix string) { add(&out.Hidden.Secret, path, suffix) }
	shielded := func(path, suffix string) { add(&out.Hidden.Shielded, path, suffix) }
	for _, file := range c.Database.Files() {
		secret(file, "")
		secret(file, "[-.]*") // -wal, -shm, -journal, .lock and copies
	}
	for _, file := range []string{c.MCP.StateKeyFile, c.Signing.KeyFile, c.ToolsFile} {
		secret(file, "")
	}
	secret(filepath.Join(filepath.Dir(c.ToolsFile), "."+filepath.Base(c.ToolsFile)), ".*") // while kairos tools writes it
	for _, key := range []string{c.Qdrant.APIKeyFile, c.Embedding.APIKeyFile, c.HTTP.TLS.Key} {
		shielded(key, "")
	}
	for _, key := range []string{c.MCP.StateKeyFile, c.Signing.KeyFile} {
		secret(filepath.Dir(key), "/.new-*.key")
	}
	for _, dir := range admin.DefaultFolders() {
		secret(dir, "/*")
	}
	if c.Admin.Socket != "" && c.Admin.Socket != config.AdminOff {
		socket := adminSocket(c)
		secret(socket, "")
		secret(admin.TokenFile(socket), "")
		secret(filepath.Dir(socket), "/lock")
		if info, err := os.Stat(c.Admin.Socket); strings.HasSuffix(c.Admin.Socket, "/") || err == nil && info.IsDir() {
			secret(c.Admin.Socket, "/*")
		}
	}
	for _, s := range c.Drivers.Settings {
		out.Folders = append(out.Folders, files.Absolute(s.Folders...)...)
	}
	for _, p := range files.Absolute(file, c.Tree) {
		out.Hidden.Own = append(out.Hidden.Own, literal(p))
	}
	for _, dir := range files.Absolute(append(more, c.Drivers.Dir)...) {
		shielded(config.LockPath(dir), "")
		shielded(config.LockPath(dir), ".*")
		out.Hidden.ReadOnly = append(out.Hidden.ReadOnly, dir)
		out.Hidden.Own = append(out.Hidden.Own, literal(dir)+"/"+driverhost.BinaryPrefix+"*", literal(dir)+"/.*")
	}
	return out
}

// literal keeps a path from being read as a pattern.
func literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
