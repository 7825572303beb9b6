package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A person who presses Ctrl-C knows what they did: it is not reported as an error.
func TestAnInterruptIsNotAnError(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"kairos", "--db", filepath.Join(t.TempDir(), "k.db"), "run", "../../examples/shell.md"}
	cmd.Env = append(os.Environ(), "KAIROS_DRIVERS_DIR="+buildDrivers(t))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe() // stays open: the form waits
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked := false
	for in := bufio.NewReader(stdout); ; {
		b, err := in.ReadByte()
		if err != nil {
			break
		}
		if b == ':' && !asked { // the form's prompt, or the line before it
			asked = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != statusInterrupted {
		t.Errorf("after an interrupt the program ends with %v, want exit status %d", err, statusInterrupted)
	}
	if text := stderr.String(); strings.Contains(text, "Error") || !strings.Contains(text, "interrupted") {
		t.Errorf("after an interrupt stderr is %q, want \"interrupted\" and no error", text)
	}
}
