package driverhost_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestLockSurvivesTheFile(t *testing.T) {
	want := lockOf(t)
	path := filepath.Join(t.TempDir(), driverhost.LockName)
	shuffled := want
	shuffled.Drivers = slices.Clone(want.Drivers)
	slices.Reverse(shuffled.Drivers)
	check(t, driverhost.WriteLock(path, shuffled))
	got, err := driverhost.ReadLock(path)
	if err != nil {
		t.Fatalf("ReadLock: %v", err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(driverhost.LockedEntry{})); diff != "" {
		t.Errorf("the lock changed on its way (-want +got):\n%s", diff)
	}
	first, err := os.ReadFile(path)
	check(t, err)
	check(t, driverhost.WriteLock(path, got))
	second, err := os.ReadFile(path)
	check(t, err)
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Errorf("the same drivers give another file:\n%s", diff)
	}
	if names := got.Descriptors(); len(names) != len(want.Drivers) || names[0].Name != "alpha" {
		t.Errorf("Descriptors = %v", names)
	}
}

// A start may skip the hash of a file that the hint beside the lock knows, and
// only of that: any change of the file, or of the hint's owner, is noticed.
func TestHintSkipsNoChangedBinary(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, lock, binary string)
		starts bool
	}{
		"unchanged": {func(*testing.T, string, string) {}, true},
		"unchanged, and not hashed: nobody sees that the sum is wrong": {func(t *testing.T, lock, _ string) {
			falsifySums(t, lock)
		}, true},
		"others can write the hint, so that the wrong sum is found": {func(t *testing.T, lock, _ string) {
			falsifySums(t, lock)
			check(t, os.Chmod(lock+".seen", 0o666))
		}, false},
		"without hint": {func(t *testing.T, lock, _ string) { check(t, os.Remove(lock+".seen")) }, true},
		"hint is garbage": {func(t *testing.T, lock, _ string) {
			check(t, os.WriteFile(lock+".seen", []byte("{"), 0o600))
		}, true},
		"changed in place, same size and times": {func(t *testing.T, _, binary string) {
			info, err := os.Stat(binary)
			check(t, err)
			file, err := os.OpenFile(binary, os.O_WRONLY, 0)
			check(t, err)
			_, err = file.WriteAt([]byte{0xa5}, info.Size()-1)
			check(t, err)
			check(t, file.Close())
			check(t, os.Chtimes(binary, info.ModTime(), info.ModTime()))
		}, false},
		"exchanged": {func(t *testing.T, _, binary string) {
			raw, err := os.ReadFile(binary)
			check(t, err)
			raw[len(raw)-1] ^= 1
			check(t, os.WriteFile(binary+".new", raw, 0o700))
			check(t, os.Rename(binary+".new", binary))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lock, binary := filepath.Join(dir, driverhost.LockName), filepath.Join(dir, "kairos-driver-alpha")
			copyFile(t, filepath.Join(binaries, "kairos-driver-alpha"), binary)
			eventually(t, "the binary has settled and is in the hint", func() bool {
				l, err := driverhost.DescribeAll(t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
				check(t, err)
				check(t, driverhost.WriteLock(lock, l))
				hint, err := os.ReadFile(lock + ".seen")
				check(t, err)
				return strings.Contains(string(hint), "alpha")
			})
			tc.change(t, lock, binary)
			l, err := driverhost.ReadLock(lock)
			check(t, err)
			h := newHost(t, driverhost.Config{Dir: dir, Lock: l}, io.Discard)
			if _, err := obey(t.Context(), t, h, "alpha", "pid"); (err == nil) != tc.starts {
				t.Errorf("start: %v, want that it starts: %t", err, tc.starts)
			}
		})
	}
}

// falsifySums puts the same wrong sum into a lock and its hint.
func falsifySums(t *testing.T, lock string) {
	t.Helper()
	sums := regexp.MustCompile(`"[0-9a-f]{64}"`)
	for _, path := range []string{lock, lock + ".seen"} {
		raw, err := os.ReadFile(path)
		check(t, err)
		check(t, os.WriteFile(path, sums.ReplaceAll(raw, []byte(`"`+strings.Repeat("0", 64)+`"`)), 0o600))
	}
}

func TestUnsoundLocksAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*driverhost.Lock)
		want   string
	}{
		"of another version":    {func(l *driverhost.Lock) { l.Version = 2 }, "version is 2"},
		"the same driver twice": {func(l *driverhost.Lock) { l.Drivers[1] = l.Drivers[0] }, "twice"},
		"outside the folder":    {func(l *driverhost.Lock) { l.Drivers[0].File = "../../bin/sh" }, "not inside"},
		"absolute":              {func(l *driverhost.Lock) { l.Drivers[0].File = "/bin/sh" }, "not inside"},
		"short sum": {func(l *driverhost.Lock) {
			l.Drivers[0].SHA256 = map[string]string{"linux/amd64": "abc"}
		}, "64 lower-case"},
		"another's descriptor": {func(l *driverhost.Lock) { l.Drivers[0].Name = "omega" }, "descriptor is that of alpha"},
		"unsound descriptor":   {func(l *driverhost.Lock) { l.Drivers[0].Descriptor.Effect = "magic" }, "effect"},
	} {
		t.Run(name, func(t *testing.T) {
			l := lockOf(t)
			l.Drivers = slices.Clone(l.Drivers)
			tc.change(&l)
			raw, err := json.Marshal(l)
			check(t, err)
			path := filepath.Join(t.TempDir(), driverhost.LockName)
			check(t, os.WriteFile(path, raw, 0o600))
			if _, err := driverhost.ReadLock(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ReadLock error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestUnreadableLocksSayWhichFileAndWhy(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"not JSON": "name: alpha", "unknown key": `{"version":1,"driver":[]}`, "more text": `{"version":1,"drivers":[]} {}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, driverhost.LockName)
			check(t, os.WriteFile(path, []byte(text), 0o600))
			if _, err := driverhost.ReadLock(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("ReadLock error = %v, want one that names %s", err, path)
			}
		})
	}
	_, err := driverhost.ReadLock(filepath.Join(dir, "absent"))
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("ReadLock error = %v, want one that says what writes the lock", err)
	}
}

func TestDescribeAllNamesTheBinaryThatFails(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"fails":        {"#!/bin/sh\necho broken >&2\nexit 1\n", "broken"},
		"says nothing": {"#!/bin/sh\n", "prints no descriptor"},
		"says why":     {"#!/bin/sh\necho no libfoo >&2\n", "prints no descriptor: no libfoo"},
		"is unsound":   {"#!/bin/sh\necho '{\"name\":\"x\"}'\n", "unsound"},
		"says too much": {"#!/bin/sh\nwhile :; do echo 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; " +
			"n=$((n+1)); [ $n -gt 20000 ] && exit 0; done\n", "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "kairos-driver-bad")
			check(t, os.WriteFile(path, []byte(tc.script), 0o700))
			_, err := driverhost.DescribeAll(t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("DescribeAll error = %v, want one with %q and %s", err, tc.want, path)
			}
		})
	}
	if _, err := driverhost.DescribeAll(t.Context(), t.TempDir(), driverhost.Confinement{Level: driverhost.LevelNone}); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("DescribeAll of an empty folder: error = %v", err)
	}
}

// Opening a named pipe would wait for a writer, so that a lock, or the start of a
// server, would never end.
func TestWhatIsNotARegularFileIsRefusedAtOnce(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o700) },
		"a folder":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a socket": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
		"a link to a named pipe": func(path string) error {
			return errors.Join(syscall.Mkfifo(filepath.Join(filepath.Dir(path), "pipe"), 0o600), os.Symlink("pipe", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "kairos-") // short enough for a socket
			check(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			path := filepath.Join(dir, "kairos-driver-alpha")
			check(t, put(path))
			entry := lockOf(t).Drivers[0]
			_, all := driverhost.DescribeAll(t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
			_, one := driverhost.DescribeFile(t.Context(), path, driverhost.Confinement{Level: driverhost.LevelNone})
			_, sum := driverhost.SumFile(path)
			_, lock := driverhost.ReadLock(path)
			h := newHost(t, driverhost.Config{Dir: dir, Lock: driverhost.Lock{Version: 1, Drivers: []driverhost.LockedEntry{entry}}}, io.Discard)
			_, start := obey(t.Context(), t, h, "alpha", "pid")
			for did, err := range map[string]error{
				"DescribeAll": all, "DescribeFile": one, "SumFile": sum, "ReadLock": lock, "a start": start,
				"VerifyFile": driverhost.VerifyFile(dir, entry),
			} {
				if err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
					t.Errorf("%s: error = %v, want that it is not a regular file", did, err)
				}
			}
		})
	}
}

// What is locked is the sum of what was executed.
func TestBinaryThatChangesWhileItIsDescribedIsRefused(t *testing.T) {
	const printed = `echo '{"name":"x","version":"1.0.0","role":"challenge","handles":["x"],"effect":"pure","transport":"exec"}'`
	for name, tc := range map[string]struct {
		change  string // of the file $0; it starts when the file's times have settled
		refused bool
	}{
		"it reads itself":             {`cat $0 >/dev/null`, false},
		"it adds to itself":           {`echo '# more' >> $0`, true},
		"it is another when it ends":  {`echo '# other' > $0.new; chmod 700 $0.new; mv $0.new $0`, true},
		"it removes itself":           {`rm $0`, true},
		"it changes itself and back":  {`cp $0 $0.old; echo '# more' >> $0; cat $0.old > $0; rm $0.old`, true},
		"it hides the change in time": {`touch -r $0 $0.old; echo '# more' >> $0; touch -r $0.old $0; rm $0.old`, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "kairos-driver-x")
			change := strings.ReplaceAll(tc.change, "$0", path)
			script := []byte("#!/bin/sh\nsleep 0.05\n" + change + "\n" + printed + "\n")
			for way, describe := range map[string]func() error{
				"DescribeAll": func() error {
					_, err := driverhost.DescribeAll(t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
					return err
				},
				"DescribeFile": func() error {
					_, err := driverhost.DescribeFile(t.Context(), path, driverhost.Confinement{Level: driverhost.LevelNone})
					return err
				},
			} {
				check(t, os.WriteFile(path, script, 0o700))
				err := describe()
				if refused := err != nil && strings.Contains(err.Error(), "was changed while it described itself"); refused != tc.refused || refused != (err != nil) {
					t.Errorf("%s: error = %v, want that it is refused: %t", way, err, tc.refused)
				}
			}
		})
	}
}

func TestDescribeAllHasAnEmptyEnvironment(t *testing.T) {
	t.Setenv("KAIROS_TEST_START", "exit") // would end the driver at once
	l, err := driverhost.DescribeAll(t.Context(), binaries, driverhost.Confinement{Level: driverhost.LevelNone})
	if err != nil {
		t.Fatalf("DescribeAll: %v", err)
	}
	roles := map[string]driver.Role{}
	for _, d := range l.Descriptors() {
		roles[d.Name] = d.Role
	}
	if roles["alpha"] != driver.RoleChallenge || roles["capable"] != driver.RoleCapability {
		t.Errorf("roles = %v", roles)
	}
}

func FuzzReadLock(f *testing.F) {
	f.Add([]byte(`{"version":1,"drivers":[{"name":"a","version":"1.0.0","file":"a","sha256":{},"descriptor":{}}]}`))
	f.Add([]byte(`{"version":1,"drivers":null}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(dir, driverhost.LockName)
		check(t, os.WriteFile(path, raw, 0o600))
		l, err := driverhost.ReadLock(path)
		if err == nil && l.Validate() != nil {
			t.Errorf("ReadLock took an unsound lock: %s", raw)
		}
	})
}
