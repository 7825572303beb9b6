package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// privateHome is the home of a command: empty, in memory, and gone with it.
const privateHome = "/tmp"

// system lists what a command reads of the machine. Other folders, such as those
// of people, are not there at all: a list of secrets is never complete.
var system = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix", "/gnu"}

// arguments is the whole command line.
func (s Sandbox) arguments(c Command) ([]string, error) {
	if len(s.Wrapper) > 0 {
		var argv []string
		for _, a := range s.Wrapper {
			argv = append(argv, strings.ReplaceAll(a, "{workspace}", c.Files))
		}
		return append(argv, "sh", "-c", c.Line), nil
	}
	bwrap, err := bubblewrap(c.Workspace)
	if err != nil {
		return nil, err
	}
	argv := []string{
		bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--hostname", "sandbox", "--json-status-fd", "3", // the one of cmd.ExtraFiles
	}
	if s.Network {
		argv = append(argv, "--share-net")
	}
	if can()("--disable-userns") {
		argv = append(argv, "--disable-userns")
	}
	seen := view{}
	for _, path := range system {
		if argv, err = seen.bind(argv, path); err != nil {
			return nil, err
		}
	}
	if s.Network { // often a link to a file of the machine that is not there
		if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
			argv = append(argv, "--ro-bind-try", real, real)
		}
	}
	for _, path := range s.Read {
		if argv, err = seen.bind(argv, path); err != nil {
			return nil, err
		}
	}
	argv = append(argv, "--proc", "/proc", "--dev", "/dev")
	argv = s.memory(argv, "/dev/shm")
	argv = s.memory(argv, "/tmp")
	argv = append(argv, "--bind", c.Files, c.Workspace)
	if _, err := os.Lstat(filepath.Join(c.Files, ".git")); err == nil {
		argv = append(argv, "--ro-bind", filepath.Join(c.Files, ".git"), filepath.Join(c.Workspace, ".git"))
	}
	argv = s.masks(argv, seen, c)
	argv = append(argv, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", c.Workspace, "--")
	return append(argv, s.limited("sh", "-c", c.Line)...), nil
}

// view lists what of the machine is bound.
type view []string

// bind makes a path readable at its own place; a link stays one.
func (v *view) bind(argv []string, path string) ([]string, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return argv, nil
	case err != nil:
		return argv, err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return append(argv, "--symlink", target, path), err
	}
	*v = append(*v, path)
	return append(argv, "--ro-bind", path, path), nil
}

// memory is a folder in memory, as large as one process may be.
func (s Sandbox) memory(argv []string, path string) []string {
	if can()("--size") {
		argv = append(argv, "--size", strconv.Itoa(s.MemoryMiB<<20))
	}
	return append(argv, "--tmpfs", path)
}

// masks hides what must not be seen, where it would be.
func (s Sandbox) masks(argv []string, seen view, c Command) []string {
	for _, path := range s.Mask {
		path = filepath.Clean(path)
		at := path // on this machine
		if within(path, c.Workspace) {
			at = filepath.Join(c.Files, strings.TrimPrefix(path, c.Workspace))
		} else if !seen.shows(path) {
			continue
		}
		info, err := os.Stat(at)
		if err != nil || !reachable(at, s.account()) {
			continue // nothing is there, or nothing that the command could reach
		}
		if info.IsDir() {
			argv = append(argv, "--tmpfs", path, "--remount-ro", path)
		} else {
			argv = append(argv, "--ro-bind", "/dev/null", path)
		}
	}
	return argv
}

func (v view) shows(path string) bool {
	for _, bound := range v {
		if within(path, bound) {
			return true
		}
	}
	return false
}

// prlimit is the program that sets limits, of util-linux.
const prlimit = "/usr/bin/prlimit"

// limited runs a command within the limits of each process. It is the first that
// the kernel ends where memory runs out.
func (s Sandbox) limited(command ...string) []string {
	if _, err := os.Stat(prlimit); err != nil {
		return command
	}
	mib := func(n, resource int) string { return strconv.FormatUint(atMost(uint64(n)<<20, resource), 10) } //nolint:gosec // settings are positive
	argv := []string{
		"/bin/sh", "-c", `echo 1000 >/proc/self/oom_score_adj; exec "$@"`, "sh",
		prlimit, "--data=" + mib(s.MemoryMiB, syscall.RLIMIT_DATA), "--nproc=" + strconv.Itoa(s.Processes), "--fsize=" + mib(s.FileMiB, syscall.RLIMIT_FSIZE), "--core=0", "--",
	}
	return append(argv, command...)
}

// atMost is a limit that does not exceed this process's own, which nobody may raise.
func atMost(n uint64, resource int) uint64 {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return n
	}
	return min(n, now.Max)
}

// Unenforced says which limits this machine cannot enforce, "" if it can enforce all.
func Unenforced() (missing []string) {
	if _, err := os.Stat(prlimit); err != nil {
		missing = append(missing, "memory, processes and file size (the program prlimit is missing: install the package util-linux)")
	}
	if !can()("--size") {
		missing = append(missing, "private folders in memory (bubblewrap is older than 0.8)")
	}
	return missing
}
