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
	"time"
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

// A command that reports how far it came is interrupted all the same: its exit
// status says so, whatever it prints.
func TestAnInterruptedCommandThatReportsSaysSoInItsStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "work") // the only folder of this test that the driver may change
	started := filepath.Join(work, "started")
	content := "#!/bin/sh\n" +
		`if [ "$1" = --describe ]; then echo '{"name":"slow","version":"1.0.0","transport":"exec","role":"challenge","handles":["slow"],"effect":"reads"}'; exit; fi` +
		"\n>" + started + "\nexec sleep 60\n"
	binary, samples := filepath.Join(dir, "kairos-driver-slow"), filepath.Join(dir, "samples.json")
	sample := `{"config":{"folder":"` + work + `"},"samples":[{"name":"a","method":"Validate","want":"valid","request":{"challenge":{"type":"slow","slow":{}}}}]}`
	if err := errors.Join(os.Mkdir(work, 0o700), os.WriteFile(binary, []byte(content), 0o755), os.WriteFile(samples, []byte(sample), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"kairos", "driver", "test", binary, "--sample", samples}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the driver was not called")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != statusInterrupted || !strings.Contains(said.String(), "ran only") {
		t.Errorf("it ends with %v, want exit status %d and how far it came:\n%s", err, statusInterrupted, said.String())
	}
}
