package audit_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ada = access.Caller{
	Principal: "user:acme:ada", Credential: "token:1", Method: access.ByToken, Client: driver.Client{Name: "claude-code", Transport: "http"},
}

// did is an act that nothing is wrong with.
func did(*audit.Doing) error { return nil }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// linesOf reads every line of a file.
func linesOf(t *testing.T, path string) (lines []audit.Line) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(bytes.NewReader(b))
	for in.Scan() {
		var l audit.Line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", in.Text(), err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestAnActHasALineBeforeAndOneAfter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "audit.jsonl")
	log := audit.New(audit.Options{Sink: &audit.File{Path: path}, Account: "kairos"}, quiet())
	ctx := driver.WithTrace(t.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	err := log.Do(ctx, ada, audit.Act{Action: "protocol.mint"}, func(d *audit.Doing) error {
		d.On("space:production", "kairos://p/1")
		d.Note("how", "page")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	forbidden := fault.New(fault.Forbidden, "no")
	for _, failure := range []error{forbidden, fault.New(fault.Conflict, "twice"), errors.New("disk")} {
		if err := log.Do(ctx, ada, audit.Act{Action: "protocol.delete"}, func(*audit.Doing) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("%v became %v", failure, err)
		}
	}
	if err := log.Refused(ctx, ada, audit.Act{Action: "run.begin"}, forbidden); !errors.Is(err, forbidden) {
		t.Error(err)
	}
	_ = log.Refused(ctx, ada, audit.Act{Action: "run.begin"}, fault.New(fault.NotFound, "no refusal"))
	log.Unknown(ctx, "192.0.2.7", audit.Act{Action: "caller.identify"}, fault.InvalidToken)
	if err := log.Check(ctx, access.Caller{Principal: "local", Client: driver.Client{Transport: "cli"}}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(log.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	var said []string
	lines := linesOf(t, path)
	for _, l := range lines {
		said = append(said, fmt.Sprintf("%s %s %s %s %s", l.Action, l.Phase, l.Code, l.Space, l.Object))
		if l.TraceID != "0af7651916cd43dd8448eb211c80319c" || l.Time.IsZero() {
			t.Errorf("trace or time is missing: %+v", l)
		}
	}
	want := []string{
		"protocol.mint begun   ", "protocol.mint done  space:production kairos://p/1",
		"protocol.delete begun   ", "protocol.delete refused FORBIDDEN  ",
		"protocol.delete begun   ", "protocol.delete failed CONFLICT  ",
		"protocol.delete begun   ", "protocol.delete failed INTERNAL  ",
		"run.begin refused FORBIDDEN  ", "caller.identify refused INVALID_TOKEN  ", "audit.check done   ",
	}
	if got := strings.Join(said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the lines are\n%s", got)
	}
	if lines[0].ID == "" || lines[0].ID != lines[1].ID || lines[1].ID == lines[2].ID {
		t.Error("the lines of an act share an id, and those of another do not")
	}
	first, unknown, local := lines[1], lines[9], lines[10]
	if first.Principal != "user:acme:ada" || first.Credential != "token:1" || first.Client != "claude-code" || first.Account != "" || first.Details["how"] != "page" || lines[0].Details != nil {
		t.Errorf("%+v", first)
	}
	if unknown.Address != "192.0.2.7" || local.Account != "kairos" {
		t.Errorf("%+v %+v", unknown, local)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v: %v", info.Mode(), err)
	}
}

func TestAPanicCountsAsAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_ = log.Do(t.Context(), ada, audit.Act{Action: "run.decide"}, func(*audit.Doing) error { panic("bug") })
	}()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if lines := linesOf(t, path); len(lines) != 2 || lines[1].Phase != audit.Failed || lines[1].Code != fault.Internal {
		t.Errorf("%+v", lines)
	}
}

func TestWhatOutsidersWriteIsClippedAndStaysInItsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
	c := ada
	c.Client.Name = strings.Repeat("x", 1<<20)
	_ = log.Do(t.Context(), c, audit.Act{Action: "a", Object: "one\n{\"phase\":\"done\"}" + strings.Repeat("\xff", 1<<16)}, did)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, path)
	if len(lines) != 2 || len(lines[0].Client) > 500 || len(lines[0].Object) > 2000 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestAFullDiskStopsWhatMustBeAudited(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full, the device that is always full")
	}
	for _, required := range []bool{true, false} {
		var lost atomic.Int64
		log := audit.New(audit.Options{Sink: &audit.File{Path: "/dev/full", Sync: required}, Required: required, Lost: func() { lost.Add(1) }}, quiet())
		did := false
		err := log.Do(t.Context(), ada, audit.Act{Action: "protocol.mint"}, func(*audit.Doing) error { did = true; return nil })
		if required && (did || fault.CodeOf(err) != fault.AuditUnavailable || !strings.Contains(err.Error(), "nothing was done")) {
			t.Errorf("required: done %v, %v", did, err)
		}
		if !required && (!did || err != nil) {
			t.Errorf("not required: done %v, %v", did, err)
		}
		if err := log.Check(t.Context(), ada); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		if where, problem := log.State(); where != "/dev/full" || !errors.Is(problem, syscall.ENOSPC) {
			t.Errorf("%s: %v", where, problem)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if lost.Load() < 2 {
			t.Errorf("%d lines are counted as lost", lost.Load())
		}
	}
}

func TestALogThatIsClosedLosesLines(t *testing.T) {
	log := audit.New(audit.Options{Sink: audit.Stream{Writer: new(bytes.Buffer), Name: "stdout"}, Required: true}, quiet())
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Begin(t.Context(), ada, audit.Act{Action: "run.decide"}); fault.CodeOf(err) != fault.AuditUnavailable {
		t.Error(err)
	}
}

// stuck is a named fake: a sink whose reader has gone to sleep.
type stuck struct{ until chan struct{} }

func (s stuck) Write([]byte) error { <-s.until; return nil }
func (stuck) Close() error         { return nil }
func (stuck) String() string       { return "a pipe" }

func TestASinkThatHangsHoldsNobodyUpForEver(t *testing.T) {
	for _, required := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			sink := stuck{make(chan struct{})}
			log := audit.New(audit.Options{Sink: sink, Required: required}, quiet())
			var err error
			for range 2000 { // more than may wait
				d, e := log.Begin(context.Background(), ada, audit.Act{Action: "run.decide"})
				d.End(&e)
				err = e
				if required {
					break
				}
			}
			if got := fault.CodeOf(err); required != (got == fault.AuditUnavailable) {
				t.Errorf("required %v: %v", required, err)
			}
			if _, problem := log.State(); problem == nil {
				t.Error("nobody learns of it")
			}
			if began := time.Now(); required { // one line has waited, and the next ones need not
				if _, err := log.Begin(context.Background(), ada, audit.Act{Action: "run.decide"}); err == nil || time.Since(began) > 0 {
					t.Errorf("it waited for %s: %v", time.Since(began), err)
				}
			}
			close(sink.until)
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestManyRefusalsAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
		for range 5000 {
			log.Unknown(t.Context(), "192.0.2.7", audit.Act{Action: "caller.identify"}, fault.InvalidToken)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		log.Unknown(t.Context(), "192.0.2.7", audit.Act{Action: "caller.identify"}, fault.InvalidToken)
		_ = log.Refused(t.Context(), ada, audit.Act{Action: "run.begin"}, fault.New(fault.Forbidden, "no"))
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	lines := linesOf(t, path)
	known, unknown := lines[len(lines)-1], lines[len(lines)-2]
	if len(lines) > 100 || unknown.Suppressed != int64(5002-len(lines)) {
		t.Errorf("%d lines, the last of which counts %d", len(lines), unknown.Suppressed)
	}
	if known.Principal != ada.Principal || known.Suppressed != 0 {
		t.Errorf("strangers have hidden the refusal of a caller: %+v", known)
	}
}

func TestWithoutALogNothingIsWritten(t *testing.T) {
	var log *audit.Log
	did := false
	if err := log.Do(t.Context(), ada, audit.Act{}, func(d *audit.Doing) error {
		did = true
		d.On("a", "b")
		d.Add("c")
		d.Note("d", "e")
		return nil
	}); err != nil || !did {
		t.Error(did, err)
	}
	log.Unknown(t.Context(), "", audit.Act{}, fault.InvalidToken)
	if where, err := log.State(); where != "" || err != nil || log.Close() != nil {
		t.Error(where, err)
	}
}

func TestProcessesShareAFileThatRotates(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	const writers, each = 4, 200
	var all sync.WaitGroup
	for range writers { // each has a file of its own, as a process has
		all.Go(func() {
			log := audit.New(audit.Options{Sink: &audit.File{Path: path, Size: 4 << 10, Keep: 1000}, Required: true}, quiet())
			for range each {
				d, err := log.Begin(t.Context(), ada, audit.Act{Action: "protocol.mint"})
				if err != nil {
					t.Error(err)
				}
				d.End(&err)
			}
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "audit*.jsonl"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	phases := map[audit.Phase]int{}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 4<<10 {
			t.Errorf("%s: %v %v", f, info.Size(), err)
		}
		for _, l := range linesOf(t, f) {
			phases[l.Phase]++
		}
	}
	if phases[audit.Begun] != writers*each || phases[audit.Done] != writers*each {
		t.Errorf("%v lines instead of %d of each", phases, writers*each)
	}
}

func TestOnlySoManyEarlierFilesAreKept(t *testing.T) {
	for keep, files := range map[int]int{0: 1, 1: 2, 3: 4} {
		dir := t.TempDir()
		other := filepath.Join(dir, "audit-notes.jsonl")
		if err := os.WriteFile(other, []byte("mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		log := audit.New(audit.Options{Sink: &audit.File{Path: filepath.Join(dir, "audit.jsonl"), Size: 300, Keep: keep}, Required: true}, quiet())
		for range 20 {
			if err := log.Check(t.Context(), ada); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		found, err := os.ReadDir(dir)
		if err != nil || len(found) != files+1 {
			t.Errorf("keep %d: %d files: %v", keep, len(found)-1, err)
		}
		if _, err := os.Stat(other); err != nil {
			t.Error("a file of somebody else was removed")
		}
	}
}

func TestAFileThatWasMovedAwayIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
	for range 2 { // logrotate renames the file and tells nobody
		if err := log.Check(t.Context(), ada); err != nil {
			t.Fatal(err)
		}
		if lines := linesOf(t, path); len(lines) != 1 {
			t.Errorf("%d lines", len(lines))
		}
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyFilesAndDevicesAreWritten(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir()} {
		log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
		if err := log.Check(t.Context(), ada); err == nil || !strings.Contains(err.Error(), "not a file") && !strings.Contains(err.Error(), "is a directory") {
			t.Errorf("%s: %v", path, err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestALineThatWasCutOffStaysAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"time":"20`), 0o600); err != nil {
		t.Fatal(err)
	}
	log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
	if err := errors.Join(log.Check(t.Context(), ada), log.Check(t.Context(), ada), log.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if lines := strings.Split(string(b), "\n"); err != nil || len(lines) != 4 || lines[0] != `{"time":"20` || !json.Valid([]byte(lines[1])) {
		t.Errorf("%q %v", lines, err)
	}
}

func TestAFileThatOthersWriteIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o620)); err != nil {
		t.Fatal(err)
	}
	log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
	if err := log.Check(t.Context(), ada); err == nil || !strings.Contains(err.Error(), "other accounts can write to it") {
		t.Error(err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFileBehindALinkRotatesWhereItIs(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	if err := errors.Join(os.Mkdir(disk, 0o700), os.Symlink(filepath.Join(disk, "a.jsonl"), filepath.Join(dir, "audit.jsonl"))); err != nil {
		t.Fatal(err)
	}
	log := audit.New(audit.Options{Sink: &audit.File{Path: filepath.Join(dir, "audit.jsonl"), Size: 300, Keep: 2}}, quiet())
	for range 10 {
		if err := log.Check(t.Context(), ada); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := os.ReadDir(disk); err != nil || len(found) != 3 {
		t.Errorf("%v %v", found, err)
	}
}

func TestARightIsTakenAwayAlsoWithAFullDisk(t *testing.T) {
	log := audit.New(audit.Options{Sink: &audit.File{Path: "/dev/full"}, Required: true}, quiet())
	did := false
	err := log.Do(t.Context(), ada, audit.Act{Action: audit.TokenRevoke, Anyway: true}, func(*audit.Doing) error { did = true; return nil })
	if err != nil || !did {
		t.Errorf("done %v: %v", did, err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoLineHasAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := audit.New(audit.Options{Sink: &audit.File{Path: path}}, quiet())
	const token = "krs_t3Gs2mvoL8bgVEkUVxQJJYLdr3kVR68NmvqS3mhAAKH1s4gHE"
	_ = log.Do(t.Context(), ada, audit.Act{Action: audit.ProtocolRestore, Object: token, Details: map[string]string{"a": "x " + token}}, did)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(linesOf(t, path)); strings.Contains(text, token[:20]) {
		t.Error(text)
	}
}
