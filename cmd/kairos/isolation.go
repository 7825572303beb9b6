package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// isolationAuto is the best level that the machine offers.
const isolationAuto = "auto"

var isolationLevels = []string{
	isolationAuto, string(driverhost.LevelNamespace), string(driverhost.LevelLandlock), string(driverhost.LevelNone),
}

func (d driversConfig) isolationProblem() error {
	if d.Isolation != "" && !slices.Contains(isolationLevels, d.Isolation) {
		return fmt.Errorf("drivers.isolation is %q: must be one of %s", d.Isolation, strings.Join(isolationLevels, ", "))
	}
	return nil
}

// confinement says what drivers must not see: database, keys, lock and admin
// sockets. The configuration file is hidden only together with its folder. more
// are drivers folders besides the configured one.
func (c config) confinement(file string, more ...string) driverhost.Confinement {
	out := driverhost.Confinement{Level: driverhost.Level(c.Drivers.Isolation)}
	if c.Drivers.Isolation == isolationAuto {
		out.Level = ""
	}
	if out.Level == driverhost.LevelNone {
		return out
	}
	add := func(to *[]string, path, suffix string) {
		for _, p := range absolute(path) {
			*to = append(*to, literal(p)+suffix)
		}
	}
	secret := func(path, suffix string) { add(&out.Hidden.Secret, path, suffix) }
	shielded := func(path, suffix string) { add(&out.Hidden.Shielded, path, suffix) }
	secret(c.Database, "")
	secret(c.Database, "[-.]*") // -wal, -shm, -journal, .lock and copies
	for _, key := range []string{c.MCP.StateKeyFile, c.Signing.KeyFile} {
		secret(key, "")
	}
	for _, key := range []string{c.Qdrant.APIKeyFile, c.Embedding.APIKeyFile, c.HTTP.TLS.Key} {
		shielded(key, "")
	}
	for _, key := range []string{c.MCP.StateKeyFile, c.Signing.KeyFile} {
		secret(filepath.Dir(key), "/.new-*.key")
	}
	for _, dir := range admin.DefaultFolders() {
		secret(dir, "/*")
	}
	if c.Admin.Socket != "" && c.Admin.Socket != adminOff {
		socket := c.adminSocket()
		secret(socket, "")
		secret(admin.TokenFile(socket), "")
		secret(filepath.Dir(socket), "/lock")
		if info, err := os.Stat(c.Admin.Socket); strings.HasSuffix(c.Admin.Socket, "/") || err == nil && info.IsDir() {
			secret(c.Admin.Socket, "/*")
		}
	}
	for _, s := range c.Drivers.Settings {
		out.Folders = append(out.Folders, absolute(s.Folders...)...)
	}
	for _, p := range absolute(file, c.Tree) {
		out.Hidden.Own = append(out.Hidden.Own, literal(p))
	}
	for _, dir := range absolute(append(more, c.Drivers.Dir)...) {
		shielded(lockPath(dir), "")
		shielded(lockPath(dir), ".*")
		out.Hidden.ReadOnly = append(out.Hidden.ReadOnly, dir)
		out.Hidden.Own = append(out.Hidden.Own, literal(dir)+"/"+driverhost.BinaryPrefix+"*", literal(dir)+"/.*")
	}
	return out
}

// literal keeps a path from being read as a pattern.
func literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// isolation looks at how drivers are kept from the files of the server.
func (r *doctorReport) isolation(c config, file string) {
	const name = "driver isolation"
	h := driverhost.New(slog.New(slog.DiscardHandler), driverhost.Options{Confinement: c.confinement(file)})
	level, words, err := h.Isolation()
	if err = errors.Join(err, h.Close()); err != nil {
		r.check(name, "", demandFix[c.Drivers.Isolation], err)
		return
	}
	r.note(name, words)
	if level == driverhost.LevelNone && c.Drivers.Isolation != string(driverhost.LevelNone) {
		r.warn("drivers are not isolated: each of them can read and change the database, the keys and drivers.lock",
			"install only drivers that you trust with them; "+demandFix[string(driverhost.LevelNamespace)])
	}
}

// demandFix says what to do where a level is demanded that the machine lacks.
var demandFix = map[string]string{
	string(driverhost.LevelNamespace): "let this account make user namespaces (Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0; Docker: a seccomp profile that allows them), " +
		"or set drivers.isolation to landlock or auto",
	string(driverhost.LevelLandlock): "use Linux 5.13 or later with Landlock among its security modules (see /sys/kernel/security/lsm), or set drivers.isolation to namespace or auto",
}
