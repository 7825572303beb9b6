package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A command that waits for standard input can be interrupted. The person who
// pressed Ctrl-C knows what they did: it is not reported as an error.
func TestAnInterruptIsNotAnError(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Args = []string{"kairos", "--db", filepath.Join(t.TempDir(), "k.db"), "lint", "--no-drivers", "-"}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// More than a pipe holds: once it is written, the command is reading.
			if _, err := stdin.Write(bytes.Repeat([]byte("a line\n"), 1<<17)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != statusInterrupted {
				t.Errorf("after %v the program ends with %v, want exit status %d", signal, err, statusInterrupted)
			}
			if text := stderr.String(); strings.Contains(text, "Error") || !strings.Contains(text, "interrupted") {
				t.Errorf("after %v stderr is %q, want \"interrupted\" and no error", signal, text)
			}
		})
	}
}
