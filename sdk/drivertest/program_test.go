package drivertest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// beDriver as the first argument makes this test binary a driver: its second
// is the driver's name and the third its fault.
const beDriver = "be-driver"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == beDriver {
		runDriver(os.Args[2], os.Args[3], os.Args[4:])
		return
	}
	goleak.VerifyTestMain(m)
}

// neverClosed is the lifeline of a driver that ignores its own.
var neverClosed *os.File

// operatorsVariable is what a driver with the fault process/clean-environment needs.
const operatorsVariable = "KAIROS_TEST_TOKEN"

// runDriver is the main function of a driver process with a fault of processes.
func runDriver(name, fault string, args []string) {
	os.Args = append(os.Args[:1:1], args...)
	served := os.Getenv(driverrpc.Handshake().MagicCookieKey) != ""
	switch {
	case fault == "process/starts" && served:
		fmt.Fprintln(os.Stderr, "no database")
		os.Exit(3)
	case fault == "process/clean-environment" && served && os.Getenv(operatorsVariable) == "":
		fmt.Fprintln(os.Stderr, operatorsVariable+" is not set")
		os.Exit(1)
	case fault == "process/by-hand" && !served && len(args) == 0:
		os.Exit(0)
	case fault == "process/stderr-text" && !served:
		_, _ = os.Stderr.WriteString("caf\xe9\n")
	case fault == "process/lifeline":
		os.Stdin, neverClosed, _ = os.Pipe()
	}
	d := kitDrivers[name].make(strings.TrimPrefix(fault, "exec "))
	if fault == "descriptor/static" {
		d.Descriptor.Version = fmt.Sprintf("1.0.%d", os.Getpid())
	}
	if strings.HasPrefix(fault, "exec ") {
		d.Descriptor.Transport = driver.TransportExec
	}
	driverrpc.Main(d)
}

// program runs this test binary as a driver, as a host would.
type program struct{ name, fault string }

func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{beDriver, p.name, p.fault}, args...)...)
	// With the race detector a process would sleep for a second before it ends.
	cmd.Env = []string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}
	cmd.WaitDelay = time.Second
	return cmd
}

func (p program) Run(ctx context.Context, args ...string) (drivertest.Output, error) {
	cmd := p.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := drivertest.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		out.ExitStatus, err = exit.ExitCode(), nil
	}
	return out, err
}

// Print implements drivertest.Printer.
func (p program) Print(ctx context.Context, method string, request []byte) (drivertest.Output, error) {
	cmd := p.command(ctx, driverrpc.CallFlag, method)
	cmd.Stdin = bytes.NewReader(request)
	cmd.Env = append(cmd.Env, driverrpc.ConfigEnv+"="+counterConfig)
	stdout, err := cmd.Output()
	return drivertest.Output{Stdout: stdout}, err
}

func (p program) Start(ctx context.Context) (drivertest.Process, error) {
	return p.start(ctx, operatorsVariable+"=x")
}

func (p program) StartBare(ctx context.Context) (drivertest.Process, error) { return p.start(ctx) }

func (p program) start(ctx context.Context, env ...string) (drivertest.Process, error) {
	if strings.HasPrefix(p.fault, "exec ") {
		return p.perCall(ctx)
	}
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		return nil, err
	}
	cmd := p.command(context.Background())
	handshake := driverrpc.Handshake()
	cmd.Env = append(append(cmd.Env, env...), handshake.MagicCookieKey+"="+handshake.MagicCookieValue,
		"PLUGIN_UNIX_SOCKET_DIR="+dir, "PLUGIN_PROTOCOL_VERSIONS=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	proc := &process{cmd: cmd, dir: dir, exited: make(chan struct{})}
	if p.fault == "process/starts-soon" {
		proc.took = time.Hour
	}
	if proc.lifeline, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := proc.connect(ctx, stdout); err != nil {
		return nil, errors.Join(err, proc.Close(), errors.New(stderr.String()))
	}
	return proc, nil
}

// process is one driver process behind a plain unix socket.
type process struct {
	cmd      *exec.Cmd
	dir      string
	lifeline io.Closer
	client   *driverrpc.Client
	hangUp   func() error
	took     time.Duration // as the test has it
	exited   chan struct{}

	mu    sync.Mutex // guards noise
	noise []string
}

func (p *process) connect(ctx context.Context, stdout io.Reader) error {
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	go func() {
		for s := bufio.NewScanner(lines); s.Scan(); {
			p.mu.Lock()
			p.noise = append(p.noise, s.Text())
			p.mu.Unlock()
		}
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	fields := strings.Split(strings.TrimSpace(line), "|")
	if err != nil || len(fields) < 5 {
		return fmt.Errorf("no handshake but %q: %w", line, err)
	}
	p.client, p.hangUp, err = driverrpc.Dial(driverrpc.Attachment{Name: "test", Address: fields[3]})
	return err
}

func (p *process) Calls() driverrpc.Calls { return p.client }
func (p *process) PID() int               { return p.cmd.Process.Pid }
func (p *process) Took() time.Duration    { return p.took }
func (p *process) CutLifeline()           { _ = p.lifeline.Close() }

func (p *process) Exited() <-chan struct{} { return p.exited }

func (p *process) Noise() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.noise...)
}

func (p *process) Close() error {
	if p.hangUp != nil {
		_ = p.hangUp()
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.exited
	return os.RemoveAll(p.dir)
}

// perCall is a driver of transport exec.
type perCall struct{ calls driverrpc.Calls }

func (p program) perCall(ctx context.Context) (drivertest.Process, error) {
	calls := driverrpc.NewExecClient(func(ctx context.Context, method string, request []byte) ([]byte, error) {
		cmd := p.command(ctx, driverrpc.CallFlag, method)
		cmd.Stdin = bytes.NewReader(request)
		cmd.Env = append(cmd.Env, driverrpc.ConfigEnv+"="+counterConfig)
		return cmd.Output()
	})
	_, err := calls.Describe(ctx)
	return &perCall{calls}, err
}

func (p *perCall) Calls() driverrpc.Calls  { return p.calls }
func (p *perCall) PID() int                { return 0 }
func (p *perCall) Took() time.Duration     { return 0 }
func (p *perCall) Noise() []string         { return nil }
func (p *perCall) CutLifeline()            {}
func (p *perCall) Exited() <-chan struct{} { return nil }
func (p *perCall) Close() error            { return nil }

func started(t *testing.T, name, fault string) drivertest.Subject {
	t.Helper()
	f := file(t, kitDrivers[name].config(t), kitDrivers[name].samples(""))
	return drivertest.Subject{Program: program{name, fault}, Samples: f.Samples, Config: f.Config}
}

// processFaults are faults that only a process has, and the checks that cannot
// run because of them. The part behind a comma names one of several faults of a
// check.
var processFaults = map[string]bool{
	"process/starts": true, "process/starts-soon": false, "process/clean-environment": false, "process/by-hand": false,
	"process/quiet-stdout": false, "process/stderr-text": false, "process/lifeline": false, "descriptor/static": false,
	"config/dry-run": false, "call/other-process": false, "call/no-growth, files": false,
	"call/recovers, elsewhere": false, "call/pending-continues, elsewhere": false,
}

// processDriver is the driver that has the fault.
func processDriver(fault string) string {
	if strings.HasSuffix(fault, ", elsewhere") {
		return "till"
	}
	return "counter"
}

// long skips the test with -short: it starts a process for each check, which the
// race detector makes ten times slower. make test runs it without.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED with -short: starts many processes; make test runs it without the race detector")
	}
}

func TestEachFaultOfAProcessIsFoundByTheCheckThatNamesItAndByNoOther(t *testing.T) {
	long(t)
	if _, err := os.Stat(filepath.Join("/proc", "self", "status")); err != nil {
		t.Skip("NOT TESTED: faults of a process, because there is no /proc to look into")
	}
	for fault, stopsTheRest := range processFaults {
		t.Run(fault, func(t *testing.T) {
			report := verifyFault(t, func() drivertest.Subject { return started(t, processDriver(fault), fault) }, fault)
			ids, text := broken(report)
			want, _, _ := strings.Cut(fault, ",")
			if diff := cmp.Diff([]string{want}, ids); diff != "" {
				t.Errorf("broken rules (-want +got):\n%s\n%s", diff, text)
			}
			if skipped := report.Count(drivertest.Skipped); (skipped > 0) != stopsTheRest {
				t.Errorf("%d checks are skipped", skipped)
			}
		})
	}
}

// Each of these faults shows in all that comes later, and is named once.
func TestOneFaultIsNamedByOneCheck(t *testing.T) {
	long(t)
	for fault, want := range map[string]string{
		"exec process/quiet-stdout": "process/quiet-stdout",
		"exec dies":                 "call/sound-result", "dies": "call/sound-result", "unsound": "call/sound-result",
		"not UTF-8": "call/sound-result",
	} {
		t.Run(fault, func(t *testing.T) {
			report := verify(t, started(t, "counter", fault), without(fault))
			if ids, text := broken(report); !slices.Equal(ids, []string{want}) {
				t.Errorf("broken rules are %v, want %s alone:\n%s", ids, want, text)
			}
			var b strings.Builder
			if err := report.Human(&b); err != nil || strings.Count(b.String(), want) < 2 {
				t.Errorf("the report points nowhere to %s:\n%s", want, b.String())
			}
		})
	}
}

func TestADriverWithoutTheConfigurationThatItNeedsIsNotBlamed(t *testing.T) {
	long(t)
	s := started(t, "counter", "needs settings")
	s.Config = nil
	report := verify(t, s, without(""))
	if ids, text := broken(report); len(ids) > 0 || !slices.Contains(report.Wanted(), `"config" in the sample file`) {
		t.Errorf("it wants %q, and these rules are broken: %s", report.Wanted(), text)
	}
}

func TestSoundProgramsPassWithNothingSkipped(t *testing.T) {
	long(t)
	for name, subject := range map[string]drivertest.Subject{
		"counter": started(t, "counter", ""), "desk": started(t, "desk", ""), "till": started(t, "till", ""), "counter by exec": started(t, "counter", "exec "),
	} {
		t.Run(name, func(t *testing.T) {
			report := verify(t, subject, drivertest.Options{})
			for _, result := range report.Results {
				if result.Status != drivertest.Passed && result.Status != drivertest.NotConcerned {
					t.Error(result.Line())
				}
			}
		})
	}
}
