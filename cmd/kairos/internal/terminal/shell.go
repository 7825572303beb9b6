package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// maxOutput is how many bytes of each output stream of a command are kept.
const maxOutput = 64 << 10

// Exit codes of commands that did not end by themselves, as shells have them.
const (
	exitTimeout    = 124
	exitNotStarted = 127
)

// commandResult is what a command did.
type commandResult struct {
	ExitCode int     `json:"exit_code"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	Seconds  float64 `json:"duration_seconds"`
}

// runCommand runs a command with sh in a directory. On timeout its whole
// process group is killed.
func runCommand(ctx context.Context, dir, line string, timeout time.Duration) (commandResult, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, "sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A process that has left the group must not hold us through an open pipe.
	cmd.WaitDelay = time.Second
	stdout, stderr := &bounded{}, &bounded{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	start := time.Now()
	err := cmd.Run()
	res := commandResult{Stdout: stdout.String(), Stderr: stderr.String(), Seconds: time.Since(start).Seconds()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return res, context.Cause(ctx)
	case limited.Err() != nil:
		res.ExitCode = exitTimeout
		res.Stderr += fmt.Sprintf("\nkilled: still running after %s", timeout)
	case errors.As(err, &exit):
		res.ExitCode = exitCode(exit)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		res.ExitCode = exitNotStarted
		res.Stderr += err.Error()
	}
	return res, nil
}

func exitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// bounded keeps the beginning of a stream.
type bounded struct {
	kept    bytes.Buffer
	dropped int
}

// Write keeps what fits and counts the rest.
func (b *bounded) Write(p []byte) (int, error) {
	room := min(maxOutput-b.kept.Len(), len(p))
	b.kept.Write(p[:room])
	b.dropped += len(p) - room
	return len(p), nil
}

// String is what was kept, with a note of what was not.
func (b *bounded) String() string {
	text := string(bytes.ToValidUTF8(b.kept.Bytes(), []byte("\uFFFD")))
	if b.dropped > 0 {
		text += fmt.Sprintf("\n[%d bytes dropped]", b.dropped)
	}
	return text
}
