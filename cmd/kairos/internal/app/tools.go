package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/plugins/tools/servers"
)

// memoryOfTools is the memory_mib of the driver and the servers that it starts, which
// are often programs of Node.js.
const memoryOfTools = 2048

// callOfTools is its call_timeout: programs start within it, and do something.
const callOfTools = time.Minute

// addTools gives the driver that calls tools the servers that kairos tools added.
// It does not see the file itself, which is kept from drivers like the database
// beside it.
func addTools(file string, to *driverhost.Config) error {
	b, err := files.Read(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := servers.Parse(b)
	if err != nil {
		return fmt.Errorf("%s: %w; `kairos tools` writes this file: correct it by hand, or move it away and add the servers again", file, err)
	}
	own := to.Drivers[servers.DriverName]
	config := map[string]any{}
	if len(own.Config) > 0 {
		if err := json.Unmarshal(own.Config, &config); err != nil {
			return fmt.Errorf("drivers.settings.%s.config: %w", servers.DriverName, err)
		}
	}
	read, named := f.Paths()
	own.ReadOnly, own.Folders = append(own.ReadOnly, read...), append(own.Folders, named...)
	config["servers"] = string(b)
	if own.Config, err = json.Marshal(config); err != nil {
		return err
	}
	own.EnvFrom = slices.Concat(own.EnvFrom, servers.Passed(), f.EnvNames())
	slices.Sort(own.EnvFrom)
	own.EnvFrom = slices.Compact(own.EnvFrom)
	own.MemoryMiB = cmp.Or(own.MemoryMiB, memoryOfTools)
	own.Call = cmp.Or(own.Call, to.Call, callOfTools)
	to.Drivers[servers.DriverName] = own
	return nil
}
