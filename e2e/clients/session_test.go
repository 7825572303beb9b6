package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	find "github.com/kairos-mcp/kairos/e2e/programs"
)

// session is a program with a home folder of its own, connected to KAIROS.
type session struct {
	program program
	bin     string // the program's file
	kairos  string // the folder with KAIROS and the calendar
	home    string
	project string
	model   *model
	url     string // of the server; empty: the program starts one
}

// patience is how long a program may take for a run. It takes 6 to 20 seconds on two
// processors.
const patience = 4 * time.Minute

// newSession makes the folders and the configuration, for the server of the world or
// one that the program starts on its database.
func newSession(t *testing.T, p program, bin string, w world, m *model) *session {
	t.Helper()
	root := t.TempDir()
	s := &session{program: p, bin: bin, kairos: w.kairos, home: filepath.Join(root, "home"), project: filepath.Join(root, "project"), url: w.url}
	for _, dir := range []string{s.home, s.project, s.temporary()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.end)
	if err := s.configure(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	s.use(t, m)
	return s
}

// use sets the program up for a model.
func (s *session) use(t *testing.T, m *model) {
	t.Helper()
	s.model = m
	m.play.folder = s.project
	if s.program.setUp == nil {
		return
	}
	for _, args := range s.program.setUp(s, m.url()) {
		if out, err := s.command(t.Context(), args).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", s.program.bin, strings.Join(args, " "), err, out)
		}
	}
}

func (s *session) temporary() string { return filepath.Join(filepath.Dir(s.home), "tmp") }

// recording has what the program and its servers over stdio exchanged.
func (s *session) recording() string { return filepath.Join(filepath.Dir(s.home), "wire.jsonl") }

func (s *session) file() string {
	if s.program.inProject {
		return filepath.Join(s.project, s.program.file)
	}
	return filepath.Join(s.home, s.program.file)
}

// configure writes what the person wrote, has kairos connect add itself, and puts the
// recorder before it.
func (s *session) configure(ctx context.Context, w world) error {
	if err := os.MkdirAll(filepath.Dir(s.file()), 0o700); err != nil {
		return fmt.Errorf("make the folder of the configuration: %w", err)
	}
	calendar := s.program.local([]string{filepath.Join(s.kairos, "calendar-server"), "--state", filepath.Join(filepath.Dir(s.home), "calendar.json")})
	program := filepath.Join(s.kairos, "kairos")
	if err := s.writeOwn(calendar); err != nil {
		return err
	}
	args := []string{"--db", w.database, "connect", s.program.client, "--file", s.file(), "--write"}
	if w.url != "" {
		args = append(args, "--http", w.url)
	}
	connect := exec.CommandContext(ctx, program, args...)
	connect.Env, connect.Dir = s.environment(nil), s.project
	if out, err := connect.CombinedOutput(); err != nil {
		return fmt.Errorf("kairos %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return s.putRecorder(program)
}

func (s *session) writeOwn(calendar map[string]any) error {
	text := fmt.Sprintf("[%s.calendar]\ncommand = %q\nargs = %s\n", s.program.servers, calendar["command"], encoded(calendar["args"]))
	if !strings.HasSuffix(s.program.file, ".toml") {
		own := map[string]any{s.program.servers: map[string]any{"calendar": calendar}}
		for k, v := range s.program.own {
			own[k] = v
		}
		indented, err := json.MarshalIndent(own, "", "  ")
		if err != nil {
			return err
		}
		text = string(indented)
	}
	return os.WriteFile(s.file(), []byte(text), 0o600)
}

// putRecorder replaces KAIROS in the configuration by a script that records it.
func (s *session) putRecorder(program string) error {
	recorder, err := os.Executable()
	if err != nil {
		return err
	}
	script := filepath.Join(filepath.Dir(s.home), "kairos")
	line := fmt.Sprintf("#!/bin/sh\nexec '%s' %s '%s' '%s' \"$@\"\n", recorder, recordArgument, s.recording(), program)
	if err := os.WriteFile(script, []byte(line), 0o700); err != nil { //nolint:gosec // it is started
		return err
	}
	text, err := os.ReadFile(s.file())
	if err != nil {
		return err
	}
	recorded := strings.NewReplacer(program+`"`, script+`"`, program+`'`, script+`'`).Replace(string(text))
	if recorded == string(text) && s.url == "" {
		return fmt.Errorf("%s does not start %s:\n%s", s.file(), program, text)
	}
	if s.program.waits != "" {
		head := "[" + s.program.servers + ".kairos]\n"
		if !strings.Contains(recorded, head) {
			return fmt.Errorf("%s has no table %s:\n%s", s.file(), head, recorded)
		}
		recorded = strings.Replace(recorded, head, head+s.program.waits, 1)
	}
	return os.WriteFile(s.file(), []byte(recorded), 0o600)
}

// environment is that of a program: nothing of the machine but PATH. HOME is unique,
// so that what the program leaves behind is found by it.
func (s *session) environment(more []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "TMPDIR=" + s.temporary(), "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1", "CI=1", "SHELL=/bin/bash"}, more...)
}

func (s *session) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Env, cmd.Dir = s.environment(s.program.env(s.model.url())), s.project
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run starts the program with a request and waits until it has ended, with everything
// that it started. It returns what the program printed.
func (s *session) run(ctx context.Context, request string, options ...string) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := s.command(ctx, append(s.program.args(s, request), options...))
	var out find.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // something that it left behind holds its output
	}
	s.end()
	return fmt.Sprintf("%s\n%v", tail(out.String()), err)
}

// end ends what the program left behind, such as the daemon of Cline: each process
// whose home folder is that of the session.
func (s *session) end() {
	for again := true; again; {
		again = false
		for _, pid := range processesAt(s.home) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				again = true
			}
		}
		if again {
			time.Sleep(20 * time.Millisecond) // until the kernel has ended them
		}
	}
}

// processesAt are those with this home folder, without the ones that have ended.
func processesAt(home string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // it has ended
		}
		for _, v := range strings.Split(string(environment), "\x00") {
			if v == "HOME="+home {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func tail(s string) string { return s[max(0, len(s)-2000):] }
