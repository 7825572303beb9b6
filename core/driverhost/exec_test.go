package driverhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/e2e/programs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// probePath is the test driver under the name by which it is a process of one call.
func probePath() string { return filepath.Join(binaries, "probe") }

// newExec opens a driver on the exec transport; an empty path is the probe's.
func newExec(t testing.TB, path string, s driverhost.ExecSetup, log io.Writer) *driverhost.Exec {
	t.Helper()
	if path == "" {
		path = probePath()
	}
	e, err := driverhost.NewExec(path, s, slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		t.Fatalf("NewExec: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func order(do string, more ...string) string {
	o := map[string]string{"do": do}
	for i := 0; i+1 < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// openFiles counts the files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(files)
}

func TestExecCallIsAnsweredByAProcessOfItsOwn(t *testing.T) {
	e := newExec(t, "", driverhost.ExecSetup{}, io.Discard)
	text := strings.Repeat("a long text ", 200_000)
	got, err := e.Run(t.Context(), "Advance", order("echo", "text", text))
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal([]byte(got), &back); err != nil || back != text {
		t.Errorf("%d bytes came back, want %d: %v", len(back), len(text), err)
	}
}

func TestExecFailuresSayWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		request, want string
		died          bool
	}{
		"its own failure":    {order("fail", "text", "no \x1b[31mpaper"), "exit status 1; it said: I cannot: no ⟨U+001B⟩[31mpaper", false},
		"no reply":           {order("nothing"), "without a reply", false},
		"garbage":            {order("garbage"), "not one JSON document", false},
		"an unreadable call": {"{", "unexpected EOF", false},
		"a signal":           {order("die"), "signal: killed", true},
		"an endless reply":   {order("huge"), "printed more than 16777216 bytes", false},
		"too big a file":     {order("write", "file", filepath.Join(t.TempDir(), "big")), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExec(t, "", driverhost.ExecSetup{}, io.Discard)
			got, err := e.Run(t.Context(), "Advance", tc.request)
			if err == nil {
				t.Fatalf("Run = %.80s, want an error", got)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v, want %q", err, tc.want)
			}
			if tc.want != "" && (status.Code(err) == codes.Unavailable) != tc.died {
				t.Errorf("code of %v is %v, died is %t", err, status.Code(err), tc.died)
			}
			if strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("%q has a control character", err)
			}
		})
	}
}

func TestExecLeavesNothingBehind(t *testing.T) {
	for name, do := range map[string]string{
		"a grandchild that holds the streams":                       "grandchild",
		"one that has left the group":                               "escape",
		"one that has left the group and hides where it comes from": "escape unmarked",
	} {
		t.Run(name, func(t *testing.T) {
			e := newExec(t, "", driverhost.ExecSetup{}, io.Discard)
			before := openFiles(t)
			got, err := e.Run(t.Context(), "Advance", order(do))
			check(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(got))
			check(t, err)
			if after := openFiles(t); after > before {
				t.Errorf("%d files are open, before it were %d", after, before)
			}
			eventually(t, "the process is gone", func() bool { return gone(pid) })
		})
	}
	t.Run("one that has left the group lives as long as its driver", func(t *testing.T) {
		e := newExec(t, "", driverhost.ExecSetup{}, io.Discard)
		dir := t.TempDir()
		waiting := make(chan error, 1)
		go func() {
			_, err := e.Run(t.Context(), "Advance", order("escape and wait", "file", filepath.Join(dir, "pid")))
			waiting <- err
		}()
		pid := pidIn(t, filepath.Join(dir, "pid"))
		_, err := e.Run(t.Context(), "Advance", order("echo")) // another process of the driver comes and ends
		check(t, err)
		if gone(pid) {
			t.Errorf("process %d ended before its driver", pid)
		}
		check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
		check(t, <-waiting)
		if !gone(pid) {
			t.Errorf("process %d still lives", pid)
		}
	})
	hangs := func(t *testing.T, e *driverhost.Exec, end func(cancel func())) error {
		t.Helper()
		file := filepath.Join(t.TempDir(), "pid")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := e.Run(ctx, "Advance", order("hang", "file", file))
			done <- err
		}()
		pid := pidIn(t, file)
		end(cancel)
		err := <-done
		if !gone(pid) {
			t.Errorf("process %d still lives", pid)
		}
		return err
	}
	t.Run("a call that is given up", func(t *testing.T) {
		e := newExec(t, "", driverhost.ExecSetup{}, io.Discard)
		if err := hangs(t, e, func(cancel func()) { cancel() }); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want %v", err, context.Canceled)
		}
	})
	t.Run("a driver that does not read", func(t *testing.T) {
		e := newExec(t, "", driverhost.ExecSetup{Env: []string{"KAIROS_TEST_DO=unread"}}, io.Discard)
		before := openFiles(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := e.Run(ctx, "Advance", order("unread", "text", strings.Repeat("x", 1<<20)))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run = %v, want %v", err, context.DeadlineExceeded)
		}
		if after := openFiles(t); after > before {
			t.Errorf("%d files are open, before it were %d", after, before)
		}
	})
	t.Run("a transport that is closed", func(t *testing.T) {
		e := newExec(t, "", driverhost.ExecSetup{}, io.Discard)
		if err := hangs(t, e, func(func()) { e.CloseCalls() }); err == nil {
			t.Error("the call has no error")
		}
		if _, err := e.Run(t.Context(), "Advance", order("echo")); err == nil {
			t.Error("a closed transport takes a call")
		}
	})
}

// pidIn waits for a process that notes its number.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	eventually(t, "the process notes its number", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	b, err := os.ReadFile(file)
	check(t, err)
	pid, err := strconv.Atoi(string(b))
	check(t, err)
	return pid
}

func TestExecRunsABoundedNumberOfProcesses(t *testing.T) {
	const calls, atOnce = 40, 16
	e := newExec(t, "", driverhost.ExecSetup{}, io.Discard)
	dir := t.TempDir()
	var group errgroup.Group
	for i := range calls {
		group.Go(func() error {
			got, err := e.Run(t.Context(), "Advance", order("wait", "file", filepath.Join(dir, fmt.Sprint("at-", i))))
			if err == nil && strings.TrimSpace(got) != `"went"` {
				err = fmt.Errorf("Run = %s", got)
			}
			return err
		})
	}
	present := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "at-*[0-9]"))
		check(t, err)
		return len(files)
	}
	eventually(t, "16 processes run", func() bool { return present() >= atOnce })
	if n := present(); n != atOnce {
		t.Errorf("%d processes run at once, want %d", n, atOnce)
	}
	// One more has to wait, and can be given up.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Run(ctx, "Advance", order("echo")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run = %v, want %v", err, context.DeadlineExceeded)
	}
	check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	check(t, group.Wait())
	if n := present(); n != calls {
		t.Errorf("%d of %d calls ran", n, calls)
	}
}

func TestScriptWithoutAnInterpreterSaysSo(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"not there":  {"#!/no/such/program\n", "#! line there"},
		"no #! line": {"echo hello\n", "a script needs a #! line"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kairos-driver-script")
			check(t, os.WriteFile(path, []byte(tc.script), 0o755))
			e := newExec(t, path, driverhost.ExecSetup{}, io.Discard)
			_, err := e.Run(t.Context(), "Advance", "{}")
			if err == nil || !strings.Contains(err.Error(), tc.want) || status.Code(err) != codes.Unavailable {
				t.Errorf("Run = %v, want %q", err, tc.want)
			}
		})
	}
}

const execDriver = `#!/bin/sh
if [ "$1" = --describe ]; then
  echo '{"name": "script", "version": "1.0.0", "role": "challenge", "handles": ["script"], "effect": "pure",'
  echo '"transport": "exec", "config_schema": {"type": "object", "properties": {"key": {"type": "string", "writeOnly": true}}}}'
  exit 0
fi
request=$(cat)
echo "$2 with $KAIROS_DRIVER_CONFIG and $TRACEPARENT" >&2
case $2 in
  Configure) case $request in
    *refused*) echo '{"diagnostics": [{"severity": "error", "pointer": "/key", "message": "I do not like it"}]}';;
    *) echo '{"diagnostics": []}';; esac;;
  CheckHealth) echo '{"healthy": true}';;
  Validate) echo '{}';;
  Advance) case $request in
    *fail*) echo "I refuse $KAIROS_DRIVER_CONFIG" >&2; exit 1;;
    *die*) kill -9 $$;;
    *) echo '{"accepted": {"proof": {"by": "a script"}}}';; esac;;
esac
`

// scriptHost is a host with one driver that is a script.
func scriptHost(t *testing.T, cfg driverhost.Config, log io.Writer) (*driverhost.Host, driver.Challenge, error) {
	t.Helper()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "kairos-driver-script"), []byte(execDriver), 0o755))
	lock, err := driverhost.DescribeAll(t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
	if err != nil {
		t.Fatalf("DescribeAll: %v", err)
	}
	cfg.Dir, cfg.Lock = dir, lock
	h := driverhost.New(slog.New(slog.NewJSONHandler(log, nil)), driverhost.Options{Confinement: driverhost.Confinement{Level: driverhost.LevelNone}})
	t.Cleanup(func() { check(t, h.Close()) })
	set, err := h.Prepare(t.Context(), nil, cfg)
	if err != nil {
		return h, nil, err
	}
	c, ok := set.Challenge("script")
	if !ok {
		t.Fatal("there is no challenge driver script")
	}
	return h, c, nil
}

func TestAScriptServesInAHost(t *testing.T) {
	log := &programs.Output{}
	h, c, err := scriptHost(t, driverhost.Config{
		Drivers: map[string]driverhost.DriverConfig{"script": {Config: json.RawMessage(`{"key":"very private"}`)}},
	}, log)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	res, err := c.Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(`{"x":1}`)})
	if err != nil || res.Accepted == nil || string(res.Accepted.Proof) != `{"by":"a script"}` && string(res.Accepted.Proof) != `{"by": "a script"}` {
		t.Errorf("Advance = %+v, %v", res, err)
	}
	_, err = c.Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"fail"}`)})
	if err == nil || !strings.Contains(err.Error(), `I refuse {"key":"***"}`) {
		t.Errorf("Advance = %v", err)
	}
	status, ok := h.StatusOf("script")
	if !ok || status.Transport != "exec" || status.PID != 0 || string(status.Config) != `{"key":"***"}` || len(status.Protection) == 0 {
		t.Errorf("StatusOf = %+v", status)
	}
	lines, _ := h.Logs("script", 0)
	said := fmt.Sprint(lines, status, log)
	if !strings.Contains(said, "Advance with") || strings.Contains(said, "very private") {
		t.Errorf("log and status are %s", said)
	}
	_, err = c.Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"die"}`)})
	if err == nil || !strings.Contains(err.Error(), "died during the call") {
		t.Errorf("Advance = %v", err)
	}
}

func TestAScriptMayRefuseItsConfiguration(t *testing.T) {
	_, _, err := scriptHost(t, driverhost.Config{
		Drivers: map[string]driverhost.DriverConfig{"script": {Config: json.RawMessage(`{"key":"refused"}`)}},
	}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "I do not like it") || strings.Contains(err.Error(), "refused\"") {
		t.Errorf("Prepare = %v", err)
	}
}

func TestDriversThatOthersCanWriteDoNotStart(t *testing.T) {
	dir, binary := soundDrivers(t)
	check(t, os.WriteFile(binary, []byte(execDriver), 0o755))
	check(t, os.Rename(binary, filepath.Join(dir, "kairos-driver-script")))
	lock, err := driverhost.DescribeAll(t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
	check(t, err)
	h := driverhost.New(slog.New(slog.DiscardHandler), driverhost.Options{Confinement: driverhost.Confinement{Level: driverhost.LevelNone}})
	t.Cleanup(func() { check(t, h.Close()) })
	set, err := h.Load(driverhost.Config{Dir: dir, Lock: lock})
	check(t, err)
	check(t, os.Chmod(dir, 0o775))
	if _, err := h.Load(driverhost.Config{Dir: dir, Lock: lock}); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("Load = %v", err)
	}
	if _, err := h.Load(driverhost.Config{Dir: dir, Lock: lock, Dev: true}); err != nil {
		t.Errorf("Load in dev mode = %v", err)
	}
	c, _ := set.Challenge("script")
	if _, err := c.Advance(t.Context(), driver.AdvanceRequest{}); err != nil {
		t.Errorf("a binary that was open before = %v", err)
	}
}

func TestWhatWasWrittenInTimeIsReadLate(t *testing.T) {
	read, write, err := os.Pipe()
	check(t, err)
	defer func() { check(t, errors.Join(read.Close(), write.Close())) }() // somebody holds the pipe all the time
	want := strings.Repeat("reply ", 5000)
	_, err = write.WriteString(want)
	check(t, err)
	check(t, read.SetReadDeadline(time.Now().Add(-time.Second)))
	got, err := driverhost.ReadLeftovers(read)
	if string(got) != want || err != nil {
		t.Errorf("ReadLeftovers = %d bytes, %v, want %d", len(got), err, len(want))
	}
}
