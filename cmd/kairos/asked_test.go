package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A run that is interrupted at its first question is open all the same: the person
// is told its id, and how it continues.
func TestARunThatIsInterruptedAtItsFirstQuestionIsNamed(t *testing.T) {
	long(t)
	drivers, dir := buildDrivers(t), t.TempDir()
	const document = "# Greet\n\n```json\n{\"inputs\":{\"type\":\"object\",\"required\":[\"who\"],\"properties\":{\"who\":{\"type\":\"string\"}}}}\n```\n\n" +
		"## Greet\n\nGreet them.\n\n```json\n{\"challenge\":{\"type\":\"comment\"}}\n```\n"
	path := filepath.Join(dir, "greet.md")
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The program under its name, which is what starts the server, too.
	cmd := exec.CommandContext(ctx, "kairos", "run", path)
	cmd.Env = append(os.Environ(), "TERM=xterm", "ACCESSIBLE=", "KAIROS_DB="+filepath.Join(dir, "k.db"), "KAIROS_DRIVERS_DIR="+drivers, "KAIROS_CONFIG="+quietConfig(t, dir))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if err := errors.Join(cmd.Start(), tty.Close()); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	b := make([]byte, 4096)
	for !strings.Contains(shown.String(), "submit") {
		n, err := screen.Read(b)
		shown.Write(b[:n])
		if err != nil {
			t.Fatalf("%v before the form is shown:\n%q", err, &shown)
		}
	}
	if _, err := io.WriteString(screen, "\x03"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(&shown, screen) // until the program has closed the terminal
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != statusInterrupted {
		t.Errorf("it ends with %v", err)
	}
	for _, text := range []string{"is open:", "kairos runs resume ", "interrupted"} {
		if !strings.Contains(shown.String(), text) {
			t.Errorf("not shown: %q in\n%s", text, &shown)
		}
	}
}
