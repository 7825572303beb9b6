package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A person who starts a server is told what it serves and how a client finds it,
// and stops it with Ctrl-C. A client that starts it reads nothing of that.
func TestAServerAtATerminalSaysWhatItServes(t *testing.T) {
	long(t)
	t.Parallel()
	drivers := buildDrivers(t)
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"over HTTP":  {[]string{"serve", "--http", "127.0.0.1:0"}, []string{"drivers   ", " of " + drivers, "`kairos connect CLIENT --http`", "MCP at http://127.0.0.1:"}},
		"over stdio": {[]string{"serve"}, []string{"waiting for an MCP client on standard input", "`kairos connect CLIENT`"}},
	} {
		t.Run(name, func(t *testing.T) {
			screen, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer screen.Close()
			dir := t.TempDir()
			// What is never shown is not waited for for ever.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Args = append([]string{"kairos"}, tc.args...)
			cmd.Env = append(os.Environ(), "KAIROS_DB="+filepath.Join(dir, "k.db"), "KAIROS_DRIVERS_DIR="+drivers, "KAIROS_CONFIG="+quietConfig(t, dir))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := tty.Close(); err != nil {
				t.Fatal(err)
			}
			var shown bytes.Buffer
			b := make([]byte, 4096)
			for _, text := range tc.says {
				for !strings.Contains(shown.String(), text) {
					n, err := screen.Read(b)
					shown.Write(b[:n])
					if err != nil {
						t.Fatalf("%v before %q is shown:\n%s", err, text, &shown)
					}
				}
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(&shown, screen) // until the program has closed the terminal
			if err := cmd.Wait(); err != nil || strings.Contains(shown.String(), "rror") {
				t.Errorf("after Ctrl-C: %v\n%s", err, &shown)
			}
		})
	}
}

func quietConfig(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "kairos.yaml")
	if err := os.WriteFile(path, []byte("metrics: {listen: off}\nadmin: {socket: off}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
