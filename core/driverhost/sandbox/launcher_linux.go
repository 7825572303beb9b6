package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A user namespace can only be made together with a new process, and mounts in
// it only by that process. So where this program may not make a mount namespace
// otherwise, it executes itself first: the launcher mounts the covers and then
// executes the program, which keeps process number, streams, limits and signals.

// launcherName is the name by which this program is the launcher.
const launcherName = "kairos-driver-launcher"

// failedStatus is the exit status of a launcher that could not do its work.
const failedStatus = 125

// self is this program, as a child of it sees it right after it is born.
const self = "/proc/self/exe"

// Launcher makes a command start through the launcher, in namespaces of its own.
func Launcher(cmd *exec.Cmd, covers []Cover, keepCapabilities bool) {
	cmd.Args = append(launcherArgs(cmd.Path, covers, keepCapabilities), cmd.Args...)
	cmd.Path = self
	InUserNamespace(cmd.SysProcAttr, unix.CLONE_NEWNS)
	if os.Geteuid() != 0 { // whose programs are executed without the capabilities of the namespace
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
}

// launcherArgs are what the launcher gets before the arguments of the program.
func launcherArgs(program string, covers []Cover, keepCapabilities bool) []string {
	args := []string{launcherName, program, strconv.FormatBool(keepCapabilities), strconv.Itoa(len(covers))}
	for _, c := range covers {
		switch {
		case c.ReadOnly:
			args = append(args, "r"+c.Path)
		case c.Except != "":
			args = append(args, "e"+c.Except)
		default: // in a namespace of its own everything is covered for the first time
			args = append(args, "h"+c.Path)
		}
	}
	return args
}

// The launcher has to run before the rest of the program is initialised, which
// takes several times as long. Go initialises packages that need little first.
var _ = launch(os.Args)

// launch returns at once unless this process is the launcher.
func launch(args []string) struct{} { //nolint:unparam // the value makes the call part of the initialisation
	if len(args) < 4 || args[0] != launcherName {
		return struct{}{}
	}
	n, err := strconv.Atoi(args[3])
	if err != nil || n < 0 || len(args) < 4+n {
		fail("its arguments are not those of a launcher")
	}
	covers := make([]Cover, n)
	for i, a := range args[4 : 4+n] {
		covers[i] = Cover{Path: a[1:], ReadOnly: a[0] == 'r'}
		if a[0] == 'e' {
			covers[i] = Cover{Path: filepath.Dir(a[1:]), Private: true, Except: a[1:]}
		}
	}
	if err := private(); err != nil {
		fail(err.Error())
	}
	if err := Hide(covers); err != nil {
		fail(err.Error())
	}
	if args[2] != "true" && os.Geteuid() == 0 {
		if err := DropCapabilities(); err != nil {
			fail(err.Error())
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		fail("give up capabilities: " + err.Error())
	}
	if len(args) == 4+n { // only whether it works was asked
		os.Exit(0)
	}
	if err := unix.Exec(args[1], args[4+n:], os.Environ()); err != nil {
		fail("execute it: " + err.Error())
	}
	return struct{}{}
}

func fail(why string) {
	_, _ = os.Stderr.WriteString("cannot isolate the driver: " + why + "\n")
	os.Exit(failedStatus)
}

// ProbeLauncher is a command that reports by its exit status whether the
// launcher can cover the paths.
func ProbeLauncher(covers []Cover, attr *syscall.SysProcAttr) *exec.Cmd {
	cmd := &exec.Cmd{Path: self, Dir: "/", SysProcAttr: attr, Env: []string{}}
	Launcher(cmd, covers, false)
	return cmd
}
