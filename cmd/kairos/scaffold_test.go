package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// A driver that was made just now builds and passes its own tests, without a
// look at the network, and can be installed.
func TestScaffoldsBuildAndPassTheirTests(t *testing.T) {
	for _, lang := range []string{"go", "python"} {
		for _, role := range []driver.Role{driver.RoleChallenge, driver.RoleCapability} {
			t.Run(lang+" "+string(role), func(t *testing.T) {
				t.Parallel()
				s := scaffold{Name: "first-try", Role: role, Lang: lang, Dir: filepath.Join(t.TempDir(), "driver")}
				if err := s.complete(); err != nil {
					t.Fatal(err)
				}
				if err := s.write(); err != nil {
					t.Fatal(err)
				}
				noBraces(t, s)
				if lang == "go" {
					in(t, s.Dir, "go", "vet", "./...")
					in(t, s.Dir, "go", "test", "./...")
					in(t, s.Dir, "go", "build", "-o", s.Binary, ".")
					in(t, s.Dir, "gofmt", "-l", ".")
				} else {
					in(t, s.Dir, "python3", "-m", "unittest")
				}
				installs(t, s)
			})
		}
	}
}

// in runs a command in a folder. gofmt lists what it would change.
func in(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not there: THE SCAFFOLD IS NOT TRIED", name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly -trimpath -tags=grpcnotrace", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil || (name == "gofmt" && len(out) > 0) {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func installs(t *testing.T, s scaffold) {
	t.Helper()
	c := config{Drivers: driversConfig{Dir: filepath.Join(t.TempDir(), "drivers")}}
	if _, err := c.install(t.Context(), []string{filepath.Join(s.Dir, s.Binary)}, false, driverhost.Confinement{}); err != nil {
		t.Fatal(err)
	}
	lock, err := driverhost.ReadLock(lockPath(c.Drivers.Dir))
	if err != nil {
		t.Fatal(err)
	}
	e, ok := entryOf(lock, s.Name)
	if !ok || e.Descriptor.Role != s.Role || e.File != s.Binary {
		t.Errorf("the lock has %+v, want driver %s of role %s", e, s.Name, s.Role)
	}
}

func noBraces(t *testing.T, s scaffold) {
	t.Helper()
	for _, name := range s.Files {
		b, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "[[") {
			t.Errorf("%s holds a placeholder that was not filled", name)
		}
	}
}

func TestScaffoldOfAReleaseRequiresThatRelease(t *testing.T) {
	for in, want := range map[string]string{"0.1.0-dev": "v0.1.0", "1.4.2": "v1.4.2", "v2.0.0": "v2.0.0"} {
		if got := release(in); got != want {
			t.Errorf("release(%s) = %s, want %s", in, got, want)
		}
	}
	s := scaffold{Name: "x", Role: driver.RoleChallenge, Lang: "go", Dir: filepath.Join(t.TempDir(), "x"), Release: "v1.2.3", Go: "1.26.0", Binary: "kairos-driver-x", Module: "m"}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, "go.mod"))
	if err != nil || !strings.Contains(string(b), "require "+kairosModule+" v1.2.3") || strings.Contains(string(b), "replace") {
		t.Errorf("go.mod = %s (%v), want the release and no replace", b, err)
	}
}

// Outside of a checkout nothing but the network is needed: make sees to go.sum.
func TestScaffoldWithoutACheckoutMakesItsSums(t *testing.T) {
	s := scaffold{Name: "x", Role: driver.RoleChallenge, Lang: "go", Dir: filepath.Join(t.TempDir(), "x"), Release: "v1.2.3", Go: "1.26.0", Binary: "kairos-driver-x", Module: "m"}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	plan := func() string {
		cmd := exec.Command("make", "-n", "--no-print-directory", "test")
		cmd.Dir = s.Dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make -n test: %v\n%s", err, out)
		}
		return string(out)
	}
	if got := plan(); !strings.HasPrefix(got, "go mod tidy\n") {
		t.Errorf("without go.sum make test does\n%s\nwant go mod tidy first", got)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "go.sum"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := plan(); strings.Contains(got, "tidy") {
		t.Errorf("with go.sum make test does\n%s\nwant no go mod tidy", got)
	}
}

func TestScaffoldRefusesWhatCannotBe(t *testing.T) {
	for name, s := range map[string]scaffold{
		"name":   {Name: "Bad Name", Role: driver.RoleChallenge, Lang: "go"},
		"role":   {Name: "x", Role: "judge", Lang: "go"},
		"lang":   {Name: "x", Role: driver.RoleChallenge, Lang: "cobol"},
		"module": {Name: "x", Role: driver.RoleChallenge, Lang: "python", Module: "example.com/x"},
	} {
		if err := s.complete(); err == nil || !strings.Contains(err.Error(), name) && name != "name" {
			t.Errorf("complete(%s) = %v, want a refusal that names it", name, err)
		}
	}
	s := scaffold{Name: "x", Role: driver.RoleChallenge, Lang: "python", Dir: t.TempDir()}
	if err := errorOf(s.complete(), s.write); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("write into a folder that is there = %v, want a refusal", err)
	}
}

func errorOf(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}
