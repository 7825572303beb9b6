package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Launch is how a process is started. The launcher is this program: it executes
// itself, gives up what the process must not have, and then executes the program in
// the same process. So process number, streams, group and parent death signal are
// those of the program.
type Launch struct {
	View View
	// Namespaces: the process has a root, a process namespace and a /proc of its own.
	Namespaces bool `json:",omitempty"`
	// Landlock: rules keep it from all files but those of the view.
	Landlock bool `json:",omitempty"`
	// NoNetwork: it has no network, by a network namespace.
	NoNetwork bool `json:",omitempty"`
	// NoTCP: rules of Landlock keep it from TCP.
	NoTCP bool `json:",omitempty"`
	// Capabilities: a root process keeps those of its namespace.
	Capabilities bool `json:",omitempty"`
	// Limits are its resource limits by number; a limit is never raised.
	Limits map[int]uint64 `json:",omitempty"`
}

// TempSeen is the path at which the process sees its folder for temporary files; empty:
// it has none.
func (l Launch) TempSeen() string {
	if l.Namespaces && l.View.Temp != "" {
		return tmp
	}
	return l.View.Temp
}

// job is the request to the launcher.
type job struct {
	Launch
	Program string   // empty: nothing is executed
	Look    []string // the paths that it looks at instead
	Status  int      // the descriptor for its report
}

// Error says what kept a program from being started.
type Error struct {
	what  string
	errno syscall.Errno
}

func (e *Error) Error() string { return e.what + ": " + e.errno.Error() }

// Unwrap returns the error of the kernel.
func (e *Error) Unwrap() error { return e.errno }

// Start starts a command, with the start of the caller's choice, and returns when its
// program has been executed.
func (l Launch) Start(cmd *exec.Cmd, start func() error) error {
	_, err := l.run(cmd, nil, start)
	if err != nil && cmd.Process != nil {
		_ = cmd.Wait() // it has ended: how does not matter
		cmd.Process = nil
	}
	return err
}

// Look starts a process that reports what it sees at the paths, and ends.
func (l Launch) Look(attr *syscall.SysProcAttr, paths []string, start func(*exec.Cmd) error) ([]Seen, error) {
	cmd := &exec.Cmd{Dir: "/", SysProcAttr: attr, Env: []string{}}
	if paths == nil {
		paths = []string{}
	}
	said, err := l.run(cmd, paths, func() error { return start(cmd) })
	if cmd.Process != nil {
		_ = cmd.Wait() // as above
	}
	if err != nil {
		return nil, err
	}
	return decodeSeen(said)
}

// run starts the launcher and returns what it reports.
func (l Launch) run(cmd *exec.Cmd, look []string, start func() error) (said []byte, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	defer func() { _ = read.Close() }() // it was only read
	cmd.ExtraFiles = append(cmd.ExtraFiles, write)
	const streams = 3
	err = l.apply(cmd, job{Launch: l, Program: cmd.Path, Look: look, Status: streams + len(cmd.ExtraFiles) - 1})
	if err == nil {
		err = start()
	}
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, err
	}
	if said, err = io.ReadAll(read); err != nil {
		return nil, fmt.Errorf("read the launcher's report: %w", err)
	}
	if number, what, failed := strings.Cut(string(said), " "); failed {
		errno, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("the launcher reported %.80q", said)
		}
		return nil, &Error{what, syscall.Errno(errno)} //nolint:gosec // the number of an error
	}
	return said, nil
}
