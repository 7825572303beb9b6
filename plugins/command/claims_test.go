package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// another is a driver of a second server that uses the same database.
func (w *world) another(settings string) *world {
	other := &world{t: w.t, dir: w.dir, c: definition().Capability.(*command)}
	other.configure(settings)
	return other
}

func TestAnotherServerDoesNotRunWhatOneStillRuns(t *testing.T) {
	w := newWorld(t, `{"repeatable":true}`)
	b := w.another(`{"repeatable":true}`)
	again := w.begun("begun-7", "until [ -e on ]; do sleep 0.02; done")
	req := again
	req.Recover = false
	if res := b.render(again); res.Pending == nil || !has(res.Pending.Reason, "another server runs") {
		t.Errorf("while it runs: %s", said(res))
	}
	if res := b.render(req); res.Unavailable == nil {
		t.Errorf("the same call: %s", said(res))
	}
	w.resume("on")
	w.report(w.end(again))
	if res := b.render(again); res.Pending == nil || !has(res.Pending.Reason, "recording") {
		t.Errorf("after its end: %s", said(res))
	}
	dir, err := claims()
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * recordTime)
	if err := os.Chtimes(claimOf(dir, req.IdempotencyKey), old, old); err != nil {
		t.Fatal(err)
	}
	if res := b.render(again); res.Unknown == nil || !has(res.Unknown.Reason, "was not recorded") {
		t.Errorf("long after its end: %s", said(res))
	}
}

// Another process claims a key, as a driver does, and is killed.
func TestWhatADeadDriverRanIsRepeatedIfTheOperatorSaysSo(t *testing.T) {
	if key := os.Getenv("KAIROS_TEST_CLAIM"); key != "" {
		if _, err := claimKey(key); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("claimed\n")
		time.Sleep(time.Hour)
	}
	w := newWorld(t, "")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "KAIROS_TEST_CLAIM="+t.Name(), "KAIROS_TEST_TMP="+os.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := out.Read(b); err != nil || !strings.Contains(string(b[:n]), "claimed") {
		t.Fatalf("%q, %v", b[:n], err)
	}
	req := w.request("true", w.plan("true"))
	req.IdempotencyKey, req.Recover = t.Name(), true
	if res := w.render(req); res.Pending == nil {
		t.Errorf("while it lives: %s", said(res))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if res := w.render(req); res.Unknown == nil || !has(res.Unknown.Reason, "nobody saw how far it came") {
		t.Errorf("not repeatable: %s", said(res))
	}
	w.configure(`{"repeatable":true}`)
	if res := w.render(req); res.NotDone == nil {
		t.Errorf("repeatable: %s", said(res))
	}
}

func TestAFolderOfOthersKeepsNoClaims(t *testing.T) {
	dir, err := claims()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // on purpose
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // a folder
	if _, err := claimKey("x"); err == nil || !has(err.Error(), "TMPDIR") {
		t.Errorf("claimKey = %v", err)
	}
	w := newWorld(t, "")
	if res := w.render(w.request("true", w.plan("true"))); res.Unavailable == nil {
		t.Errorf("Render = %s", said(res))
	}
}
