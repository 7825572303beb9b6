package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcherName is the name by which this program is the launcher.
const launcherName = "kairos-driver-launcher"

// self is this program, as its child sees it right after the fork.
const self = "/proc/self/exe"

// apply makes a command start through the launcher, with its namespaces.
func (l Launch) apply(cmd *exec.Cmd, j job) error {
	request, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write the request to the launcher: %w", err)
	}
	cmd.Args, cmd.Path = append([]string{launcherName, string(request)}, cmd.Args...), self
	switch {
	case l.Namespaces:
		flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC)
		if l.NoNetwork {
			flags |= unix.CLONE_NEWNET
		}
		return inUserNamespace(cmd.SysProcAttr, flags)
	case l.NoNetwork:
		return inUserNamespace(cmd.SysProcAttr, unix.CLONE_NEWNET)
	}
	return nil
}

// inUserNamespace lets a process be born in a user namespace, in which it stays who it
// is, and adds to the flags of what it has besides. Root keeps the other accounts.
func inUserNamespace(attr *syscall.SysProcAttr, flags uintptr) error {
	attr.Cloneflags |= unix.CLONE_NEWUSER | flags
	if os.Geteuid() != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // or it would lose them when it executes itself
		return nil
	}
	var err, err2 error
	attr.UidMappings, err = sameIDs("/proc/self/uid_map")
	attr.GidMappings, err2 = sameIDs("/proc/self/gid_map")
	attr.GidMappingsEnableSetgroups = true
	return errors.Join(err, err2)
}

// sameIDs maps every account that this process knows to itself.
func sameIDs(file string) ([]syscall.SysProcIDMap, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []syscall.SysProcIDMap
	for line := range strings.Lines(string(b)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		out = append(out, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return out, nil
}

// The launcher has to run before the rest of the program is initialised, which
// takes several times as long. Go initialises packages that need little first.
var _ = launch(os.Args)

// launch returns at once unless this process is the launcher.
func launch(args []string) struct{} { //nolint:unparam // the value makes the call part of the initialisation
	if len(args) < 2 || args[0] != launcherName {
		return struct{}{}
	}
	var j job
	if err := json.Unmarshal([]byte(args[1]), &j); err != nil {
		os.Exit(failedStatus)
	}
	unix.CloseOnExec(j.Status)
	if err := j.do(args[2:]); err != nil {
		failed := &Error{err.Error(), unix.EINVAL}
		errors.As(err, &failed)
		_, _ = unix.Write(j.Status, []byte(strconv.Itoa(int(failed.errno))+" "+failed.what)) // fails only if the server has left
		os.Exit(failedStatus)
	}
	os.Exit(0)
	return struct{}{}
}

// failedStatus is the exit status of a launcher that could not do its work.
const failedStatus = 125

// do confines this process and makes it the program.
func (j job) do(args []string) error {
	if j.Namespaces {
		if err := j.View.enter(); err != nil {
			return err
		}
	}
	if !j.Capabilities && (j.Namespaces || j.Landlock) && os.Geteuid() == 0 {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	if err := failure("give up capabilities", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)); err != nil {
		return err
	}
	for resource, limit := range j.Limits {
		var now unix.Rlimit
		err := unix.Getrlimit(resource, &now)
		if err == nil {
			limit = min(limit, now.Max)
			err = unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit})
		}
		if err != nil {
			return failure("limit its resources", err)
		}
	}
	if err := j.landlock(); err != nil {
		return err
	}
	if j.Look != nil {
		return j.reportSeen()
	}
	return j.explain(unix.Exec(j.Program, args, os.Environ()))
}

// explain says which program the kernel looked for in vain: that of a script may be
// outside of the view.
func (j job) explain(err error) error {
	if j.Namespaces || j.Landlock {
		if program := interpreter(j.Program); program != "" && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
			return failure("it is a script for "+program+", which does not exist for it or cannot be executed: use one below /usr, or "+
				"name the folder of the program in drivers.settings.<driver>.folders", err)
		}
	}
	return failure("execute it", err)
}

// interpreter is the program that the first line of a script names.
func interpreter(script string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	const longest = 256              // bytes that the kernel looks at
	b := make([]byte, longest)
	n, _ := io.ReadFull(f, b) // a script may be shorter
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	return words[0]
}

// reportSeen reports what this process sees at the paths.
func (j job) reportSeen() error {
	out := []Seen{}
	for _, path := range j.Look {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENXIO) && j.Namespaces { // a socket
			fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return failure("look at "+path, err)
		}
		out = append(out, Seen{Path: path, Device: st.Dev, Inode: st.Ino, Write: writable(path, st.Mode)})
		_ = unix.Close(fd) // it was only looked at
	}
	b, err := json.Marshal(out)
	if err == nil {
		_, err = unix.Write(j.Status, b)
	}
	return failure("report", err)
}

// writable opens a file for writing, and makes a file without a name in a folder.
func writable(path string, mode uint32) bool {
	how := unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if mode&unix.S_IFMT == unix.S_IFDIR {
		how = unix.O_TMPFILE | unix.O_WRONLY | unix.O_CLOEXEC
	}
	fd, err := unix.Open(path, how, 0o600)
	if err != nil {
		return errors.Is(err, unix.EOPNOTSUPP) && unix.Access(path, unix.W_OK) == nil
	}
	_ = unix.Close(fd) // nothing was written
	return true
}

func decodeSeen(said []byte) (out []Seen, err error) {
	if err := json.Unmarshal(said, &out); err != nil {
		return nil, fmt.Errorf("the launcher did not say what it sees: %w", err)
	}
	return out, nil
}

func identity(info os.FileInfo) (device, inode uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return st.Dev, st.Ino, true
}

// failure is an error of the kernel with what was tried; nil for nil.
func failure(what string, err error) error {
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		what, errno = what+": "+err.Error(), unix.EINVAL
	}
	return &Error{what, errno}
}
