package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestACommandRunsOnACopyOfTheWorkspace(t *testing.T) {
	t.Setenv("SECRET", "of the driver")
	t.Setenv("GIVEN", "by the operator")
	w := newWorld(t, `{"env":["GIVEN"]}`)
	r := w.run(`sh tests/check.sh && echo two > main.txt && pwd && echo "$GIVEN$SECRET"; cat main.txt; exit 3`)
	if want := w.dir + "\nby the operator\ntwo\n"; r.ExitCode != 3 || r.Stdout != want || r.Stderr != "" {
		t.Errorf("report = %+v, want code 3 and %q", r, want)
	}
	o := r.Observed
	if o.Network != "none" || o.Stdout.Bytes != int64(len(r.Stdout)) || !strings.HasPrefix(o.Snapshot, "sha256:") || !has(o.Command, "check.sh") || o.Env[0] != "GIVEN" {
		t.Errorf("observed = %+v", o)
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "main.txt")); err != nil || string(b) != "one\n" {
		t.Errorf("the workspace has %q, %v: nothing was to be written back", b, err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "kairos-command-*")); left != nil {
		t.Errorf("it left %q", left)
	}
}

func TestThePlanSaysWhatIsRun(t *testing.T) {
	w := newWorld(t, `{"env":["TOKEN"],"network":"host","writes":true}`)
	p := w.plan("make test\n  network: none")
	if p.Effect != driver.EffectChanges || !has(p.Text, "copy of "+w.dir, "2 files", "network: the machine's", "environment: TOKEN", "written back", `command: "make test\n  network: none"`) {
		t.Errorf("plan = %+v", p)
	}
	if again := w.plan("make test\n  network: none"); string(again.Data) != string(p.Data) {
		t.Errorf("two previews differ: %s and %s", again.Data, p.Data)
	}
	w.write("main.txt", "changed")
	if again := w.plan("make test\n  network: none"); string(again.Data) == string(p.Data) {
		t.Error("the plan says nothing of the workspace")
	}
}

func TestOnlyWhatWasPlannedIsRun(t *testing.T) {
	for name, change := range map[string]func(*world, *driver.RenderRequest){
		"the workspace": func(w *world, _ *driver.RenderRequest) { w.write("main.txt", "two\n") },
		"a new file":    func(w *world, _ *driver.RenderRequest) { w.write("new.txt", "two\n") },
		"a link": func(w *world, _ *driver.RenderRequest) {
			_ = os.Remove(filepath.Join(w.dir, "main.txt"))
			_ = os.Symlink("/etc/passwd", filepath.Join(w.dir, "main.txt"))
		},
		"the command": func(_ *world, req *driver.RenderRequest) { req.Input = shell("touch ran; false") },
		"the network": func(w *world, _ *driver.RenderRequest) { w.configure(`{"network":"host"}`) },
		"the plan": func(_ *world, req *driver.RenderRequest) {
			req.Plan = json.RawMessage(strings.Replace(string(req.Plan), "true", "false", 1))
		},
		"no plan": func(_ *world, req *driver.RenderRequest) { req.Plan = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			req := w.request("true", w.plan("true"))
			change(w, &req)
			if res := w.render(req); res.Unavailable == nil || !has(res.Unavailable.Reason, "plan") {
				t.Errorf("Render = %s, want that it is not run", said(res))
			}
		})
	}
}

func TestFilesThatJudgeAreProtected(t *testing.T) {
	w := newWorld(t, "")
	w.commit()
	w.configure(`{"protect":{"ref":"main","paths":["tests/**"]}}`)
	if r := w.run("sh tests/check.sh"); r.ExitCode != 0 {
		t.Errorf("report = %+v", r)
	}
	p := w.plan("sh tests/check.sh")
	w.write("tests/check.sh", "exit 0\n")
	res, err := w.c.Preview(t.Context(), driver.PreviewRequest{Input: shell("sh tests/check.sh")})
	if err != nil || res.Unavailable == nil || !has(res.Unavailable.Reason, "tests/check.sh") {
		t.Errorf("Preview = %+v, %v, want which file differs", res, err)
	}
	if res := w.render(w.request("sh tests/check.sh", p)); res.Unavailable == nil || !has(res.Unavailable.Reason, "tests/check.sh") {
		t.Errorf("Render = %s", said(res))
	}
}

func TestChangesAreWrittenBackIfTheCommandSucceeds(t *testing.T) {
	w := newWorld(t, `{"writes":true}`)
	if r := w.run("echo two > main.txt; echo new > made.txt; exit 1"); r.Observed.Changed != nil {
		t.Errorf("report = %+v", r)
	}
	r := w.run("echo two > main.txt; echo new > made.txt")
	if len(r.Observed.Changed) != 2 {
		t.Errorf("changed = %q", r.Observed.Changed)
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "made.txt")); err != nil || string(b) != "new\n" {
		t.Errorf("made.txt has %q, %v", b, err)
	}
}

func TestALongCommandIsAskedAboutAndCancelled(t *testing.T) {
	w := newWorld(t, "")
	req := w.begun("begun", "sleep 600")
	res := w.glance(req)
	if !has(res.Pending.Reason, "running", "of at most 30s") || *res.Pending.Progress <= 0 {
		t.Fatalf("Render = %s", said(res))
	}
	req.Cancel = true
	if res = w.render(req); res.NotDone == nil || !has(res.NotDone.Reason, "cancelled") {
		t.Errorf("cancelled: %s", said(res))
	}
	req.Cancel = false
	if again := w.render(req); said(again) != said(res) {
		t.Errorf("asked again: %s", said(again))
	}
}

func TestWhatHadTheNetworkMayHaveActed(t *testing.T) {
	w := newWorld(t, `{"network":"host"}`)
	req := w.begun("begun-2", "sleep 600")
	req.Cancel = true
	if res := w.render(req); res.Unknown == nil {
		t.Errorf("cancelled: %s, want that nobody can tell", said(res))
	}
}

func TestACallThatEndedWithItsServerIsNotRepeated(t *testing.T) {
	w := newWorld(t, "")
	req := w.request("true", w.plan("true"))
	req.Recover = true
	if res := w.render(req); res.Unknown == nil {
		t.Errorf("Render = %s", said(res))
	}
	w.configure(`{"repeatable":true}`)
	if res := w.render(req); res.NotDone == nil {
		t.Errorf("Render = %s", said(res))
	}
	req.Recover = false
	if res := w.render(req); res.Unavailable == nil {
		t.Errorf("a call that came late: Render = %s, want unavailable", said(res))
	}
}

func TestACommandThatTakesTooLongFails(t *testing.T) {
	w := newWorld(t, `{"timeout":"1s"}`)
	if r := w.run("sleep 600"); r.ExitCode != exitOfEnded || !has(r.Stderr, "longer than 1s") || r.Observed.Ended == "" {
		t.Errorf("report = %+v", r)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	w := newWorld(t, "")
	cannot := func(in driver.Input, words ...string) {
		t.Helper()
		res, err := w.c.Preview(t.Context(), driver.PreviewRequest{Input: in})
		if err != nil || res.Unavailable == nil || !has(res.Unavailable.Reason, words...) {
			t.Errorf("Preview = %+v, %v, want %q", res, err, words)
		}
	}
	cannot(driver.Input{Kind: driver.KindEvidence, Type: "mcp"}, "shell only")
	cannot(shell(" "), "no command")
	w.configure(`{"workspace":"/no/such/folder"}`)
	cannot(shell("true"), "/no/such/folder", "no such folder")
	w.configure(`{"workspace":""}`)
	cannot(shell("true"), "drivers.settings.command.config.workspace")
}

func TestUnsoundSettingsAreRefused(t *testing.T) {
	c := definition().Capability.(*command)
	for _, settings := range []string{
		`{"workspace":"project"}`, `{"read":["a"]}`, `{"mask":["/a","b"]}`, `{"protect":{"ref":"main"}}`, `{"protect":{"paths":["a"]}}`,
		`{"network":"all"}`, `{"timeout":"0s"}`, `{"memory_mb":1}`, `{"unknown":1}`,
	} {
		if found, err := c.Configure(context.Background(), json.RawMessage(settings), true); err != nil || found == nil {
			t.Errorf("%s was taken: %v", settings, err)
		}
	}
}
