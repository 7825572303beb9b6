package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
)

// commandDriver is the driver that runs commands.
const commandDriver = "command"

// callOfCommand is its call_timeout: a snapshot of a large workspace takes a while.
const callOfCommand = time.Minute

// memoryOfCommand is its memory_mib, with all that a command starts.
const memoryOfCommand = 4096

// addCommand tells the driver that runs commands which files are the server's own, so
// that no command sees them where the driver itself is not isolated.
func addCommand(c config.Config, file string, to *driverhost.Config) error {
	own := to.Drivers[commandDriver]
	if len(own.Config) == 0 {
		return nil
	}
	settings := map[string]any{}
	if err := json.Unmarshal(own.Config, &settings); err != nil {
		return fmt.Errorf("drivers.settings.%s.config: %w", commandDriver, err)
	}
	if err := relativePath(settings); err != nil {
		return err
	}
	mask, ok := settings["mask"].([]any)
	if settings["mask"] != nil && !ok {
		return fmt.Errorf("drivers.settings.%s.config.mask must be a list of paths", commandDriver)
	}
	delete(settings, "mask")
	rest, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	own.Folders = append(own.Folders, driverhost.PathsIn(rest)...)
	servers := Confinement(c, file)
	for _, path := range slices.Concat(servers.Private, servers.Settings) {
		mask = append(mask, path)
	}
	for _, path := range files.Absolute(c.Database.Files()...) {
		for _, suffix := range []string{"-wal", "-shm", "-journal", ".lock"} {
			mask = append(mask, path+suffix)
		}
	}
	settings["mask"] = mask
	if own.Config, err = json.Marshal(settings); err != nil {
		return err
	}
	own.Call, own.MemoryMiB = cmp.Or(own.Call, to.Call, callOfCommand), cmp.Or(own.MemoryMiB, memoryOfCommand)
	to.Drivers[commandDriver] = own
	return nil
}

// relativePath refuses a relative path, which would begin somewhere else where the driver
// runs. The driver itself refuses what is not a text.
func relativePath(settings map[string]any) error {
	for _, key := range []string{"workspace", "repositories", "read", "mask"} {
		paths, several := settings[key].([]any)
		if !several {
			paths = []any{settings[key]}
		}
		for _, path := range paths { // the driver itself refuses what is not a text
			if path, ok := path.(string); ok && path != "" && !filepath.IsAbs(path) {
				return fmt.Errorf("drivers.settings.%s.config.%s: %q must be an absolute path", commandDriver, key, path)
			}
		}
	}
	return nil
}
