package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/e2e/programs"
)

// TestMain removes what the tests share. This test binary is the program, too:
// the scripts, which read like the manual, run it as kairos.
func TestMain(m *testing.M) {
	testscript.Main(shared{m}, map[string]func(){"kairos": main})
}

type shared struct{ *testing.M }

func (s shared) Run() int {
	defer func() {
		if builtIn != "" {
			_ = os.RemoveAll(builtIn)
		}
	}()
	return s.M.Run()
}

// long skips the test with -short. It is for tests that start the program or its
// drivers over and over.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED with -short: starts many processes")
	}
}

func TestScripts(t *testing.T) {
	long(t)
	t.Parallel()
	testscript.Run(t, scripts(t, "testdata/script"))
}

// The scripts in testdata/tools are the nine calls of agents as commands. They
// say the same whoever answers.
func TestTheNineCommandsAskTheLocalDatabase(t *testing.T) {
	long(t)
	t.Parallel()
	testscript.Run(t, scripts(t, "testdata/tools"))
}

func TestTheNineCommandsAskAServer(t *testing.T) {
	long(t)
	t.Parallel()
	p := scripts(t, "testdata/tools")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		address, err := serveHTTP(env)
		env.Setenv("KAIROS_API_URL", address)
		env.Setenv("KAIROS_DB", filepath.Join(env.WorkDir, "never", "touched.db"))
		env.Setenv("KAIROS_DRIVERS_DIR", filepath.Join(env.WorkDir, "nowhere"))
		return err
	}
	testscript.Run(t, p)
}

// The scripts in testdata/remote compare what commands say of a database with what
// they say of a server that uses it, at SERVER.
func TestCommandsSayTheSameOfAServerAsOfItsDatabase(t *testing.T) {
	long(t)
	t.Parallel()
	p := scripts(t, "testdata/remote")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		address, err := serveHTTP(env)
		env.Setenv("SERVER", address)
		return err
	}
	testscript.Run(t, p)
}

var restURL = regexp.MustCompile(`REST at (http://\S+)/api`)

// serveHTTP starts a server for a script and returns the URL that it says.
func serveHTTP(env *testscript.Env) (string, error) {
	config := filepath.Join(env.WorkDir, ".server.yaml")
	if err := os.WriteFile(config, []byte("metrics: {listen: off}\ndrivers: {watch: false}\n"), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"kairos", "serve", "--http=127.0.0.1:0", "--config", config}
	cmd.Env = slices.Clone(env.Vars)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	said := bufio.NewScanner(stderr)
	ended := make(chan struct{})
	env.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		_ = cmd.Wait()
	})
	var lines []string
	for said.Scan() {
		if m := restURL.FindStringSubmatch(said.Text()); m != nil {
			go func() {
				defer close(ended)
				for said.Scan() {
					fmt.Fprintln(os.Stderr, said.Text())
				}
			}()
			return m[1], nil
		}
		lines = append(lines, said.Text())
	}
	close(ended)
	return "", fmt.Errorf("the server ended: %q", lines)
}

func scripts(t *testing.T, dir string) testscript.Params {
	t.Helper()
	drivers := buildDrivers(t)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir:  dir,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"capture": capture, "sql": execSQL},
		Setup: func(env *testscript.Env) error {
			env.Setenv("DRIVERS", drivers)
			env.Setenv("KAIROS_DRIVERS_DIR", drivers)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("PLUGINS", filepath.Join(filepath.Dir(examples), "plugins"))
			env.Setenv("CALENDAR_SERVER", filepath.Join(filepath.Dir(drivers), "calendar-server"))
			env.Setenv("CALENDAR_STATE", filepath.Join(env.WorkDir, "calendar.json"))
			env.Setenv("KAIROS_DB", filepath.Join(env.WorkDir, "data", "kairos.db"))
			env.Setenv("LOG_LEVEL", "error")
			env.Setenv("NOBODY", "kairos://mem/12345678-1234-4234-8234-123456789abc")
			return nil
		},
	}
}

// capture VAR PATTERN keeps the first group of the pattern's first match in the
// standard output of the last command.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture VAR PATTERN")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("no match for %s", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// execSQL DATABASE STATEMENT damages a database, which no command of the program does.
func execSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql DATABASE STATEMENT")
	}
	ts.Check(sqlite.RegisterFunctions()) // to unpack what is stored
	db, err := sql.Open("sqlite", args[0])
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(errors.Join(err, db.Close()))
}

// buildDrivers returns the folder of the drivers that `make build` builds, and
// calendar-server beside it. It is built once for all tests, which leave it as
// it is, unless KAIROS_BIN names one.
func buildDrivers(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "drivers")
}

// builtIn is the folder around that one, for TestMain to remove.
var builtIn string

var built = sync.OnceValues(func() (string, error) {
	dir, isNew, err := programs.Find(context.Background())
	if isNew {
		builtIn = dir
	}
	return dir, err
})
