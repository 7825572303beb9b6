package driverhost_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/e2e/programs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// binaries is the folder of the test drivers, built once.
var binaries string

// hostMode makes this test binary run as a host, for tests that kill it.
const hostMode = "KAIROS_TEST_HOST"

// userMode makes this test binary run a driver for a user without privileges.
const userMode = "KAIROS_TEST_USER_PROBE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(hostMode); dir != "" {
		if err := beHost(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if probe := os.Getenv(userMode); probe != "" {
		if err := beUser(probe); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	syscall.Umask(0o022) // else what is built here can be written by its group, and is refused
	var err error
	if binaries, err = buildDrivers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(binaries); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

func buildDrivers() (string, error) {
	dir, err := os.MkdirTemp("", "driverhost-test-")
	if err != nil {
		return "", err
	}
	first := filepath.Join(dir, "kairos-driver-alpha")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", first, "./testdata/driver")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the test driver: %w\n%s", err, out)
	}
	for _, name := range []string{"kairos-driver-beta", "kairos-driver-gamma", "kairos-driver-changer", "kairos-driver-capable", "kairos-driver-otherwise", "kairos-driver-pure", "probe"} {
		if err := os.Link(first, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// beHost starts one driver, says its process number and where the sockets are,
// and waits for a line on stdin, which it says as well.
func beHost(dir string) (err error) {
	lock, err := driverhost.DescribeAll(context.Background(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
	if err != nil {
		return err
	}
	h := driverhost.New(slog.New(slog.DiscardHandler), driverhost.Options{Confinement: driverhost.Confinement{Level: driverhost.LevelNone}})
	defer func() { err = errors.Join(err, h.Close()) }()
	set, err := h.Load(driverhost.Config{Dir: dir, Lock: lock})
	if err != nil {
		return err
	}
	c, _ := set.Challenge("alpha")
	res, err := c.Advance(context.Background(), driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"pid"}`)})
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", res.Accepted.Proof)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf("stdin: %s", line)
	return err
}

// describedOnce is the lock of the test drivers, which never change.
var describedOnce = sync.OnceValues(func() (driverhost.Lock, error) {
	return driverhost.DescribeAll(context.Background(), binaries, driverhost.Confinement{Level: driverhost.LevelNone})
})

func lockOf(t testing.TB) driverhost.Lock {
	t.Helper()
	l, err := describedOnce()
	if err != nil {
		t.Fatalf("DescribeAll: %v", err)
	}
	return l
}

// hosted is a host with the set that it was made for.
type hosted struct {
	*driverhost.Host
	*driverhost.Set
}

// challenges is what finds a challenge driver: a set.
type challenges interface {
	Challenge(name string) (driver.Challenge, bool)
}

// newHost loads a set, with lock and folder filled in, and closes the host at
// the end of the test.
func newHost(t testing.TB, cfg driverhost.Config, log io.Writer) hosted {
	t.Helper()
	cfg = complete(t, cfg)
	h := driverhost.New(slog.New(slog.NewJSONHandler(log, nil)), driverhost.Options{Confinement: driverhost.Confinement{Level: driverhost.LevelNone}})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	set, err := h.Load(cfg)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return hosted{h, set}
}

// complete fills in lock, folder, and times that also a slow machine keeps.
func complete(t testing.TB, cfg driverhost.Config) driverhost.Config {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = binaries
	}
	if len(cfg.Lock.Drivers) == 0 {
		cfg.Lock = lockOf(t)
	}
	cfg.Start, cfg.Call = cmp.Or(cfg.Start, patience), cmp.Or(cfg.Call, patience)
	return cfg
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// obey sends an order to a challenge driver and returns its proof.
func obey(ctx context.Context, t testing.TB, h challenges, name, do string, more ...string) (string, error) {
	t.Helper()
	c, ok := h.Challenge(name)
	if !ok {
		t.Fatalf("there is no challenge driver %s", name)
	}
	o := map[string]string{"do": do}
	for i := 0; i+1 < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	challenge, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Advance(ctx, driver.AdvanceRequest{Challenge: challenge})
	if err != nil {
		return "", err
	}
	return string(res.Accepted.Proof), nil
}

func mustObey(t testing.TB, h challenges, name, do string, more ...string) string {
	t.Helper()
	proof, err := obey(t.Context(), t, h, name, do, more...)
	if err != nil {
		t.Fatalf("%s %s: %v", name, do, err)
	}
	return proof
}

func pidOf(t testing.TB, h challenges, name string) int {
	t.Helper()
	pid, err := strconv.Atoi(mustObey(t, h, name, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone reports whether the process has ended, be it reaped or not.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(rest, []byte("Z"))
}

// patience is more than anything takes that comes at all, on any machine.
const patience = time.Minute

// eventually polls until the claim holds.
func eventually(t testing.TB, claim string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(5 * time.Millisecond); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %s it still does not hold that %s", patience, claim)
		}
	}
}

// mustClose closes a host, and fails where that does not end.
func mustClose(t *testing.T, h hosted) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- h.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Close: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("Close does not end within %s", patience)
	}
}

func TestNothingStartsBeforeTheFirstCall(t *testing.T) {
	log := &programs.Output{}
	h := newHost(t, driverhost.Config{}, log)
	d, sum, ok := h.Describe("alpha")
	if !ok || d.Name != "alpha" || len(sum) != 64 {
		t.Errorf("Describe(alpha) = %v, %q, %t", d, sum, ok)
	}
	if _, _, ok := h.Describe("nobody"); ok {
		t.Error("Describe knows nobody")
	}
	if _, ok := h.Capability("alpha", 0); ok {
		t.Error("a challenge driver is offered as a capability")
	}
	if strings.Contains(log.String(), "started") {
		t.Errorf("a driver was started: %s", log)
	}
	mustObey(t, h, "alpha", "pid")
	if got := strings.Count(log.String(), "driver started"); got != 1 {
		t.Errorf("%d drivers were started, want 1: %s", got, log)
	}
}

func TestManyCallsUnderRepeatedKillsAllSucceed(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	load := startLoad(t, 8, func() (challenges, func()) { return h, func() {} })
	for range shortened(50, 5) {
		pid := pidOf(t, h, "alpha")
		check(t, syscall.Kill(pid, syscall.SIGKILL))
		// A call may lose one process, not two: let each caller have an answer.
		load.everyCallerAnswered(t)
	}
	if err := load.stop(); err != nil {
		t.Errorf("calls were lost: %v", err)
	}
}

// shortened is how often a test does something, less often with -short.
func shortened(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// load is callers that call alpha without a pause.
type load struct {
	answered []atomic.Int64
	errs     []error
	end      chan struct{}
	callers  sync.WaitGroup
}

// startLoad starts the callers. Each call is made on what hold gives, which is
// released after it.
func startLoad(t testing.TB, callers int, hold func() (challenges, func())) *load {
	t.Helper()
	l := &load{answered: make([]atomic.Int64, callers), errs: make([]error, callers), end: make(chan struct{})}
	for i := range callers {
		l.callers.Go(func() {
			for l.errs[i] == nil {
				select {
				case <-l.end:
					return
				default:
				}
				on, release := hold()
				_, l.errs[i] = obey(t.Context(), t, on, "alpha", "pid")
				release()
				l.answered[i].Add(1)
			}
		})
	}
	return l
}

// everyCallerAnswered waits until each caller has had an answer to a call that
// it began meanwhile.
func (l *load) everyCallerAnswered(t testing.TB) {
	t.Helper()
	for i := range l.answered {
		before := l.answered[i].Load()
		eventually(t, "every caller has an answer", func() bool { return l.answered[i].Load() > before+1 })
	}
}

// stop ends the callers and returns what went wrong.
func (l *load) stop() error {
	close(l.end)
	l.callers.Wait()
	return errors.Join(l.errs...)
}

func TestDriverThatChangesTheWorldIsNotCalledTwice(t *testing.T) {
	allowed := driverhost.Config{Drivers: map[string]driverhost.DriverConfig{"changer": {May: driverhost.May{driverhost.MayChange}}}}
	h := newHost(t, allowed, io.Discard)
	died := filepath.Join(t.TempDir(), "died")
	_, err := obey(t.Context(), t, h, "changer", "die once", "file", died)
	if err == nil || !strings.Contains(err.Error(), "process died during the call") {
		t.Errorf("error = %v, want that the process died", err)
	}
	mustObey(t, h, "changer", "die once", "file", died) // the next call finds a fresh process

	h = newHost(t, driverhost.Config{}, io.Discard)
	if _, err := obey(t.Context(), t, h, "changer", "pid"); err == nil || !strings.Contains(err.Error(), "if it may: drivers.settings.changer.may: [") {
		t.Errorf("error = %v, want the line that lets it change something", err)
	}
}

func TestACrashNamesHowTheProcessEndedAndItsLastWords(t *testing.T) {
	for do, want := range map[string][2]string{ // told to the caller, and to the operator besides
		"die":           {"it ended unexpectedly: signal: killed", ""},
		"exit":          {"it ended unexpectedly: exit status 7", "it said: my disk is full"},
		"leave quietly": {"it ended unexpectedly: exit status 0", ""},
	} {
		var log safeBuffer
		h := newHost(t, driverhost.Config{}, &log)
		_, err := obey(t.Context(), t, h, "alpha", do, "text", "my disk is full")
		if err == nil || err.Error() != "driver alpha: its process died during the call: "+want[0] {
			t.Errorf("%s: error = %v, want one that names driver and cause", do, err)
		}
		s, _ := h.StatusOf("alpha")
		for _, told := range []string{s.LastError, log.String()} {
			if !strings.Contains(told, want[0]) || !strings.Contains(told, want[1]) || foreign(told) != "" {
				t.Errorf("%s: the operator reads %q, want %q and nothing of go-plugin", do, told, want)
			}
		}
		mustObey(t, h, "alpha", "pid")
	}
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// foreign is a phrase of go-plugin or gRPC in a text, which tells an operator nothing.
func foreign(text string) string {
	for _, phrase := range []string{
		"error reading from server", "EOF", "remote plugin", "plugin author", "exited before we could connect", "rpc error", "code = ", "API version",
	} {
		if strings.Contains(text, phrase) {
			return phrase
		}
	}
	return ""
}

func TestErrorsOfADriverAreNotRepeated(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	before := pidOf(t, h, "alpha")
	for do, want := range map[string]string{"fail": "no luck", "panic": "driver panicked"} {
		_, err := obey(t.Context(), t, h, "alpha", do, "text", "no luck")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "driver alpha") {
			t.Errorf("%s: error = %v, want one with %q and the driver's name", do, err, want)
		}
	}
	if after := pidOf(t, h, "alpha"); after != before {
		t.Errorf("process %d was replaced by %d", before, after)
	}
}

func TestNobodyReadsTheCodesOfTheTransport(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	_, err := obey(t.Context(), t, h, "alpha", "fail", "text", "ask the model: rpc error: code = Internal desc = rpc error: code = Unknown desc = no luck")
	if err == nil || !strings.HasSuffix(err.Error(), "ask the model: no luck") || foreign(err.Error()) != "" {
		t.Errorf("error = %v, want the words of the service alone", err)
	}
}

func TestFirstCallsStartOneProcessADriver(t *testing.T) {
	log := &programs.Output{}
	h := newHost(t, driverhost.Config{}, log)
	h.Warm(t.Context(), "gamma", "nobody")
	var callers sync.WaitGroup
	for range 4 {
		for _, name := range []string{"alpha", "beta", "gamma"} {
			callers.Go(func() {
				if _, err := obey(t.Context(), t, h, name, "pid"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	callers.Wait()
	if got := strings.Count(log.String(), "driver started"); got != 3 {
		t.Errorf("%d processes were started, want 3: %s", got, log)
	}
}

func TestEnvironmentIsEmptyButForTheAllowList(t *testing.T) {
	t.Setenv("KAIROS_TEST_SECRET", "secret")
	t.Setenv("KAIROS_TEST_SHARED", "shared")
	h := newHost(t, driverhost.Config{Drivers: map[string]driverhost.DriverConfig{
		"alpha": {EnvFrom: []string{"KAIROS_TEST_SHARED", "KAIROS_TEST_ABSENT"}},
	}}, io.Discard)
	var env []string
	if err := json.Unmarshal([]byte(mustObey(t, h, "alpha", "environment")), &env); err != nil {
		t.Fatal(err)
	}
	env = slices.DeleteFunc(env, func(e string) bool {
		return strings.HasPrefix(e, "PLUGIN_") || strings.HasPrefix(e, "KAIROS_DRIVER_COOKIE=") ||
			strings.HasPrefix(e, "KAIROS_DRIVER_PROCESS=")
	})
	slices.Sort(env)
	want := []string{
		"GOMEMLIMIT=256MiB", "KAIROS_TEST_SHARED=shared",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	if len(env) > 0 && strings.HasPrefix(env[0], "GOMEMLIMIT=") {
		env[0] = want[0] // with a cgroup it is lower
	}
	if !slices.Equal(env, want) {
		t.Errorf("the driver sees %v", env)
	}
}

func TestHostileStderrIsCleanedAndHarmless(t *testing.T) {
	log := &programs.Output{}
	h := newHost(t, driverhost.Config{}, log)
	hostile := "{\"@message\":42}\n{\"@level\":[],\"@timestamp\":{}}\n{\"level\":{},\"msg\":7}\nESC\x1b[31mred\x00\xff\u202e\n" +
		"{\"level\":\"ERROR\",\"msg\":\"real trouble\"}\n" + strings.Repeat("x", 200_000) + "\nlast\n"
	mustObey(t, h, "alpha", "say", "text", hostile)
	mustObey(t, h, "alpha", "print", "text", "printed\n")
	eventually(t, "the last lines are logged", func() bool {
		return strings.Contains(log.String(), `"line":"last"`) && strings.Contains(log.String(), `"line":"printed"`)
	})
	text := log.String()
	for _, bad := range []string{"\x1b", `\u001b`, `\u0000`, "\u202e", strings.Repeat("x", 5000)} {
		if strings.Contains(text, bad) {
			t.Errorf("the log contains %.20q", bad)
		}
	}
	if !strings.Contains(text, `"level":"ERROR","msg":"driver says"`) {
		t.Errorf("the level of the driver's line is lost: %s", text)
	}
}

func TestFloodOfStderrIsCut(t *testing.T) {
	log := &programs.Output{}
	lockOf(t)
	t.Setenv("KAIROS_TEST_START", "flood")
	h := newHost(t, driverhost.Config{Drivers: map[string]driverhost.DriverConfig{"alpha": {EnvFrom: []string{"KAIROS_TEST_START"}}}}, log)
	mustObey(t, h, "alpha", "flood")
	mustObey(t, h, "alpha", "pid")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(log.String(), `"line":"noise"`); lines > 1000 || lines < 100 {
		t.Errorf("%d of 350000 lines were logged", lines)
	}
	if !strings.Contains(log.String(), "lines dropped") {
		t.Error("nothing says that lines were dropped")
	}
}

func TestStopIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		stop    time.Duration
		prepare func(*testing.T, hosted) []int
	}{
		"willing": {time.Hour, func(t *testing.T, h hosted) []int { return []int{pidOf(t, h, "alpha")} }}, // not waited for that long
		"frozen": {300 * time.Millisecond, func(t *testing.T, h hosted) []int {
			pid := pidOf(t, h, "alpha")
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			return []int{pid}
		}},
		"with a grandchild that holds stderr": {300 * time.Millisecond, func(t *testing.T, h hosted) []int {
			child, err := strconv.Atoi(mustObey(t, h, "alpha", "grandchild"))
			if err != nil {
				t.Fatal(err)
			}
			return []int{pidOf(t, h, "alpha"), child}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, driverhost.Config{Stop: tc.stop}, io.Discard)
			pids := tc.prepare(t, h)
			mustClose(t, h)
			for _, pid := range pids {
				eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return gone(pid) })
			}
			if err := h.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
			if _, err := obey(t.Context(), t, h, "alpha", "pid"); err == nil {
				t.Error("a closed host takes calls")
			}
		})
	}
}

func TestCloseCutsOffCallsThatDoNotEnd(t *testing.T) {
	h := newHost(t, driverhost.Config{Stop: 200 * time.Millisecond}, io.Discard)
	entered := filepath.Join(t.TempDir(), "entered")
	done := make(chan error, 1)
	go func() {
		_, err := obey(t.Context(), t, h, "alpha", "wait", "file", entered)
		done <- err
	}()
	eventually(t, "the call has arrived", func() bool { _, err := os.Stat(entered); return err == nil })
	mustClose(t, h)
	if err := <-done; err == nil {
		t.Error("the call that was cut off succeeded")
	}
}

func TestCloseAbortsAStart(t *testing.T) {
	t.Setenv("KAIROS_TEST_START", "silent")
	h := newHost(t, driverhost.Config{Start: time.Hour, Drivers: map[string]driverhost.DriverConfig{
		"alpha": {EnvFrom: []string{"KAIROS_TEST_START"}},
	}}, io.Discard)
	h.Warm(t.Context(), "alpha")
	mustClose(t, h)
}

func TestWhatADriverWarnsOfIsInItsStatus(t *testing.T) {
	h := newHost(t, driverhost.Config{Drivers: map[string]driverhost.DriverConfig{"alpha": {Config: json.RawMessage(`{"warn":1}`)}}}, io.Discard)
	pidOf(t, h, "alpha")
	if s, _ := h.StatusOf("alpha"); !slices.Equal(s.Warnings, []string{"/warn: I am not fast"}) {
		t.Errorf("warnings = %q", s.Warnings)
	}
}

// TestNearMisses: a program that is almost a driver does not start, and why is said.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct {
		driver   string
		start    string
		config   string
		patience time.Duration
		want     []string
	}{
		"never speaks":         {"alpha", "silent", "", 300 * time.Millisecond, []string{"start driver alpha"}},
		"speaks gibberish":     {"alpha", "gibberish", "", 0, []string{"start driver alpha", `"what is a handshake", not the handshake of a driver: nothing else may be printed there`}},
		"another plugin":       {"alpha", "other plugin", "", 0, []string{`it serves "netrpc", and drivers serve grpc`}},
		"a newer plugin":       {"alpha", "newer plugin", "", 0, []string{"not the handshake of a driver"}},
		"a newer driver":       {"alpha", "newer driver", "", 0, []string{`version "9" of the driver protocol, and this server speaks 1`}},
		"an unknown network":   {"alpha", "nowhere", "", 0, []string{"did not complete the handshake"}},
		"ends at once":         {"alpha", "done", "", 0, []string{"closed its stdout without a handshake"}},
		"closes its stdout":    {"alpha", "mute", "", 0, []string{"closed its stdout without a handshake"}},
		"exits":                {"alpha", "exit", "", 0, []string{"start driver alpha", "exit status 3", "my disk is", "full"}},
		"dislikes its config":  {"alpha", "", `{"refuse":1}`, 0, []string{"/refuse", "I do not like it"}},
		"is sick":              {"alpha", "", `{"sick":1}`, 0, []string{"I am sick"}},
		"describes itself new": {"otherwise", "", "", 0, []string{"differs from drivers.lock", "kairos driver lock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KAIROS_TEST_START", tc.start)
			h := newHost(t, driverhost.Config{
				Lock: func() driverhost.Lock {
					t.Setenv("KAIROS_TEST_START", "")
					defer t.Setenv("KAIROS_TEST_START", tc.start)
					return lockOf(t)
				}(),
				Start: tc.patience,
				Drivers: map[string]driverhost.DriverConfig{
					tc.driver: {Config: json.RawMessage(tc.config), EnvFrom: []string{"KAIROS_TEST_START"}},
				},
			}, io.Discard)
			_, err := obey(t.Context(), t, h, tc.driver, "pid")
			if err == nil {
				t.Fatal("it started")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to contain %q", err, want)
				}
			}
			if phrase := foreign(err.Error()); phrase != "" {
				t.Errorf("error = %v, which has %q of go-plugin", err, phrase)
			}
			if strings.Contains(err.Error(), "\x1b") {
				t.Errorf("error %q carries control characters", err)
			}
		})
	}
}

func TestOnlyTheLockedBinaryRuns(t *testing.T) {
	lock := lockOf(t)
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  string
	}{
		"missing":        {func(t *testing.T, path string) { check(t, os.Remove(path)) }, "no such file"},
		"not executable": {func(t *testing.T, path string) { check(t, os.Chmod(path, 0o600)) }, "not executable"},
		"another binary": {func(t *testing.T, path string) {
			check(t, os.WriteFile(path, []byte("#!/bin/sh\necho gotcha\n"), 0o700))
		}, "its sha256 is"},
		"a folder": {func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.Mkdir(path, 0o700))
		}, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "kairos-driver-alpha")
			copyFile(t, filepath.Join(binaries, "kairos-driver-alpha"), path)
			tc.spoil(t, path)
			h := newHost(t, driverhost.Config{Dir: dir, Lock: lock}, io.Discard)
			_, err := obey(t.Context(), t, h, "alpha", "pid")
			if err == nil {
				t.Fatal("it started")
			}
			_, sum, _ := h.Describe("alpha")
			for _, want := range []string{tc.want, "driver alpha", path, sum, "make build", "kairos driver lock"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to contain %q", err, want)
				}
			}
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(to, b, 0o700))
}

func TestRepairedDriverStartsAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kairos-driver-alpha")
	h := newHost(t, driverhost.Config{Dir: dir, Lock: lockOf(t)}, io.Discard)
	if _, err := obey(t.Context(), t, h, "alpha", "pid"); err == nil {
		t.Fatal("a driver without a binary started")
	}
	copyFile(t, filepath.Join(binaries, "kairos-driver-alpha"), path)
	servesAgain(t, h)
}

func TestSettingsOfAnUnlockedDriverAreRefused(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	_, err := h.Load(complete(t, driverhost.Config{Drivers: map[string]driverhost.DriverConfig{"nobody": {}}}))
	if err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("Load error = %v, want one that names the driver", err)
	}
}

func TestSocketIsPrivateAndGone(t *testing.T) {
	base := runtimeFolder(t)
	h := newHost(t, driverhost.Config{}, io.Discard)
	mustObey(t, h, "alpha", "pid")
	folders, err := filepath.Glob(filepath.Join(base, "*"))
	check(t, err)
	if len(folders) != 1 {
		t.Fatalf("in the runtime folder are %v, want one folder", folders)
	}
	info, err := os.Stat(folders[0])
	check(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", info.Mode())
	}
	if left := filesIn(t, folders[0]); len(left) > 0 {
		t.Errorf("a connected driver still has %v", left)
	}
	check(t, h.Close())
	if left := filesIn(t, base); len(left) > 0 {
		t.Errorf("a closed host leaves %v", left)
	}
}

// filesIn lists everything below a folder.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			found = append(found, path)
		}
		return err
	})
	check(t, err)
	return found
}

// hostProcess runs this binary as a host and returns it with its driver's process number.
func hostProcess(t *testing.T, runtimeDir string) (host *exec.Cmd, driverPID int, stdin io.WriteCloser, stdout *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	host = exec.Command(self)
	host.Env = append(os.Environ(), hostMode+"="+binaries, "XDG_RUNTIME_DIR="+runtimeDir)
	host.Stderr = os.Stderr
	stdin, err = host.StdinPipe()
	check(t, err)
	out, err := host.StdoutPipe()
	check(t, err)
	check(t, host.Start())
	stdout = bufio.NewReader(out)
	line, err := stdout.ReadString('\n')
	check(t, err)
	driverPID, err = strconv.Atoi(strings.TrimSpace(line))
	check(t, err)
	return host, driverPID, stdin, stdout
}

// runtimeFolder is a folder for sockets of this test's own.
func runtimeFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k") // short enough for a socket
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return dir
}

func TestKilledHostLeavesNoProcessAndNoSocket(t *testing.T) {
	base := runtimeFolder(t)
	host, pid, _, _ := hostProcess(t, base)
	check(t, host.Process.Kill())
	if err := host.Wait(); err == nil {
		t.Error("the host was not killed")
	}
	eventually(t, "the driver is gone", func() bool { return gone(pid) })
	left := slices.DeleteFunc(filesIn(t, base), func(path string) bool {
		return filepath.Dir(path) == base // the empty folder, which the next host removes
	})
	if len(left) > 0 {
		t.Errorf("a killed host leaves %v", left)
	}
	// A folder that its host had no time to lock is removed once it is old.
	unlocked := filepath.Join(base, "kairos-new-1")
	check(t, os.Mkdir(unlocked, 0o700))
	old := time.Now().Add(-time.Hour)
	check(t, os.Chtimes(unlocked, old, old))
	h := newHost(t, driverhost.Config{}, io.Discard)
	mustObey(t, h, "alpha", "pid")
	check(t, h.Close())
	if left := filesIn(t, base); len(left) > 0 {
		t.Errorf("the next host leaves %v", left)
	}
}

func TestNextHostRemovesSocketFoldersOfKilledHostsAndNoOthers(t *testing.T) {
	base := runtimeFolder(t)
	live := newHost(t, driverhost.Config{}, io.Discard)
	mustObey(t, live, "alpha", "pid")
	check(t, os.Mkdir(filepath.Join(base, "kairos-new-1"), 0o700)) // its host is about to lock it
	kept := filesIn(t, base)
	for range 3 {
		host, _, _, _ := hostProcess(t, base)
		check(t, host.Process.Kill())
		_ = host.Wait()
	}
	h := newHost(t, driverhost.Config{}, io.Discard)
	mustObey(t, h, "alpha", "pid")
	check(t, h.Close())
	if left := filesIn(t, base); !slices.Equal(left, kept) {
		t.Errorf("after the next host there are %v, want %v", left, kept)
	}
}

func TestStdinOfTheHostReachesNoDriver(t *testing.T) {
	host, _, stdin, stdout := hostProcess(t, t.TempDir())
	_, err := io.WriteString(stdin, "for the host alone\n")
	check(t, err)
	line, err := stdout.ReadString('\n')
	check(t, err)
	if line != "stdin: for the host alone\n" {
		t.Errorf("the host read %q", line)
	}
	check(t, host.Wait())
}

func TestAHungProcessIsReplaced(t *testing.T) {
	cfg := folder(t, "alpha")
	cfg.Stop = 200 * time.Millisecond
	h := newHost(t, cfg, io.Discard)
	pid := pidOf(t, h, "alpha")
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	// Only calls on the stopped process have little time.
	cfg.Call = 300 * time.Millisecond
	h = h.swap(t, cfg)
	// The signal is not there at once: a call may still be served.
	eventually(t, "a call on the stopped process is late", func() bool {
		_, err := obey(t.Context(), t, h, "alpha", "pid")
		return err != nil
	})
	cfg.Call = patience
	h = h.swap(t, cfg)
	if again := pidOf(t, h, "alpha"); again == pid {
		t.Error("the stopped process answers")
	}
}
