package drivers

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
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
				if err := s.complete("0.1.0-dev"); err != nil {
					t.Fatal(err)
				}
				if err := s.write(); err != nil {
					t.Fatal(err)
				}
				noBraces(t, s)
				passesItsTests(t, s)
				if lang == "go" {
					in(t, s.Dir, "go", "build", "-o", s.Binary, ".")
					in(t, s.Dir, "gofmt", "-l", ".")
				}
				installs(t, s)
			})
		}
	}
}

func passesItsTests(t *testing.T, s scaffold) {
	t.Helper()
	if s.Lang == "go" {
		in(t, s.Dir, "go", "vet", "./...")
		in(t, s.Dir, "go", "test", "./...")
		return
	}
	in(t, s.Dir, "python3", "-m", "unittest")
}

// The tests of a new driver configure it with what the samples hold for, once its
// author adds settings that it needs.
func TestScaffoldsPassTheirTestsWithSettings(t *testing.T) {
	type edit struct{ file, old, new string }
	for lang, edits := range map[string][]edit{
		"go": {
			{"main.go", "challenge.Options[demand]{})", "challenge.Options[demand]{Settings: rules})"},
			{"main.go", "// judge holds", "var rules = settings.New[struct {\n\tAlways string `json:\"always\" required:\"true\"`\n}]()\n\n// judge holds"},
			{"main.go", "range d.Words {", "range append([]string{rules.Now().Always}, d.Words...) {"},
			{"main.go", "sdk/driverrpc\"\n", "sdk/driverrpc\"\n\t\"github.com/kairos-mcp/kairos/sdk/settings\"\n"},
		},
		"python": {
			{"kairos-driver-first-try", "for word in words:", "for word in [json.loads(os.environ[\"KAIROS_DRIVER_CONFIG\"])[\"always\"], *words]:"},
			{"kairos-driver-first-try", "import json\n", "import json\nimport os\n"},
		},
	} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			s := scaffold{Name: "first-try", Role: driver.RoleChallenge, Lang: lang, Dir: filepath.Join(t.TempDir(), "driver")}
			if err := errorOf(s.complete("0.1.0-dev"), s.write); err != nil {
				t.Fatal(err)
			}
			for _, e := range append(edits, edit{"samples.json", "{\n", "{\n  \"config\": {\"always\": \"command\"},\n"}) {
				replaceOnce(t, filepath.Join(s.Dir, e.file), e.old, e.new)
			}
			passesItsTests(t, s)
		})
	}
}

func replaceOnce(t *testing.T, path, old, with string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatalf("%s does not contain %q (%v)", path, old, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(b), old, with, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A driver that begins to use another package of the SDK needs no other module.
func TestAScaffoldBuildsWithEveryPackageOfTheSDK(t *testing.T) {
	s := scaffold{Name: "first-try", Role: driver.RoleChallenge, Lang: "go", Dir: filepath.Join(t.TempDir(), "driver")}
	if err := errorOf(s.complete("0.1.0-dev"), s.write); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	root := filepath.Join(s.Checkout, "sdk")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		if d.Name() == "testdata" || d.Name() == "drivertest" { // whose test is in the scaffold
			return filepath.SkipDir
		}
		name, err := filepath.Rel(root, path)
		fmt.Fprintf(&all, "import _ %q\n", sdkModule+"/"+filepath.ToSlash(name))
		return err
	})
	if err != nil || strings.Count(all.String(), "\n") < 13 {
		t.Fatalf("the packages of the SDK: %v\n%s", err, all.String())
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "all.go"), []byte("package main\n\n"+all.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	in(t, s.Dir, "go", "vet", "./...")
}

// go mod tidy has nothing to change. It reads modules that no build reads, so
// without a network it may be impossible to tell.
func TestTheModuleOfAScaffoldIsTidy(t *testing.T) {
	for _, role := range []driver.Role{driver.RoleChallenge, driver.RoleCapability} {
		s := scaffold{Name: "first-try", Role: role, Lang: "go", Dir: filepath.Join(t.TempDir(), "driver")}
		if err := errorOf(s.complete("0.1.0-dev"), s.write); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "mod", "tidy", "-diff")
		cmd.Dir = s.Dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		switch out, err := cmd.Output(); {
		case len(out) > 0:
			t.Errorf("go mod tidy would change this, so scaffold/go/go.mod.tmpl and go.sum.tmpl have to be brought up to date:\n%s", out)
		case err != nil:
			t.Skipf("NOT TESTED: go mod tidy cannot read all modules here: %v", err)
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
	c := config.Config{Drivers: config.DriversConfig{Dir: filepath.Join(t.TempDir(), "drivers")}}
	if _, err := install(t.Context(), c, []string{filepath.Join(s.Dir, s.Binary)}, installation{approve: func([]grant) error { return nil }, tell: func(*lockReport) {}}); err != nil {
		t.Fatal(err)
	}
	lock, err := driverhost.ReadLock(config.LockPath(c.Drivers.Dir))
	if err != nil {
		t.Fatal(err)
	}
	e, ok := EntryOf(lock, s.Name)
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
	if err != nil || !strings.Contains(string(b), "require "+sdkModule+" v1.2.3") || strings.Contains(string(b), "replace") {
		t.Errorf("go.mod = %s (%v), want the release and no replace", b, err)
	}
}

// Outside of a checkout nothing but the network is needed: make adds the sums of the SDK.
func TestScaffoldWithoutACheckoutMakesItsSums(t *testing.T) {
	s := scaffold{Name: "x", Role: driver.RoleChallenge, Lang: "go", Dir: filepath.Join(t.TempDir(), "x"), Release: "v1.2.3", Go: "1.26.0", Binary: "kairos-driver-x", Module: "m"}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	// The fake go prints its arguments.
	if err := os.WriteFile(filepath.Join(s.Dir, "go"), []byte("#!/bin/sh\necho go $*\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	calls := func() string {
		cmd := exec.Command("make", "-s", "test")
		cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), "PATH="+s.Dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make test: %v\n%s", err, out)
		}
		return string(out)
	}
	if got, want := calls(), "go mod tidy\ngo vet ./...\ngo test ./...\n"; got != want {
		t.Errorf("without the SDK's sums make test runs\n%s\nwant\n%s", got, want)
	}
	sums := filepath.Join(s.Dir, "go.sum")
	b, err := os.ReadFile(sums)
	if err != nil || !strings.Contains(string(b), "google.golang.org/grpc ") {
		t.Fatalf("go.sum = %q (%v), want the sums of the other modules", b, err)
	}
	if err := os.WriteFile(sums, append(b, sdkModule+" v1.2.3 h1:x=\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := calls(), "go vet ./...\ngo test ./...\n"; got != want {
		t.Errorf("with all sums make test runs\n%s\nwant\n%s", got, want)
	}
}

func TestScaffoldRefusesWhatCannotBe(t *testing.T) {
	for name, s := range map[string]scaffold{
		"name":   {Name: "Bad Name", Role: driver.RoleChallenge, Lang: "go"},
		"role":   {Name: "x", Role: "judge", Lang: "go"},
		"lang":   {Name: "x", Role: driver.RoleChallenge, Lang: "cobol"},
		"module": {Name: "x", Role: driver.RoleChallenge, Lang: "python", Module: "example.com/x"},
	} {
		if err := s.complete("0.1.0-dev"); err == nil || !strings.Contains(err.Error(), name) && name != "name" {
			t.Errorf("complete(%s) = %v, want a refusal that names it", name, err)
		}
	}
	s := scaffold{Name: "x", Role: driver.RoleChallenge, Lang: "python", Dir: t.TempDir()}
	if err := errorOf(s.complete("0.1.0-dev"), s.write); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("write into a folder that is there = %v, want a refusal", err)
	}
}

func errorOf(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// A folder whose name looks like a pattern was searched by that pattern, so that nothing
// was found in it and nothing was wrong.
func TestBinariesThatAreNotLockedAreNamedWhateverTheFolderIsCalled(t *testing.T) {
	for _, name := range []string{"drivers", "drivers[1]", "drivers[", "dri*vers?", `dri\vers`} {
		t.Run(name, func(t *testing.T) {
			var c config.Config
			c.Drivers.Dir = filepath.Join(t.TempDir(), name)
			if err := os.Mkdir(c.Drivers.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(c.Drivers.Dir, driverhost.BinaryPrefix+"stray"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := notLocked(c, driverhost.Lock{}); len(got) != 1 || !strings.Contains(got[0], "stray is not locked") {
				t.Errorf("notLocked = %q, want the stray binary", got)
			}
		})
	}
	var gone config.Config
	gone.Drivers.Dir = filepath.Join(t.TempDir(), "nowhere")
	if got := notLocked(gone, driverhost.Lock{}); len(got) != 1 || !strings.Contains(got[0], "cannot be read") {
		t.Errorf("notLocked of a folder that is not there = %q, want it said", got)
	}
}
