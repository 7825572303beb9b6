package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
)

// memoryOfTools is the memory_mib of the driver and the servers that it starts, which
// are often programs of Node.js.
const memoryOfTools = 2048

// callOfTools is its call_timeout: programs start within it, and do something.
const callOfTools = time.Minute

// addTools gives the driver that calls tools the servers that kairos tools added.
// It does not see the file itself, which is kept from drivers like the database
// beside it. own are the files of this server.
func addTools(file string, own []string, to *driverhost.Config) error {
	b, err := files.Read(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := mcpclient.Parse(b)
	if err != nil {
		return fmt.Errorf("%s: %w; `kairos tools` writes this file: correct it by hand, or move it away and add the servers again", file, err)
	}
	tools := to.Drivers[mcpclient.DriverName]
	config := map[string]any{}
	if len(tools.Config) > 0 {
		if err := json.Unmarshal(tools.Config, &config); err != nil {
			return fmt.Errorf("drivers.settings.%s.config: %w", mcpclient.DriverName, err)
		}
	}
	read, named := f.Paths()
	tools.ReadOnly, tools.Folders = append(tools.ReadOnly, read...), append(tools.Folders, places(named, own)...)
	config["servers"] = string(b)
	if tools.Config, err = json.Marshal(config); err != nil {
		return err
	}
	tools.EnvFrom = slices.Concat(tools.EnvFrom, mcpclient.Passed(), f.EnvNames())
	slices.Sort(tools.EnvFrom)
	tools.EnvFrom = slices.Compact(tools.EnvFrom)
	tools.MemoryMiB = cmp.Or(tools.MemoryMiB, memoryOfTools)
	tools.Call = cmp.Or(tools.Call, to.Call, callOfTools)
	to.Drivers[mcpclient.DriverName] = tools
	return nil
}

// places are what the tool servers may use of the paths that they name. For a file they get its
// folder, in which the server makes it, or a new one in its place. In a folder that has files of
// this server or of everybody they get the file alone, once it exists.
func places(named, own []string) []string {
	var out []string
	for _, path := range named {
		info, err := os.Stat(path)
		dir := filepath.Dir(path)
		if folder, gone := os.Stat(dir); (err != nil || !info.IsDir()) && gone == nil && folder.IsDir() && !shared(dir, own) {
			out = append(out, dir)
			continue
		}
		if err == nil {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// shared reports whether a folder has files of this server, or is the system's, the home folder
// or the one for temporary files, or is above one of them.
func shared(dir string, own []string) bool {
	dir = sandbox.Real(dir)
	home, err := os.UserHomeDir()
	if err != nil || sandbox.OfSystem(dir) || sandbox.In(dir, sandbox.Real(home)) || sandbox.In(dir, sandbox.Real(os.TempDir())) {
		return true
	}
	return slices.ContainsFunc(own, func(path string) bool {
		path = sandbox.Real(path)
		return filepath.Dir(path) == dir || sandbox.In(path, dir)
	})
}
