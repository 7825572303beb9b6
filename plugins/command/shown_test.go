package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

// settle waits until the files are old enough for their times to say something.
func settle(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s, err := workspace.Take(t.Context(), dir, workspace.Options{})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("Take = %v, and the files do not settle", err)
		}
		if s.Fresh() {
			return
		}
	}
}

func TestManyPreviewsTakeOneSnapshot(t *testing.T) {
	w := newWorld(t, "")
	w.commit()
	settle(t, w.dir)
	w.plan("true")
	log := filepath.Join(t.TempDir(), "log")
	script := fmt.Sprintf("#!/bin/sh\necho >>%s\nPATH=/usr/bin:/bin exec git \"$@\"\n", log)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for i := range 20 {
		if p := w.plan(fmt.Sprint("true ", i)); !has(string(p.Data), `"snapshot"`) {
			t.Errorf("plan = %s", p.Data)
		}
	}
	if calls, err := os.ReadFile(log); err == nil {
		t.Errorf("git was started %d times for what was seen already", len(calls))
	}
	for name, change := range map[string]func(){
		"a file":     func() { w.write("main.txt", "two\n") },
		"a new file": func() { w.write("tests/new", "") },
		"a tag":      func() { git(t, w.dir, "tag", "v1") },
		"a mode":     func() { _ = os.Chmod(filepath.Join(w.dir, "main.txt"), 0o755) }, //nolint:gosec // a test
	} {
		settle(t, w.dir)
		before := w.plan("true")
		change()
		if after := w.plan("true"); string(after.Data) == string(before.Data) {
			t.Errorf("%s: the plan is the same", name)
		}
	}
	settle(t, w.dir)
	w.plan("true")
	w.run("true")
	if w.c.shown.at != (time.Time{}) {
		t.Error("the snapshot was kept beyond a command")
	}
}

func TestASnapshotOfFilesThatAreBeingWrittenIsNotFresh(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := workspace.Take(t.Context(), dir, workspace.Options{})
	if err != nil || s.Fresh() {
		t.Errorf("Fresh right after a change = %v, %v", s.Fresh(), err)
	}
	settle(t, dir)
}
