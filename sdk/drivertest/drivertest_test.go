package drivertest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func TestSoundDriversPass(t *testing.T) {
	desk := kitDrivers["desk"]
	drivertest.Run(t, desk.make(""), file(t, "{}", desk.samples("")).Samples...)
}

// The samples of the counter hold for its configuration only. Afterwards that
// configuration is in force: what the checks try is dry runs.
func TestRunFileConfiguresTheDriver(t *testing.T) {
	d := kitDrivers["counter"].make("")
	c := d.Challenge.(*counter)
	t.Cleanup(func() { close(c.leaked) })
	path := filepath.Join(t.TempDir(), "samples.json")
	if err := os.WriteFile(path, written(t, counterConfig, kitDrivers["counter"].samples("")), 0o644); err != nil {
		t.Fatal(err)
	}
	drivertest.RunFile(t, d, path)
	if got := c.min.Load(); got != 2 {
		t.Errorf("after RunFile the least number is %d, want the 2 of %s", got, counterConfig)
	}
}
