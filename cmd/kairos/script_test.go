package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// The scripts in testdata/script run the real program and real driver
// processes; they read like the manual.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kairos": main})
}

func TestScripts(t *testing.T) {
	drivers := buildDrivers(t)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DRIVERS", drivers)
			env.Setenv("KAIROS_DRIVERS_DIR", drivers)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("PLUGINS", filepath.Join(filepath.Dir(examples), "plugins"))
			env.Setenv("CALENDAR_SERVER", filepath.Join(filepath.Dir(drivers), "calendar-server"))
			env.Setenv("CALENDAR_STATE", filepath.Join(env.WorkDir, "calendar.json"))
			env.Setenv("KAIROS_DB", filepath.Join(env.WorkDir, "data", "kairos.db"))
			env.Setenv("LOG_LEVEL", "error")
			return nil
		},
	})
}

// buildDrivers builds what `make build` builds, except the server.
func buildDrivers(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "drivers")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := func(to, from string) {
		cmd := exec.Command("go", "build", "-o", to, from)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", from, err, out)
		}
	}
	for name, folder := range map[string]string{
		"shell": "shell", "mcp": "mcp", "user_input": "userinput", "comment": "comment",
		"elicitation": "elicitation", "sampling": "sampling", "agent": "agent",
	} {
		build(filepath.Join(dir, "kairos-driver-"+name), "../../plugins/"+folder)
	}
	build(filepath.Join(filepath.Dir(dir), "calendar-server"), "../../examples/calendar-server")
	lock, err := driverhost.DescribeAll(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := driverhost.WriteLock(filepath.Join(dir, "drivers.lock"), lock); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(lock.Descriptors())); got != "7" {
		t.Fatalf("locked %s drivers, want 7", got)
	}
	return dir
}
