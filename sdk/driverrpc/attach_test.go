package driverrpc_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func TestADebuggedDriverServesUntilItIsStopped(t *testing.T) {
	dir := t.TempDir()
	cmd := driverCommand(t, "judge", []string{"TMPDIR=" + dir}, driverrpc.DebugFlag)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout := bufio.NewReader(pipe)
	line, err := stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("it printed %q: %v", line, err)
	}
	a := attachmentOf(t, line)
	if a.Name != "judge" || a.PID != cmd.Process.Pid {
		t.Errorf("attachment %+v, want judge with pid %d", a, cmd.Process.Pid)
	}
	folder := filepath.Dir(a.Address)
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder: %v, %v, want mode 0700", info, err)
	}
	debugSession(t, a)

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(stdout); err != nil || len(rest) > 0 {
		t.Errorf("more than one line on stdout: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want exit status 0", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket's folder: %v, want it gone", err)
	}
	if log := stderr.String(); !strings.Contains(log, "judge_test.go") || !strings.Contains(log, traceparent[3:35]) {
		t.Errorf("the log has no stack or no trace: %s", log)
	}
	if _, _, err := driverrpc.Dial(a); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("Dial afterwards = %v, want that it is gone", err)
	}
}

// attachmentOf reads the line as a shell does.
func attachmentOf(t *testing.T, line string) driverrpc.Attachment {
	t.Helper()
	value, err := exec.CommandContext(t.Context(), "sh", "-c", line+`printf %s "$`+driverrpc.AttachEnv+`"`).Output()
	if err != nil {
		t.Fatalf("a shell cannot read %q: %v", line, err)
	}
	all, err := driverrpc.ParseAttachments(string(value))
	if err != nil || len(all) != 1 {
		t.Fatalf("ParseAttachments(%q) = %v, %v", value, all, err)
	}
	return all[0]
}

func debugSession(t *testing.T, a driverrpc.Attachment) {
	t.Helper()
	client, hangUp, err := driverrpc.Dial(a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hangUp(); err != nil {
			t.Errorf("hang up: %v", err)
		}
	}()
	if d, err := client.Describe(t.Context()); err != nil || d.Name != "judge" {
		t.Errorf("Describe = %+v, %v", d, err)
	}
	ctx := driver.WithTrace(t.Context(), traceparent)
	ask := func(do string) (driver.AdvanceResult, error) {
		return client.Challenge().Advance(ctx, driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"` + do + `"}`)})
	}
	if _, err := ask("panic"); !driverrpc.IsDriverBug(err) {
		t.Errorf("a panic gives %v, want a driver's bug", err)
	}
	got, err := ask("log")
	if err != nil || !strings.Contains(string(got.Accepted.Proof), traceparent) {
		t.Errorf("Advance after the panic = %+v, %v, want the trace in its proof", got.Accepted, err)
	}
}

func TestOnlySoundAttachmentsAreRead(t *testing.T) {
	for name, tc := range map[string]struct{ env, want string }{
		"none":          {"", ""},
		"two":           {`[{"name":"a","address":"/tmp/a","pid":1},{"name":"b","address":"/tmp/b","new":1}]`, ""},
		"one object":    {`{"name":"a","address":"/tmp/a"}`, "JSON array"},
		"no JSON":       {`judge=/tmp/a`, "JSON array"},
		"text behind":   {`[] x`, "JSON array"},
		"bad name":      {`[{"name":"A","address":"/tmp/a"}]`, "entry 1"},
		"name twice":    {`[{"name":"a","address":"/tmp/a"},{"name":"a","address":"/tmp/b"}]`, "twice"},
		"relative path": {`[{"name":"a","address":"a.sock"}]`, "absolute"},
		"negative pid":  {`[{"name":"a","address":"/tmp/a","pid":-1}]`, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := driverrpc.ParseAttachments(tc.env)
			if (tc.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("ParseAttachments(%q) error = %v, want one about %q", tc.env, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), driverrpc.AttachEnv) {
				t.Errorf("error %q does not name %s", err, driverrpc.AttachEnv)
			}
		})
	}
}

func TestDialRefusesAFileThatIsNotASocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := driverrpc.Dial(driverrpc.Attachment{Name: "a", Address: file}); err == nil {
		t.Error("a plain file was taken")
	}
}
