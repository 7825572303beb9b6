package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// where bubblewrap is looked for: where packages put it. A PATH is not asked,
// which others may have set.
var where = []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"}

// errMissing is the error where there is no bubblewrap.
var errMissing = errors.New("bubblewrap is not installed: install the package bubblewrap, or set wrapper in the driver's settings")

// bubblewrap finds the program, which nobody but root may be able to replace.
func bubblewrap(workspace string) (string, error) {
	for _, path := range where {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = trusted(real, workspace)
		}
		return real, err
	}
	return "", errMissing
}

// trusted refuses a program that somebody besides root can replace.
func trusted(path, workspace string) error {
	if within(path, workspace) {
		return fmt.Errorf("%s lies in the workspace, where anybody may replace it: install the package bubblewrap", path)
	}
	for at := path; ; at = filepath.Dir(at) {
		if at == "/" && readOnly(at) { // the one that the host makes for a driver; it is of the driver's account
			return nil
		}
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || info.Mode().Perm()&0o022 != 0 || owner.Uid != 0 && !rootUnseen(at, owner.Uid) {
			return fmt.Errorf("%s is not owned by root, or others can write to it, so that the sandbox can be replaced: correct that, or install the package bubblewrap", at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// rootUnseen reports whether a file can be root's although its owner is shown as
// another one. The host starts drivers of an account without rights in a user namespace
// that has only this account: all others, root too, are shown as the overflow account.
// There a file must lie where only packages put programs, and must not be this
// account's own. So to replace it one needs the rights of a third account that owns
// the folder of the system's programs.
func rootUnseen(path string, owner uint32) bool {
	if mapsRoot() || !within("/usr/bin", path) && !within(path, "/usr/bin") {
		return false
	}
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	return err == nil && strings.TrimSpace(string(overflow)) == strconv.FormatUint(uint64(owner), 10) && !owns(path)
}

// mapsRoot reports whether the user namespace of this process has the account 0.
func mapsRoot() bool {
	ranges, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || slices.ContainsFunc(strings.Split(string(ranges), "\n"), func(line string) bool {
		fields := strings.Fields(line) // first account inside, outside, number
		return len(fields) == 3 && fields[0] == "0"
	})
}

// within reports whether a path is a folder or in it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// can is what the installed bubblewrap offers, by the words of its --help. If it does not
// say, it is taken for a new one: an older one refuses the option, and no command runs with
// less confinement than it could have.
var can = sync.OnceValue(func() func(option string) bool {
	path, err := bubblewrap("/nowhere")
	if err != nil {
		return func(string) bool { return false }
	}
	help, err := exec.CommandContext(context.Background(), path, "--help").CombinedOutput()
	if err != nil {
		return func(string) bool { return true }
	}
	return func(option string) bool { return strings.Contains(string(help), " "+option+" ") }
})

// status is what bubblewrap says of the command, where the command cannot say it.
type status struct {
	from *os.File
	to   *os.File
}

func newStatus(cmd *exec.Cmd) (*status, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{to}
	return &status{from, to}, nil
}

// ran reports whether the command was started: only then bubblewrap tells its exit
// code. It is called when the program has ended.
func (s *status) ran() bool {
	_ = s.to.Close()
	_ = s.from.SetReadDeadline(time.Now().Add(time.Second))
	said, _ := io.ReadAll(io.LimitReader(s.from, 4<<10))
	return strings.Contains(string(said), `"exit-code"`)
}

func (s *status) close() { _ = errors.Join(s.from.Close(), s.to.Close()) }

// refusal is the error of a bubblewrap that did not start the command.
func refusal(res Result) error {
	said := strings.TrimSpace(res.Stderr.Text)
	fix := "`kairos doctor` says what this machine lacks"
	switch {
	case strings.Contains(said, "execvp"):
		fix = "the sandbox has no such program"
	case strings.Contains(said, "setting up uid map") || strings.Contains(said, "loopback"):
		fix = "AppArmor forbids user namespaces: give /usr/bin/bwrap a profile with userns, or set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0"
	case strings.Contains(said, "Can't mount proc") || strings.Contains(said, "make / slave"):
		fix = "the container forbids mounts: start it with a seccomp and an AppArmor profile that allow them and without masks over /proc (docker: --security-opt seccomp=… apparmor=… systempaths=unconfined), or set wrapper in the driver's settings"
	case strings.Contains(said, "No permissions to create") || strings.Contains(said, "Creating new namespace failed"):
		fix = "the machine or container forbids user namespaces: allow them (sysctl kernel.unprivileged_userns_clone=1, or the container's seccomp profile), or set wrapper in the driver's settings"
	}
	return fmt.Errorf("the sandbox was not made: %s; %s", cmp.Or(said, "bubblewrap ended"), fix)
}
