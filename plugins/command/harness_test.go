package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/plugins/command/sandbox"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// TestMain gives the tests a folder for temporary files of their own: other packages
// are tested at the same time, and commands that they run are not left by these.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kairos-tests-")
	if shared := os.Getenv("KAIROS_TEST_TMP"); shared != "" { // of the test that started this process
		dir = shared
	}
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o711), os.Setenv("TMPDIR", dir)) //nolint:gosec // the account of commands passes through
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // temporary in any case
		os.Exit(code)
	}))
}

// world is a workspace and the driver that runs commands on copies of it.
type world struct {
	t    *testing.T
	dir  string
	c    *command
	next int
}

func newWorld(t *testing.T, settings string) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "project"), c: definition().Capability.(*command)}
	w.write("main.txt", "one\n")
	w.write("tests/check.sh", "grep -q one main.txt\n")
	w.configure(settings)
	w.needsSandbox()
	return w
}

// works is why commands cannot be run here, or nil.
var works = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "copy")
	if err = errors.Join(err, sandbox.Sandbox{}.Hand(dir)); err == nil {
		_, err = sandbox.Sandbox{}.Run(context.Background(), sandbox.Command{Line: "true", Files: dir, Workspace: "/srv/project"})
	}
	return err
})

// needsSandbox says loudly why nothing can be tested.
func (w *world) needsSandbox() {
	w.t.Helper()
	switch err := works(); {
	case err == nil:
	case os.Getenv("CI") != "":
		w.t.Fatalf("THE SANDBOX DOES NOT WORK HERE, and CI has to test it: %v", err)
	default:
		w.t.Skipf("THE DRIVER IS NOT TESTED, because its sandbox does not work on this machine: %v", err)
	}
}

func (w *world) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil { //nolint:gosec // a workspace
		w.t.Fatal(err)
	}
}

// configure sets the settings besides the workspace.
func (w *world) configure(settings string) {
	w.t.Helper()
	all := map[string]any{"workspace": w.dir}
	if settings != "" {
		if err := json.Unmarshal([]byte(settings), &all); err != nil {
			w.t.Fatal(err)
		}
	}
	b, _ := json.Marshal(all)
	if found, err := w.c.Configure(w.t.Context(), b, false); err != nil || found != nil {
		w.t.Fatalf("Configure = %v, %v", found, err)
	}
}

func shell(line string) driver.Input {
	display, _ := json.Marshal(map[string]any{"cmd": line, "timeout_seconds": 30})
	return driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: challengeType, Display: display}
}

func (w *world) plan(line string) driver.Plan {
	w.t.Helper()
	res, err := w.c.Preview(w.t.Context(), driver.PreviewRequest{Input: shell(line)})
	if err != nil || res.Plan == nil {
		w.t.Fatalf("Preview = %+v, %v", res, err)
	}
	return *res.Plan
}

// request is a call with a key of its own.
func (w *world) request(line string, p driver.Plan) driver.RenderRequest {
	w.next++
	return driver.RenderRequest{Input: shell(line), Plan: p.Data, IdempotencyKey: fmt.Sprint(w.t.Name(), w.next), Attempt: 1}
}

func (w *world) render(req driver.RenderRequest) driver.RenderResult {
	w.t.Helper()
	return w.renderWithin(w.t.Context(), req)
}

func (w *world) renderWithin(ctx context.Context, req driver.RenderRequest) driver.RenderResult {
	w.t.Helper()
	res, err := w.c.Render(ctx, req)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// begun begins a command that makes a file of this name first, and returns how to ask
// what becomes of it.
func (w *world) begun(name, then string) driver.RenderRequest {
	w.t.Helper()
	line := "touch " + name + "; " + then
	req := w.request(line, w.plan(line))
	w.glance(req)
	started(w.t, name)
	req.Recover = true
	return req
}

// glance asks without the patience that a director has, and while the command runs.
func (w *world) glance(req driver.RenderRequest) driver.RenderResult {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 50*time.Millisecond)
	defer cancel()
	res := w.renderWithin(ctx, req)
	if res.Pending == nil {
		w.t.Fatalf("Render = %s, want pending", said(res))
	}
	return res
}

// end asks until the command has ended.
func (w *world) end(req driver.RenderRequest) driver.RenderResult {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if res := w.render(req); res.Pending == nil {
			return res
		}
	}
	w.t.Fatal("the command does not end")
	return driver.RenderResult{}
}

// resume makes a file of the copy that a command waits for.
func (w *world) resume(name string) {
	w.t.Helper()
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), "kairos-command-*", "workspace"))
	if err := os.WriteFile(filepath.Join(found[0], name), nil, 0o644); err != nil { //nolint:gosec // a test
		w.t.Fatal(err)
	}
}

// commit makes the workspace a git work tree.
func (w *world) commit() {
	w.t.Helper()
	for _, line := range []string{"init -q -b main", "add -A", "-c user.name=n -c user.email=n@example.com commit -q -m first"} {
		git(w.t, w.dir, strings.Fields(line)...)
	}
}

// run plans a line and runs it to its end.
func (w *world) run(line string) report {
	w.t.Helper()
	req := w.request(line, w.plan(line))
	if res := w.render(req); res.Pending == nil {
		return w.report(res)
	}
	req.Recover = true
	return w.report(w.end(req))
}

func (w *world) report(res driver.RenderResult) (r report) {
	w.t.Helper()
	if res.Answer == nil || res.Answer.Provenance != driver.ServerObserved {
		b, _ := json.Marshal(res)
		w.t.Fatalf("Render = %s", b)
	}
	if err := json.Unmarshal(res.Answer.Value, &r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// started waits until a command has made a file of its copy.
func started(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if found, _ := filepath.Glob(filepath.Join(os.TempDir(), "kairos-command-*", "workspace", name)); found != nil {
			return
		}
	}
	t.Fatalf("no command made %s", name)
}

func said(res driver.RenderResult) string {
	b, _ := json.Marshal(res)
	return string(b)
}

func has(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
