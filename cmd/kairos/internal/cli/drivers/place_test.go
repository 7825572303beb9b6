package drivers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/setup"
)

// scriptDriver writes a driver that is one script.
func scriptDriver(t *testing.T, dir, name, version string) string {
	t.Helper()
	file := filepath.Join(dir, name+version)
	role, handles := "challenge", name
	if name == "agent" {
		role, handles = "capability", "evidence"
	}
	text := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*escribe*) echo '{\"name\":%q,\"version\":%q,\"role\":%q,\"handles\":[%q],\"effect\":\"pure\",\"transport\":\"exec\"}';;\n*) echo '{\"healthy\":true}';;\nesac\n", name, version, role, handles)
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return file
}

// A driver that starts for the install, and not in a server, keeps its old version and holds no other up.
func TestADriverThatAServerRefusesKeepsItsOldVersion(t *testing.T) {
	from, c := t.TempDir(), config.Config{Drivers: config.DriversConfig{Dir: filepath.Join(t.TempDir(), "drivers")}}
	c.Tree = filepath.Join(from, "tree.yaml")
	if err := os.WriteFile(c.Tree, []byte("defaults: {missing_type: good, no_challenge_type: good}\nchallenges:\n  - {match: {}, evidence: [{via: agent}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := func() string {
		lock, err := driverhost.ReadLock(config.LockPath(c.Drivers.Dir))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range lock.Drivers {
			b, err := os.ReadFile(filepath.Join(c.Drivers.Dir, e.File))
			if err != nil || !strings.Contains(string(b), e.Version) {
				t.Errorf("the binary of %s %s is\n%s%v", e.Name, e.Version, b, err)
			}
			if e.Name != "agent" {
				all = append(all, e.Name+" "+e.Version)
			}
		}
		return strings.Join(all, ", ")
	}
	refuses := "none"
	how := installation{approve: func([]grant) error { return nil }, tell: func(r *lockReport) {
		r.Servers = []changeReport{{Report: &setup.Report{}}}
		if strings.Contains(locked(), refuses) {
			r.Servers = []changeReport{{Refused: "start driver: it crashed"}}
		}
	}}
	for _, tc := range []struct {
		files         []string // name and version
		refuses, want string
		refused       int
	}{
		{[]string{"agent", "1.0.0", "good", "1.0.0", "bad", "1.0.0"}, "none", "bad 1.0.0, good 1.0.0", 0},
		{[]string{"bad", "2.0.0", "good", "2.0.0"}, "bad 2.0.0", "bad 1.0.0, good 2.0.0", 1},
		{[]string{"bad", "2.0.0"}, "bad 2.0.0", "bad 1.0.0, good 2.0.0", 1},
		{[]string{"new", "1.0.0", "good", "3.0.0"}, "new 1.0.0", "bad 1.0.0, good 3.0.0", 1},
		{[]string{"good", "4.0.0"}, "bad 1.0.0", "bad 1.0.0, good 4.0.0", 0}, // the server refuses what was there
		{[]string{"bad", "3.0.0"}, "bad 1.0.0", "bad 3.0.0, good 4.0.0", 0},
	} {
		var files []string
		for i := 0; i < len(tc.files); i += 2 {
			files = append(files, scriptDriver(t, from, tc.files[i], tc.files[i+1]))
		}
		refuses = tc.refuses
		report, err := install(t.Context(), c, files, how)
		if len(report.misfits) > 0 {
			t.Fatalf("the tree does not fit: %q", report.misfits)
		}
		if got := locked(); err != nil || got != tc.want || len(report.Refused) != tc.refused {
			t.Errorf("install of %q = %v with %+v refused: locked are %s, want %s", tc.files, err, report.Refused, got, tc.want)
		}
		if left, err := filepath.Glob(filepath.Join(c.Drivers.Dir, ".install-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
}
