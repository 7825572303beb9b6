//go:build linux

package disk_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/disk"
)

func mount(t *testing.T) (*disk.Disk, string) {
	t.Helper()
	if why := disk.Missing(); why != "" {
		t.Skipf("THE DISK THAT LOSES POWER IS NOT TESTED: %s", why)
	}
	dir := filepath.Join(t.TempDir(), "disk")
	d, err := disk.Mount(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return d, dir
}

// sh runs a script of another process in the folder, which that process enters by
// itself: while it starts, this process may not run, and cannot serve its file system.
func sh(t *testing.T, dir, script string) (string, error) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `cd "$1" && `+script, "sh", dir)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestALossOfPowerLeavesWhatWasSynced(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		some   bool
		want   string
	}{
		"nothing synced":     {`echo one > a`, false, ""},
		"the name only":      {`echo one > a; sync .`, false, "a:"},
		"the file only":      {`echo one > a; sync a`, false, ""},
		"both":               {`echo one > a; sync a .`, false, "a:one"},
		"a change":           {`echo one > a; sync a .; echo two > a`, false, "a:one"},
		"an appended part":   {`echo one > a; sync a .; echo two >> a`, false, "a:one"},
		"cut off":            {`echo one > a; sync a .; : > a; sync a`, false, "a:"},
		"removed":            {`echo one > a; sync a .; rm a`, false, "a:one"},
		"removed and synced": {`echo one > a; sync a .; rm a; sync .`, false, ""},
		"renamed":            {`echo one > a; sync a .; mv a b`, false, "a:one"},
		"linked":             {`echo one > a; sync a; ln a b; sync .`, false, "a:one b:one"},
		"luck":               {`echo one > a; sync a .; echo four > a; echo two > b`, true, "a:four b:two"},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := mount(t)
			if out, err := sh(t, dir, tc.script); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			d.CutPower()
			if out, err := sh(t, dir, `echo three > c`); err == nil {
				t.Errorf("a write without power succeeded: %s", out)
			}
			if err := d.Restart(func() bool { return tc.some }); err != nil {
				t.Fatal(err)
			}
			got, err := sh(t, dir, `true; for f in *; do [ -e "$f" ] && printf '%s:%s ' "$f" "$(cat "$f")"; done; true`)
			if err != nil || got != tc.want {
				t.Errorf("after the loss there is %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// A block that a failed sync should have written is not written by the next sync.
func TestFaultsFail(t *testing.T) {
	d, dir := mount(t)
	for _, step := range []struct {
		faults disk.Faults
		script string
		fails  bool
	}{
		{disk.Faults{}, `echo one > a; sync a .`, false},
		{disk.Faults{FailSyncs: 1}, `echo two > a; sync a`, true},
		{disk.Faults{}, `sync a`, false},
		{disk.Faults{Room: 5000}, `head -c 6000 /dev/zero > b`, true},
		{disk.Faults{Room: 5000}, `rm b; head -c 600 /dev/zero > b`, false},
		{disk.Faults{ReadOnly: true}, `echo three > a`, true},
		{disk.Faults{ReadOnly: true}, `rm a`, true},
		{disk.Faults{ReadOnly: true}, `cat a`, false},
	} {
		d.Set(step.faults)
		if out, err := sh(t, dir, step.script); (err != nil) != step.fails {
			t.Errorf("%s with %+v: %v: %s", step.script, step.faults, err, out)
		}
	}
	d.CutPower()
	if err := d.Restart(func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	if got, err := sh(t, dir, `cat a`); err != nil || got != "one" {
		t.Errorf("after a failed sync, a successful one and the loss the file has %q, %v, want one", got, err)
	}
}
