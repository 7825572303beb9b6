// Package programs builds and starts the programs of the tests of the whole program.
package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/kairos-mcp/kairos/"

// Find returns the folder with kairos, calendar-server and drivers: the one that
// KAIROS_BIN names, else a new one that it builds. The caller removes the folder
// if it is new.
func Find(ctx context.Context) (dir string, isNew bool, err error) {
	if dir = os.Getenv("KAIROS_BIN"); dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", false, fmt.Errorf("find KAIROS_BIN: %w", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "kairos")); err != nil {
			return "", false, fmt.Errorf("KAIROS_BIN must be the folder that make build fills: %w", err)
		}
		return dir, false, nil
	}
	if dir, err = os.MkdirTemp("", "kairos-e2e-bin-"); err != nil {
		return "", false, fmt.Errorf("make a folder for the programs: %w", err)
	}
	return dir, true, build(ctx, dir)
}

// build makes what make build makes.
func build(ctx context.Context, dir string) error {
	drivers := filepath.Join(dir, "drivers")
	if err := os.Mkdir(drivers, 0o755); err != nil { //nolint:gosec // kairos wants to read it, as others may
		return fmt.Errorf("make the folder of drivers: %w", err)
	}
	goBuild := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o"}
	if err := run(ctx, "go", append(goBuild, dir, module+"cmd/kairos", module+"examples/calendar-server")...); err != nil {
		return err
	}
	if err := run(ctx, "go", append(goBuild, drivers, module+"plugins/...")...); err != nil {
		return err
	}
	built, err := os.ReadDir(drivers)
	if err != nil {
		return fmt.Errorf("list the drivers: %w", err)
	}
	for _, b := range built {
		name := "kairos-driver-" + strings.Replace(b.Name(), "userinput", "user_input", 1) // a package's name has no _
		if err := os.Rename(filepath.Join(drivers, b.Name()), filepath.Join(drivers, name)); err != nil {
			return fmt.Errorf("name a driver: %w", err)
		}
	}
	return run(ctx, filepath.Join(dir, "kairos"), "driver", "lock", drivers)
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
