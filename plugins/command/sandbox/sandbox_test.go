package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// newSandbox is a sandbox with a workspace, and how to run a line in it.
func newSandbox(t *testing.T, change func(*Sandbox)) func(line string) (Result, error) {
	t.Helper()
	needsSandbox(t)
	s := Sandbox{Limits: Limits{Time: 20 * time.Second, MemoryMiB: 256, Processes: 64, FileMiB: 8, DiskMiB: 32}}
	if change != nil {
		change(&s)
	}
	dir := openDir(t)
	if err := s.Hand(dir); err != nil {
		t.Fatal(err)
	}
	return func(line string) (Result, error) {
		t.Helper()
		return s.Run(t.Context(), Command{Line: line, Files: dir, Workspace: "/srv/project"})
	}
}

func TestAResultIsThatOfTheCommand(t *testing.T) {
	t.Setenv("SECRET", "of the server")
	run := newSandbox(t, func(s *Sandbox) { s.Env = []string{"GIVEN=by the operator", "PATH=/usr/bin:/bin"} })
	for line, want := range map[string]struct {
		code           int
		stdout, stderr string
	}{
		"pwd; echo $GIVEN; echo $SECRET": {0, "/srv/project\nby the operator\n\n", ""},
		"echo out; echo err >&2; exit 7": {7, "out\n", "err\n"},
		"no-such-program":                {127, "", "sh: 1: no-such-program: not found\n"},
		"kill -9 $$":                     {137, "", ""},
		"cat":                            {0, "", ""}, // its input is empty
		"echo 'bwrap: not permitted' >&2; exit 1": {1, "", "bwrap: not permitted\n"},
	} {
		res, err := run(line)
		if err != nil || res.ExitCode != want.code || res.Stdout.Text != want.stdout || res.Stderr.Text != want.stderr || res.Ended != "" {
			t.Errorf("%q: %+v, %v, want %+v", line, res, err, want)
		}
	}
}

func TestOutputIsBoundedAndItsDigestIsOfEverything(t *testing.T) {
	run := newSandbox(t, func(s *Sandbox) { s.OutputKiB = 4 })
	res, err := run("yes 0123456789abcde | head -c 20000000; echo the end")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Repeat("0123456789abcde\n", 20000000/16) + "the end\n"
	sum := sha256.Sum256([]byte(all))
	out := res.Stdout
	if out.Bytes != int64(len(all)) || out.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes, %s", out.Bytes, out.Digest)
	}
	if len(out.Text) > 5<<10 || !strings.HasPrefix(out.Text, "0123") || !strings.HasSuffix(out.Text, "the end\n") || len(out.Notes) != 1 {
		t.Errorf("text of %d bytes with %q", len(out.Text), out.Notes)
	}
	if res, err = run(`printf 'a\377b'`); err != nil || res.Stdout.Text != "a\uFFFDb" || len(res.Stdout.Notes) != 1 {
		t.Errorf("bytes outside UTF-8: %+v, %v", res.Stdout, err)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte("text"), []byte("\xff\xfe"), 1)
	f.Fuzz(func(t *testing.T, a, b []byte, kib int) {
		s := newStream(max(1, kib%3))
		_, _ = s.Write(a)
		_, _ = s.Write(b)
		out := s.output()
		if all := slices.Concat(a, b); !utf8.ValidString(out.Text) || out.Bytes != int64(len(all)) || len(out.Notes) == 0 && out.Text != string(all) {
			t.Errorf("%q and %q: %+v", a, b, out)
		}
	})
}

func TestWhatTakesTooMuchIsEnded(t *testing.T) {
	run := newSandbox(t, func(s *Sandbox) { s.Time = 5 * time.Second })
	lasting := fmt.Sprintf("5000.%d", os.Getpid())
	for name, tc := range map[string]struct {
		line  string
		ended string // empty: the command itself fails
	}{
		"time":                   {"sleep " + lasting, "longer than 5s"},
		"processes":              {"bomb() { bomb | bomb & bomb; }; bomb", ""},
		"memory":                 {`python3 -c 'x = bytearray(600 << 20)'`, ""},
		"a large file":           {"head -c 20000000 /dev/zero > large", ""},
		"many files":             {"i=0; while true; do head -c 2000000 /dev/zero > f$i || exit 1; i=$((i+1)); done", "wrote more"},
		"deleted files":          {"for i in 1 2 3 4 5 6 7 8; do (exec 3>f$i; rm f$i; head -c 8000000 /dev/zero >&3; sleep 600) & done; wait", "wrote more"},
		"files in memory":        {"i=0; while head -c 7000000 /dev/zero > /tmp/f$i; do i=$((i+1)); done 2>/dev/null; exit 1", ""},
		"files in shared memory": {"i=0; while head -c 7000000 /dev/zero > /dev/shm/f$i; do i=$((i+1)); done 2>/dev/null; exit 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := run(tc.line)
			if err != nil {
				t.Fatalf("%+v, %v", res, err)
			}
			if res.ExitCode == 0 || !strings.Contains(res.Ended, tc.ended) {
				t.Errorf("exit code %d, ended %q, %s", res.ExitCode, res.Ended, res.Stderr.Text)
			}
			if pids := running(lasting); pids != nil {
				t.Errorf("it runs on: %v", pids)
			}
		})
	}
}

func TestACancelledCommandLeavesNothing(t *testing.T) {
	needsSandbox(t)
	dir := openDir(t)
	s := Sandbox{}
	if err := s.Hand(dir); err != nil {
		t.Fatal(err)
	}
	lasting := fmt.Sprintf("6000.%d", os.Getpid())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for {
			if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	_, err := s.Run(ctx, Command{Line: "setsid sleep " + lasting + " & touch started; sleep " + lasting, Files: dir, Workspace: "/srv/project"})
	if start := (*StartError)(nil); !errors.Is(err, context.Canceled) || errors.As(err, &start) {
		t.Errorf("Run = %v, want that it was cancelled after its start", err)
	}
	if pids := running(lasting); pids != nil {
		t.Errorf("it runs on: %v", pids)
	}
}

func TestWhatCannotStartDidNothing(t *testing.T) {
	needsSandbox(t)
	for name, tc := range map[string]struct {
		s    Sandbox
		c    Command
		want string
	}{
		"no copy":    {Sandbox{}, Command{Line: "true", Files: "/no/such/folder", Workspace: "/srv/project"}, "/no/such/folder"},
		"no wrapper": {Sandbox{Wrapper: []string{"/no/such/wrapper"}}, Command{Line: "true", Files: openDir(t), Workspace: "/srv/project"}, "/no/such/wrapper"},
	} {
		_, err := tc.s.Run(t.Context(), tc.c)
		if start := (*StartError)(nil); !errors.As(err, &start) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWrapperTakesThePlaceOfBubblewrap(t *testing.T) {
	dir := openDir(t)
	s := Sandbox{Wrapper: []string{"env", "COPY={workspace}"}, Env: []string{"GIVEN=x"}}
	res, err := s.Run(t.Context(), Command{Line: "echo $COPY $GIVEN; exit 3", Files: dir, Workspace: "/srv/project"})
	if err != nil || res.ExitCode != 3 || res.Stdout.Text != dir+" x\n" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestABubblewrapThatOthersCanReplaceIsRefused(t *testing.T) {
	dir := openDir(t)
	path := filepath.Join(dir, "bwrap")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if err := trusted(path, "/elsewhere"); err == nil || !strings.Contains(err.Error(), "others can write") {
		t.Errorf("trusted = %v: the folder /tmp is everybody's", err)
	}
	if err := trusted(path, dir); err == nil || !strings.Contains(err.Error(), "in the workspace") {
		t.Errorf("trusted = %v", err)
	}
}
