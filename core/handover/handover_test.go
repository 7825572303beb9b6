package handover_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standing of a run that is asking at a step.
func standing(id run.ID, step int) runs.Standing {
	s := runs.Standing{
		Run: run.Summary{
			ID: id, Title: "Calendar\nSESSION_ID: appointment", State: run.Asking, StepIndex: step, StepCount: 4,
			UpdatedAt: time.Date(2026, 3, 1, 12, step, 0, 123456789, time.UTC),
		},
		URI: "kairos://mem/11111111-1111-4111-8111-111111111111",
	}
	for i, name := range []string{"resolve_participants", "confirm_duration", "find_slot", "create_event"} {
		switch {
		case i+1 < step:
			s.Solved = append(s.Solved, runs.SolvedName{Name: name, Provenance: driver.ModelGenerated})
		case i+1 == step:
			s.Step = name
		}
	}
	return s
}

func ended(id run.ID) runs.Standing {
	s := standing(id, 5)
	s.Run.State = run.Closed
	return s
}

// moved writes the standings, one after the other, and returns the log.
func moved(t *testing.T, dir string, list ...runs.Standing) string {
	t.Helper()
	var log strings.Builder
	w := handover.New(dir, slog.New(slog.NewTextHandler(&log, nil)))
	for _, s := range list {
		w.Moved(s)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	w.Moved(standing("late", 1)) // is ignored
	return log.String()
}

// content of the file; empty if there is none.
func content(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, handover.Name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheFileReadsAsThePersonExpects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	moved(t, dir, standing("01a20155-0e30-732b-9fde-e9cebd6d6dad", 3))
	got := content(t, dir)
	const golden = "testdata/asking.golden"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the folder holds %v, %v, want the file alone", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
}

func TestTheFileNamesTheRunThatAdvancedLast(t *testing.T) {
	for name, tc := range map[string]struct {
		moves []runs.Standing
		want  handover.Pointer // zero: there is no file
	}{
		"a run advances":              {[]runs.Standing{standing("a", 1), standing("a", 2)}, handover.Pointer{Session: "a", StepIndex: 2}},
		"another one advances":        {[]runs.Standing{standing("a", 3), standing("b", 1)}, handover.Pointer{Session: "b", StepIndex: 1}},
		"it ends":                     {[]runs.Standing{standing("a", 1), standing("b", 4), ended("b")}, handover.Pointer{}},
		"another one ends":            {[]runs.Standing{standing("a", 1), standing("b", 4), ended("a")}, handover.Pointer{Session: "b", StepIndex: 4}},
		"one ends, another advances":  {[]runs.Standing{ended("a"), standing("b", 1), ended("a"), ended("c")}, handover.Pointer{Session: "b", StepIndex: 1}},
		"a run ends that nobody knew": {[]runs.Standing{ended("a")}, handover.Pointer{}},
	} {
		for how, each := range map[string]bool{"at once": false, "one after the other": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				dir := t.TempDir()
				if each {
					for _, s := range tc.moves {
						moved(t, dir, s) // as a process that was started again
					}
				} else {
					moved(t, dir, tc.moves...)
				}
				text := content(t, dir)
				if (text == "") != (tc.want == handover.Pointer{}) {
					t.Fatalf("the file is %q, want %+v", text, tc.want)
				}
				if text == "" {
					return
				}
				if got, err := handover.Parse([]byte(text)); err != nil || got != tc.want {
					t.Errorf("Parse = %+v, %v, want %+v", got, err, tc.want)
				}
			})
		}
	}
}

func TestAWriterThatIsNeverUsedTouchesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	moved(t, dir)
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was created")
	}
}

// A file that KAIROS did not write is neither replaced nor removed; the log and the
// doctor say so.
func TestForeignFilesStay(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"another text": func(path string) error { return os.WriteFile(path, []byte("my notes"), 0o600) },
		"a folder":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":       func(path string) error { return os.Symlink("/etc/hosts", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, handover.Name)
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if log := moved(t, dir, standing("a", 1), ended("a")); !strings.Contains(log, "move it away") {
				t.Errorf("the log is %q, want what to do", log)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || after.Size() != before.Size() {
				t.Errorf("afterwards it is %v, %v, want what was there", after, err)
			}
			if err := handover.Check(dir); err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("Check = %v, want what to do", err)
			}
		})
	}
}

func TestCheckAcceptsFoldersThatCanHoldTheFile(t *testing.T) {
	dir := t.TempDir()
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, handover.Name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	moved(t, dir, standing("a", 1))
	for name, path := range map[string]string{"with a file": dir, "with an emptied file": empty, "to be created": filepath.Join(dir, "new")} {
		if err := handover.Check(path); err != nil {
			t.Errorf("%s: Check = %v, want nil", name, err)
		}
	}
	if err := handover.Check(filepath.Join(dir, handover.Name)); err == nil {
		t.Error("Check accepts a file as the folder")
	}
}

func FuzzParse(f *testing.F) {
	const header = "# KAIROS session handover, format 1\n"
	f.Add([]byte(header + "\nSESSION_ID: a\nstep_index: 2\n"))
	f.Add([]byte(header + "SESSION_ID: a\r\nstep_index: two"))
	f.Add([]byte(header + "step_index: 1"))
	f.Add([]byte("SESSION_ID: a"))
	f.Add([]byte(strings.Repeat(header, 1<<15)))
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := handover.Parse(content)
		if usable := p.Session != "" && p.StepIndex > 0 && !strings.ContainsAny(string(p.Session), "\n\r\x1b"); usable != (err == nil) {
			t.Errorf("Parse = %+v, %v", p, err)
		}
		if errors.Is(err, handover.ErrForeign) && strings.HasPrefix(string(content), header) && len(content) < 1<<20 {
			t.Errorf("Parse = %v for a file of ours", err)
		}
	})
}
