// Package sandbox runs a command so that it changes nothing but a private copy of
// the workspace: in bubblewrap, or in what the operator wraps commands in. It has
// no container runtime of its own.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Sandbox is what a command sees and how much it may take. The zero value runs
// commands in bubblewrap without a network, within the default limits.
type Sandbox struct {
	// Wrapper is the operator's own program and its arguments, in which commands run
	// instead of bubblewrap. "{workspace}" in an argument is the folder with the copy.
	// The wrapper alone isolates the command.
	Wrapper []string
	// Network: the command has the machine's network; otherwise none.
	Network bool
	// Read lists folders besides the system's that the command may read.
	Read []string
	// Mask lists files and folders that the command does not see, wherever they are.
	Mask []string
	// Env is the environment, as NAME=value. PATH, HOME and TMPDIR are set unless named.
	Env []string
	// UID is the account under which a server that runs as root runs commands.
	UID int
	Limits
}

// Limits of one command. A limit of 0 is the default.
type Limits struct {
	// Time is how long it may run; 10 minutes.
	Time time.Duration
	// MemoryMiB bounds the memory of each process; 2048. Private folders in memory
	// have as much again, together.
	MemoryMiB int
	// Processes bounds how many there are at a time; 512.
	Processes int
	// FileMiB bounds the size of one file; 1024.
	FileMiB int
	// DiskMiB bounds what is written to the copy; 4096.
	DiskMiB int
	// OutputKiB is how much of stdout, and of stderr, is kept; 32. The digests are of
	// everything.
	OutputKiB int
}

func (l Limits) withDefaults() Limits {
	for to, otherwise := range map[*int]int{
		&l.MemoryMiB: 2048, &l.Processes: 512, &l.FileMiB: 1024, &l.DiskMiB: 4096, &l.OutputKiB: 32,
	} {
		if *to == 0 {
			*to = otherwise
		}
	}
	if l.Time == 0 {
		l.Time = 10 * time.Minute
	}
	return l
}

// Command is what is run.
type Command struct {
	Line string // for sh -c
	// Files is the folder with the private copy, Workspace the path at which the
	// command sees it.
	Files, Workspace string
}

// Result is what came of a command that was started.
type Result struct {
	// ExitCode is that of the shell: 128 and the signal's number where a signal ended
	// the command.
	ExitCode       int
	Stdout, Stderr Output
	Took           time.Duration
	// Ended is why the sandbox ended the command, empty if it did not.
	Ended string
}

// errTime and errDisk are causes for which a command is ended.
var errTime = errors.New("it ran longer than it may")

// StartError says that the command was not started, so that it did nothing.
type StartError struct{ err error }

func (e *StartError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.err }

// Run runs the command to its end. When ctx ends, or a limit is passed, everything
// that the command has started ends with it. An error that is a *StartError means
// that nothing was started; any other that nobody knows how far it came.
func (s Sandbox) Run(ctx context.Context, c Command) (Result, error) {
	s.Limits = s.withDefaults()
	argv, err := s.arguments(c)
	if err != nil {
		return Result{}, &StartError{err}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	ctx, stop := context.WithTimeoutCause(ctx, s.Time, errTime)
	defer stop()
	stdout, stderr := newStream(s.OutputKiB), newStream(s.OutputKiB)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", s.environment()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = 5 * time.Second // for what keeps the output open after the end
	s.confine(cmd)
	status, err := newStatus(cmd)
	if err != nil {
		return Result{}, &StartError{err}
	}
	defer status.close()
	began := time.Now()
	watched := watch(ctx, end, c.Files, int64(s.DiskMiB)<<20)
	err = inOwnThread(cmd)
	took := time.Since(began)
	<-watched()
	ran := status.ran()
	if cmd.Process == nil {
		return Result{}, &StartError{fmt.Errorf("start %s: %w", argv[0], err)}
	}
	res := Result{ExitCode: exitCode(cmd.ProcessState), Stdout: stdout.output(), Stderr: stderr.output(), Took: took}
	switch cause := context.Cause(ctx); {
	case cause != nil && (errors.Is(cause, errTime) || errors.Is(cause, errDisk)):
		res.Ended = cause.Error()
		if errors.Is(cause, errTime) {
			res.Ended = fmt.Sprintf("it ran longer than %s", s.Time)
		}
		return res, nil
	case cause != nil:
		return res, fmt.Errorf("the command was ended: %w", cause)
	}
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) && !errors.Is(err, exec.ErrWaitDelay) {
		return res, err
	}
	switch {
	case len(s.Wrapper) > 0 || ran:
		return res, nil
	case cmd.ProcessState.Exited():
		return Result{}, &StartError{refusal(res)}
	}
	return res, fmt.Errorf("bubblewrap was ended from outside (%s), and the command with it", cmd.ProcessState)
}

// Private makes an empty folder for a copy, which the account of the command can reach.
// Remove ends it.
func (s Sandbox) Private() (files string, remove func() error, err error) {
	for _, base := range []string{os.TempDir(), "/var/tmp", "/tmp"} {
		if !reachable(filepath.Join(base, "folder"), s.account()) {
			continue
		}
		dir, err := os.MkdirTemp(base, "kairos-command-")
		if err != nil {
			return "", nil, err
		}
		files := filepath.Join(dir, "workspace")
		// The account passes through, and nobody else knows the name.
		err = errors.Join(os.Chmod(dir, 0o711), os.Mkdir(files, 0o700)) //nolint:gosec // as above
		return files, func() error { return removeAll(dir) }, err
	}
	return "", nil, fmt.Errorf("no folder for temporary files can be reached by account %d; set TMPDIR to one that can", s.account())
}

// removeAll removes a folder, also where a command has made folders in it that nobody
// may change.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	in, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()                                             // it was only read
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // errors show below
		name, outside := filepath.Rel(dir, path)
		if err == nil && outside == nil && d.IsDir() {
			_ = in.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Hand gives a folder and all that is in it to the account of the command.
func (s Sandbox) Hand(folder string) error {
	uid := s.account()
	if uid == os.Geteuid() {
		return nil
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
}

// environment is what the operator lets through, and what every program needs.
func (s Sandbox) environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + privateHome, "TMPDIR=/tmp", "LANG=C.UTF-8"}
	if len(s.Wrapper) > 0 { // it is the operator's own program, which needs to find its own files
		env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8"}
	}
	return append(env, s.Env...) // of two with the same name the last one counts
}

// exitCode is as a shell tells it.
func exitCode(p *os.ProcessState) int {
	if p == nil {
		return -1
	}
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}
