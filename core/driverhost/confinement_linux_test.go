package driverhost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// installation is a server's files, as on a machine.
type installation struct {
	dir, data, project, drivers, admin string
	confinement                        driverhost.Confinement
}

const secret = "the server's secret"

// serversFiles are what a driver must not see, in the folder of an installation. Some
// are made only while a driver runs.
var serversFiles = []string{
	"data/kairos.db", "data/kairos.db-wal", "data/kairos.db-shm", "data/kairos.db.lock", "data/state.key", "data/signing.key", "data/tools.json",
	"project/t.db", "project/t.db-wal", "drivers/drivers.lock", "drivers/kairos-driver-x", "admin/1.token", "kairos.yaml", "tree.yaml",
	"home/.ssh/id_ed25519", "backups/kairos-backup.db", "exports/run.json",
}

func (i installation) files() []string {
	var out []string
	for _, f := range serversFiles {
		out = append(out, filepath.Join(i.dir, f))
	}
	return out
}

func newInstallation(t *testing.T) installation {
	t.Helper()
	dir := t.TempDir()
	i := installation{
		dir: dir, data: filepath.Join(dir, "data"), project: filepath.Join(dir, "project"),
		drivers: filepath.Join(dir, "drivers"), admin: filepath.Join(dir, "admin"),
	}
	for _, path := range i.files() {
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, []byte(secret), 0o600))
	}
	check(t, os.WriteFile(filepath.Join(i.project, "main.go"), []byte("package main"), 0o600))
	l, err := net.Listen("unix", filepath.Join(i.admin, "1.sock"))
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	i.confinement = driverhost.Confinement{
		Private: []string{
			filepath.Join(i.data, "kairos.db"), filepath.Join(i.data, "state.key"), filepath.Join(i.data, "signing.key"), filepath.Join(i.data, "tools.json"),
			filepath.Join(i.project, "t.db"), i.drivers, i.admin,
		},
		Settings: []string{filepath.Join(dir, "kairos.yaml"), filepath.Join(dir, "tree.yaml")},
	}
	return i
}

// at is the confinement at one level.
func (i installation) at(l driverhost.Level) driverhost.Confinement {
	c := i.confinement
	c.Level = l
	return c
}

// isolations are the ways to isolate a driver.
func isolations(t *testing.T, i installation) map[string]driverhost.ExecSetup {
	t.Helper()
	return map[string]driverhost.ExecSetup{
		"namespace": {Confinement: i.at(driverhost.LevelNamespace)},
		"Landlock":  {Confinement: i.at(driverhost.LevelLandlock)},
	}
}

func said(t *testing.T, e *driverhost.Exec, do string, more ...string) string {
	t.Helper()
	got, err := e.Run(t.Context(), "Advance", order(do, more...))
	if err != nil {
		t.Fatalf("%s %q: %v", do, more, err)
	}
	var text string
	if err := json.Unmarshal([]byte(got), &text); err != nil {
		t.Fatalf("%s %q replied %s", do, more, got)
	}
	return text
}

func TestHostileDriverReachesNothingOfItsServer(t *testing.T) {
	t.Setenv("KAIROS_TEST_SECRET", secret)
	i := newInstallation(t)
	for name, setup := range isolations(t, i) {
		t.Run(name, func(t *testing.T) {
			e := newExec(t, "", setup, io.Discard)
			for _, file := range i.files() {
				for _, do := range []string{"read", "change", "uncover", "parent root"} {
					if got := said(t, e, do, "file", file); !strings.HasPrefix(got, "refused") {
						t.Errorf("%s %s: %s", do, file, got)
					}
				}
			}
			if got := said(t, e, "create", "file", filepath.Join(i.drivers, "kairos-driver-y")); !strings.HasPrefix(got, "refused") {
				t.Errorf("it made a driver: %s", got)
			}
			if got := said(t, e, "parent environment"); !strings.HasPrefix(got, "refused") || strings.Contains(got, secret) {
				t.Errorf("the server's environment: %s", got)
			}
			if _, err := os.Stat(filepath.Join(i.data, "kairos.db")); err != nil {
				t.Errorf("the server itself: %v", err)
			}
		})
	}
}

// hostile is a script that tries the orders with the probe, all in one process because
// a description has its time, and its environment,
// whenever it is run, and puts what came of it into its descriptor.
func hostile(t *testing.T, orders []string) []byte {
	t.Helper()
	script := "#!/bin/sh\n" + `found=$(env | tr '\n"\\' '   ' | sed 's/.*/"environment: &"/')` + "\n"
	script += "found=\"$found$(printf '%s'"
	for _, o := range orders {
		script += ` "` + strings.ReplaceAll(o, `"`, `\"`) + `"`
	}
	script += " | " + probePath() + " orders)\"\n"
	return []byte(script + `printf '{"name":"hostile","version":"1.0.0","role":"challenge","handles":["hostile"],"effect":"pure","transport":"exec",'
printf '"config_schema":{"type":"object","x-found":[%s]}}' "$found"` + "\n")
}

// A binary is described before anybody has decided to trust it, and the kit runs
// what nobody trusts at all.
func TestUnknownBinaryReachesNothingOfTheServerEither(t *testing.T) {
	t.Setenv("KAIROS_TEST_SECRET", secret)
	for _, level := range []driverhost.Level{driverhost.LevelLandlock, driverhost.LevelNamespace} {
		i := newInstallation(t)
		path := filepath.Join(i.drivers, "kairos-driver-hostile")
		var orders []string
		for _, file := range i.files() {
			orders = append(orders, order("read", "file", file), order("change", "file", file), order("uncover", "file", file),
				order("read", "file", "/proc/$PPID/root"+file))
		}
		orders = append(orders, order("read", "file", "/proc/$PPID/environ"), order("create", "file", path+"2"), order("change", "file", path))
		if level == driverhost.LevelNamespace {
			orders = append(orders, order("connect", "file", filepath.Join(i.admin, "1.sock")))
		}
		check(t, os.WriteFile(path, hostile(t, orders), 0o700))
		isolated := i.at(level)
		isolated.Folders = []string{binaries}
		for name, run := range map[string]func() (driver.Descriptor, error){
			"locked": func() (driver.Descriptor, error) {
				l, err := driverhost.DescribeAll(t.Context(), i.drivers, isolated)
				return append(l.Descriptors(), driver.Descriptor{})[0], err
			},
			"installed": func() (driver.Descriptor, error) {
				e, err := driverhost.DescribeFile(t.Context(), path, isolated)
				return e.Descriptor, err
			},
			"run by the kit": func() (d driver.Descriptor, err error) {
				p, err := driverhost.RunOnce(t.Context(), path, nil, nil, driverhost.LaunchConfig{Confinement: isolated})
				if err != nil {
					return d, err
				}
				return d, json.Unmarshal(p.Stdout, &d)
			},
			"started by the kit": func() (driver.Descriptor, error) {
				l, err := driverhost.Launch(t.Context(), path, driverhost.LaunchConfig{Confinement: isolated}, quiet())
				if err != nil {
					return driver.Descriptor{}, err
				}
				defer func() { check(t, l.Close()) }()
				return l.Calls().Describe(t.Context())
			},
		} {
			t.Run(string(level)+", "+name, func(t *testing.T) {
				d, err := run()
				check(t, err)
				var schema struct {
					Found []string `json:"x-found"`
				}
				check(t, json.Unmarshal(d.ConfigSchema, &schema))
				if len(schema.Found) != len(orders)+1 || strings.Contains(schema.Found[0], secret) {
					t.Fatalf("%d of %d orders were obeyed: %q", len(schema.Found)-1, len(orders), schema.Found)
				}
				for n, got := range schema.Found[1:] {
					if !strings.HasPrefix(got, "refused") {
						t.Errorf("%s: %s", orders[n], got)
					}
				}
			})
		}
	}
}

func TestUnknownBinaryIsNotRunWhereTheDemandedIsolationIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos-driver-x")
	ran := path + ".ran"
	check(t, os.WriteFile(path, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700))
	demand := driverhost.Confinement{Level: "a level that no machine has"}
	_, err := driverhost.DescribeFile(t.Context(), path, demand)
	_, err2 := driverhost.RunOnce(t.Context(), path, nil, nil, driverhost.LaunchConfig{Confinement: demand})
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "drivers.isolation demands") {
			t.Errorf("error = %v, want that the isolation is missing", err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran")
	}
}

// listen makes a socket in a folder of its own, as go-plugin does for a driver.
func listen(t *testing.T, base, folder string) (socket string) {
	t.Helper()
	socket = filepath.Join(base, folder, "plugin.sock")
	check(t, os.MkdirAll(filepath.Dir(socket), 0o700))
	l, err := net.Listen("unix", socket)
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return socket
}

func TestHostileDriverReachesNoSocketsOfOthers(t *testing.T) {
	i, runtime := newInstallation(t), runtimeFolder(t)
	others := filepath.Join(runtime, "kairos-drv-1")
	socket := listen(t, others, "other1")
	alive, err := os.Open(others)
	check(t, err)
	t.Cleanup(func() { check(t, alive.Close()) })
	check(t, syscall.Flock(int(alive.Fd()), syscall.LOCK_EX)) // or the next host would remove it
	for name, setup := range isolations(t, i) {
		t.Run("exec, "+name, func(t *testing.T) {
			e := newExec(t, "", setup, io.Discard)
			if got := said(t, e, "list", "file", others); got != "[]" && !strings.HasPrefix(got, "refused") {
				t.Errorf("it sees %s", got)
			}
			orders := []string{"create", "uncover", "parent root"}
			if setup.Confinement.Level == driverhost.LevelNamespace { // Landlock cannot refuse it, but the name is not known
				orders = append(orders, "connect")
			}
			for _, do := range orders {
				file := socket
				if do == "create" {
					file += ".new"
				}
				if got := said(t, e, do, "file", file); !strings.HasPrefix(got, "refused") {
					t.Errorf("%s: %s", do, got)
				}
			}
		})
	}
	t.Run("grpc", func(t *testing.T) {
		h := driverhost.New(quiet(), driverhost.Options{Confinement: i.at(driverhost.LevelNamespace)})
		t.Cleanup(func() { check(t, h.Close()) })
		set, err := h.Load(complete(t, driverhost.Config{}))
		check(t, err)
		mustObey(t, set, "alpha", "pid")
		mine, err := filepath.Glob(filepath.Join(runtime, "kairos-drv-*"))
		check(t, err)
		mine = slices.DeleteFunc(mine, func(dir string) bool { return dir == others })
		if len(mine) != 1 {
			t.Fatalf("the host has the folders %v", mine)
		}
		sockets := []string{socket, listen(t, mine[0], "other2")} // as of a driver that just starts
		mustObey(t, set, "beta", "pid")
		for _, name := range []string{"alpha", "beta"} {
			for _, s := range sockets {
				if got := mustObey(t, set, name, "connect", "file", s); !strings.HasPrefix(got, `"refused`) {
					t.Errorf("%s, %s: %s", name, s, got)
				}
				if got := mustObey(t, set, name, "list", "file", filepath.Dir(filepath.Dir(s))); strings.Contains(got, filepath.Base(filepath.Dir(s))) {
					t.Errorf("%s sees in %s: %s", name, filepath.Dir(filepath.Dir(s)), got)
				}
			}
		}
	})
}

// A process that starts later does not change what one sees that runs.
func TestEveryProcessKeepsItsOwnSocketFolder(t *testing.T) {
	i := newInstallation(t)
	runtimeFolder(t)
	h := driverhost.New(quiet(), driverhost.Options{Confinement: i.at(driverhost.LevelNamespace)})
	t.Cleanup(func() { check(t, h.Close()) })
	cfg := complete(t, driverhost.Config{})
	set, err := h.Load(cfg)
	check(t, err)
	var wg sync.WaitGroup
	for range 3 { // starts side by side, and again in the place of each other
		for _, name := range []string{"alpha", "beta", "gamma", "pure"} {
			wg.Go(func() {
				if _, err := obey(t.Context(), t, set, name, "pid"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		next, err := h.Prepare(t.Context(), set, cfg, "alpha", "beta", "gamma", "pure")
		check(t, err)
		h.Use(next)
		h.Drain(set)
		set = next
	}
}

// messy is a driver on the exec transport that leaves all it can and then does as the
// challenge says.
const messy = `#!/bin/sh
setsid sleep NAP </dev/null >/dev/null 2>&1 &
setsid sh -c 'echo $$ >> FOLDER/left; sleep NAP & sleep NAP' &
if [ "$1" = --describe ]; then
  echo '{"name": "messy", "version": "1.0.0", "role": "challenge", "handles": ["messy"], "effect": "changes", "transport": "exec"}'
  exit 0
fi
if [ "$2" = CheckHealth ]; then
  echo '{"healthy": true}'
  exit 0
fi
until [ -s FOLDER/left ]; do sleep 0.01; done
case $(cat) in
  *hang*) sleep NAP;;
  *die*) kill -9 $$;;
  *) echo '{"accepted": {"proof": 1}}';;
esac
`

// running lists the processes with an argument.
func running(t *testing.T, argument string) (pids []string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	for _, path := range processes {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), "\x00"+argument) {
			pids = append(pids, path)
		}
	}
	return pids
}

func TestTheExecTransportLeavesNoFilesAndNoProcesses(t *testing.T) {
	i := newInstallation(t)
	levels := []driverhost.Level{driverhost.LevelNamespace, driverhost.LevelLandlock, driverhost.LevelNone}
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			runtime, temporary, dir, folder := runtimeFolder(t), t.TempDir(), t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", temporary)
			nap := fmt.Sprintf("1000.%09d", time.Now().Nanosecond()) // by which its processes are known
			install(t, dir, "messy", []byte(strings.NewReplacer("FOLDER", folder, "NAP", nap).Replace(messy)))
			files := openFiles(t)
			isolated := i.at(level)
			isolated.Folders = []string{folder}
			lock, err := driverhost.DescribeAll(t.Context(), dir, isolated)
			check(t, err)
			h := driverhost.New(quiet(), driverhost.Options{Confinement: isolated})
			set, err := h.Load(complete(t, driverhost.Config{Dir: dir, Lock: lock,
				Drivers: map[string]driverhost.DriverConfig{"messy": {Folders: []string{folder}, May: driverhost.May{driverhost.MayChange}}}}))
			check(t, err)
			c, _ := set.Challenge("messy")
			for do, fails := range map[string]bool{"nothing": false, "hang": true, "die": true} {
				ctx, cancel := t.Context(), func() {}
				if do == "hang" {
					ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				}
				_, err := c.Advance(ctx, driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"` + do + `"}`)})
				cancel()
				if (err != nil) != fails {
					t.Errorf("%s: error = %v, want one: %t", do, err, fails)
				}
			}
			check(t, h.Close())
			left, err := os.ReadFile(filepath.Join(folder, "left"))
			check(t, err)
			if len(left) == 0 {
				t.Error("no process was left, so that nothing is tested")
			}
			if pids := running(t, nap); len(pids) > 0 {
				t.Errorf("processes %v still live", pids)
			}
			if left := append(filesIn(t, runtime), filesIn(t, temporary)...); len(left) > 0 {
				t.Errorf("the host leaves %v", left)
			}
			if now := openFiles(t); now > files {
				t.Errorf("%d files are open, before it were %d", now, files)
			}
		})
	}
}

// What is made, rotated or restored while a driver runs is hidden from it like what was
// there before.
func TestFilesThatAreMadeLaterAreHiddenFromARunningDriver(t *testing.T) {
	for _, level := range []driverhost.Level{driverhost.LevelNamespace, driverhost.LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			i := newInstallation(t)
			for _, path := range i.files() {
				check(t, os.Remove(path))
			}
			h := driverhost.New(quiet(), driverhost.Options{Confinement: i.at(level)})
			t.Cleanup(func() { check(t, h.Close()) })
			set, err := h.Load(complete(t, driverhost.Config{}))
			check(t, err)
			mustObey(t, set, "alpha", "count")
			refused := func(when string) {
				for _, path := range append(i.files(), filepath.Join(i.data, "kairos.db.before-restore")) {
					check(t, os.WriteFile(path+".new", []byte(secret), 0o600))
					check(t, os.Rename(path+".new", path))
					for _, do := range []string{"read", "change"} {
						if got := mustObey(t, set, "alpha", do, "file", path); !strings.HasPrefix(got, `"refused`) {
							t.Errorf("%s %s, %s: %s", do, path, when, got)
						}
					}
				}
			}
			refused("made after the start")
			refused("replaced")
			if count := mustObey(t, set, "alpha", "count"); count != "2" {
				t.Errorf("count = %s, want 2 of the same process", count)
			}
		})
	}
}

func TestIsolatedDriverStillUsesWhatItMay(t *testing.T) {
	i := newInstallation(t)
	for name, setup := range isolations(t, i) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file := filepath.Join(folder, "report.txt")
			check(t, os.WriteFile(file, []byte("report"), 0o600))
			setup.Write = []string{folder}
			e := newExec(t, "", setup, io.Discard)
			if got := said(t, e, "change", "file", file); got != "opened: report" {
				t.Errorf("a file that its settings name: %s", got)
			}
			if got := said(t, e, "read", "file", "/etc/passwd"); !strings.Contains(got, "root:") {
				t.Errorf("a file of the system: %s", got)
			}
			outside := said(t, e, "read", "file", filepath.Join(i.project, "main.go"))
			if !strings.HasPrefix(outside, "refused") {
				t.Errorf("a file that no settings name: %s", outside)
			}
		})
	}
}

// With a signal of its own kind, so that nothing ends if it arrives.
func TestDriverCannotSignalItsServer(t *testing.T) {
	i := newInstallation(t)
	for name, setup := range isolations(t, i) {
		t.Run(name, func(t *testing.T) {
			e := newExec(t, "", setup, io.Discard)
			switch got := said(t, e, "signal parent"); {
			case setup.Confinement.Level == driverhost.LevelNamespace && got != "sent to 0": // its own group
				t.Error(got)
			case setup.Confinement.Level == driverhost.LevelLandlock && !strings.HasPrefix(got, "refused"):
				if version, err := sandbox.LandlockVersion(); err == nil && version >= 6 {
					t.Error(got)
				}
			}
		})
	}
}

// A driver has what every program needs.
func TestIsolatedDriverHasWhatProgramsNeed(t *testing.T) {
	i := newInstallation(t)
	for name, setup := range isolations(t, i) {
		t.Run(name, func(t *testing.T) {
			e := newExec(t, "", setup, io.Discard)
			for _, run := range []string{
				"cat /etc/resolv.conf /etc/hosts /etc/nsswitch.conf", "test -r /etc/ssl/certs", "echo x > $TMPDIR/x && cat $TMPDIR/x", "echo x > /dev/null",
				"head -c 1 /dev/urandom > /dev/null", "ls /usr/bin > /dev/null", "cat /proc/self/status", "date > /dev/null",
			} {
				if got := said(t, e, "run", "text", run); !strings.HasSuffix(got, "<nil>") {
					t.Errorf("%s: %s", run, got)
				}
			}
			for _, run := range []string{"echo x > /usr/x", "echo x > /etc/x", "echo x > /x", "cat /etc/shadow", "ls /root", "ls /home", "ls /opt", "ls /sys"} {
				if got := said(t, e, "run", "text", run); strings.HasSuffix(got, "<nil>") {
					t.Errorf("%s succeeds: %s", run, got)
				}
			}
		})
	}
}

func TestDriversInheritNoOpenFiles(t *testing.T) {
	i := newInstallation(t)
	leak, err := os.Open(filepath.Join(i.data, "kairos.db"))
	check(t, err)
	defer func() { _ = leak.Close() }()
	_, err = unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0) // as one that the server has inherited
	check(t, err)
	for name, setup := range isolations(t, i) {
		t.Run(name, func(t *testing.T) {
			e := newExec(t, "", setup, io.Discard)
			got, err := e.Run(t.Context(), "Advance", order("descriptors"))
			check(t, err)
			var open map[string]string
			check(t, json.Unmarshal([]byte(got), &open))
			for number, to := range open {
				switch {
				case number == "3" && strings.HasSuffix(to, "/probe"), strings.HasPrefix(to, "pipe:"), strings.HasPrefix(to, "anon_inode:"), strings.HasPrefix(to, "/proc/"),
					strings.HasPrefix(to, "/sys/fs/cgroup/"): // Go's runtime reads its limits there
				default:
					t.Errorf("descriptor %s is %s", number, to)
				}
			}
		})
	}
}

func TestDriverWithoutNetworkStartsInsideLandlock(t *testing.T) {
	i := newInstallation(t)
	for by, want := range map[string]string{"": "network: denied by a network namespace", "Landlock": "network: TCP denied by Landlock"} {
		e := newExec(t, "", driverhost.ExecSetup{Offline: true, Isolation: by, Confinement: i.at(driverhost.LevelLandlock)}, io.Discard)
		if got := said(t, e, "dial", "text", listener(t)); got == "reached" {
			t.Errorf("dial: %s", got)
		}
		if words := strings.Join(e.Protection(), "\n"); !strings.Contains(words, want) {
			t.Errorf("Protection:\n%s", words)
		}
	}
}

func TestLandlockRefusesAFolderThatContainsTheDatabaseAtLoadAndReload(t *testing.T) {
	i := newInstallation(t)
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(i.project, link))
	h := driverhost.New(quiet(), driverhost.Options{Confinement: i.at(driverhost.LevelLandlock)})
	t.Cleanup(func() { check(t, h.Close()) })
	with := func(own driverhost.DriverConfig) driverhost.Config {
		return complete(t, driverhost.Config{Drivers: map[string]driverhost.DriverConfig{"alpha": own}})
	}
	running, err := h.Load(with(driverhost.DriverConfig{Folders: []string{t.TempDir()}}))
	check(t, err)
	pid := mustObey(t, running, "alpha", "pid")
	for name, tc := range map[string]struct {
		own  driverhost.DriverConfig
		want string
	}{
		"the folder of the database":        {driverhost.DriverConfig{Folders: []string{i.project}}, "t.db"},
		"a link to it":                      {driverhost.DriverConfig{Folders: []string{link}}, "t.db"},
		"a folder above":                    {driverhost.DriverConfig{Folders: []string{filepath.Dir(i.data)}}, "kairos.db"},
		"everything":                        {driverhost.DriverConfig{Folders: []string{"/"}}, "kairos.db"},
		"the file itself":                   {driverhost.DriverConfig{Folders: []string{filepath.Join(i.project, "t.db-wal")}}, "t.db"},
		"a key, named in its configuration": {driverhost.DriverConfig{Folders: driverhost.PathsIn(json.RawMessage(`{"files": ["` + filepath.Join(i.data, "signing.key") + `"]}`))}, "key"},
		"the folder of the lock":            {driverhost.DriverConfig{Folders: []string{i.drivers}}, "drivers"},
		"the folder of the admin socket":    {driverhost.DriverConfig{Folders: []string{i.admin}}, "admin"},
	} {
		t.Run(name, func(t *testing.T) {
			_, load := h.Load(with(tc.own))
			_, reload := h.Prepare(t.Context(), running, with(tc.own))
			for when, err := range map[string]error{"Load": load, "Prepare": reload} {
				if err == nil || !strings.Contains(err.Error(), `driver "alpha": it may use `) || !strings.Contains(err.Error(), tc.want) ||
					!strings.Contains(err.Error(), "move the server's file into a folder of its own") {
					t.Errorf("%s = %v, want that it names driver, folder, %s and what to do", when, err, tc.want)
				}
			}
			if now := mustObey(t, running, "alpha", "pid"); now != pid {
				t.Errorf("driver process %s became %s by a reload that was refused", pid, now)
			}
		})
	}
}

func TestDriverThatIsolatesWhatItStartsGetsNoLandlock(t *testing.T) {
	i := newInstallation(t)
	e := newExec(t, "", driverhost.ExecSetup{
		Launcher: true, Confinement: i.at(driverhost.LevelLandlock),
	}, io.Discard)
	stateOf(t, e)
	if words := strings.Join(e.Protection(), "\n"); !strings.Contains(words, "files: NOT restricted: it isolates what it starts itself") {
		t.Errorf("Protection:\n%s", words)
	}
}

// beUser lets a probe read a secret of this user, and says what came of it.
func beUser(probe string) error {
	dir := os.Getenv("KAIROS_TEST_USER_DIR")
	e, err := driverhost.NewExec(probe, driverhost.ExecSetup{Confinement: driverhost.Confinement{
		Private: []string{filepath.Join(dir, "kairos.db")}, Level: driverhost.LevelNamespace,
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for _, do := range []string{"read", "uncover", "parent environment"} {
		got, err := e.Run(context.Background(), "Advance", order(do, "file", filepath.Join(dir, "kairos.db")))
		fmt.Printf("%s: %s %v\n", do, strings.TrimSpace(got), err)
	}
	got, err := e.Run(context.Background(), "Advance", order("state"))
	fmt.Println(strings.Contains(got, `CapEff:\t0000000000000000`), err)
	return e.Close()
}

func TestUserWithoutPrivilegesGetsAMountNamespaceToo(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "kairos.db"), []byte(secret), 0o600))
	user := exec.Command("/proc/self/exe")
	user.Env = append(os.Environ(), userMode+"="+probePath(), "KAIROS_TEST_USER_DIR="+dir)
	if os.Geteuid() == 0 {
		const nobody = 65534
		user.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		check(t, os.Chown(dir, nobody, nobody))
		check(t, os.Chown(filepath.Join(dir, "kairos.db"), nobody, nobody))
		check(t, os.Chmod(binaries, 0o755))
	}
	said, err := user.CombinedOutput()
	if strings.Contains(string(said), "does not offer") && os.Getenv("CI") == "" {
		t.Skipf("NOT TESTED: this machine lets users make no namespaces: %s", said)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	if err != nil || len(lines) != 4 || lines[3] != "true <nil>" {
		t.Fatalf("%v: %s", err, said)
	}
	for _, line := range lines[:3] {
		if !strings.Contains(line, `: "refused`) || strings.Contains(line, secret) {
			t.Error(line)
		}
	}
}

// A script needs its interpreter, which may be in somebody's home folder.
func TestAnInterpreterOutsideOfTheViewIsNamed(t *testing.T) {
	i := newInstallation(t)
	tools := t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(tools, "sh"), shell, 0o700))
	script := filepath.Join(t.TempDir(), "kairos-driver-script")
	check(t, os.WriteFile(script, []byte("#!"+tools+"/sh\necho '\"works\"'\n"), 0o700))
	for name, setup := range isolations(t, i) {
		t.Run(name, func(t *testing.T) {
			_, err := newExec(t, script, setup, io.Discard).Run(t.Context(), "Advance", "{}")
			if err == nil || !strings.Contains(err.Error(), tools+"/sh") || !strings.Contains(err.Error(), "folders") {
				t.Errorf("error = %v, want that the interpreter and the setting are named", err)
			}
			setup.Read = []string{tools}
			if got, err := newExec(t, script, setup, io.Discard).Run(t.Context(), "Advance", "{}"); err != nil || strings.TrimSpace(got) != `"works"` {
				t.Errorf("with the folder: %s, %v", got, err)
			}
		})
	}
}
