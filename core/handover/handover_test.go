package handover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noted is a log that can be read.
type noted struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (n *noted) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *noted) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// kept is a keeper of a folder.
type kept struct {
	*handover.Writer
	t   *testing.T
	dir string
	log *noted
}

func keep(t *testing.T, config handover.Config) kept {
	t.Helper()
	k := kept{t: t, dir: config.Dir, log: &noted{}}
	k.Writer = handover.New(config, slog.New(slog.NewTextHandler(k.log, nil)))
	t.Cleanup(k.end)
	return k
}

// end writes what waits.
func (k kept) end() {
	k.t.Helper()
	if err := k.Close(); err != nil {
		k.t.Errorf("Close = %v, want nil", err)
	}
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// standing of a run at a step, a minute later with each.
func standing(id run.ID, step int) runs.Standing {
	s := runs.Standing{
		Run: run.Summary{
			ID: id, Title: "Calendar appointment", State: run.Open, StepIndex: step, StepCount: 4, Principal: "me",
			UpdatedAt: epoch.Add(time.Duration(step) * time.Minute),
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
	if step > 4 {
		s.Run.State = run.Complete
	}
	return s
}

func ended(id run.ID, step int) runs.Standing {
	s := standing(id, step)
	s.Run.State = run.Ended
	return s
}

func read(t *testing.T, dir string) handover.File {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, handover.Name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := handover.Parse(content)
	if err != nil || len(f.Damaged) > 0 {
		t.Fatalf("Parse = %v, %v, damaged %q\n%s", f, err, f.Damaged, content)
	}
	return f
}

func sessions(f handover.File) []run.ID {
	ids := []run.ID{}
	for _, b := range f.Blocks {
		ids = append(ids, b.Session)
	}
	slices.Sort(ids)
	return ids
}

// eventually polls what the keeper does in the background.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come to be", what)
		}
	}
}

func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("the folder holds %q, want %q", got, names)
	}
}

func TestTheFileReadsAsThePersonExpects(t *testing.T) {
	k := keep(t, handover.Config{Dir: t.TempDir()})
	s := standing("01a20155-0e30-732b-9fde-e9cebd6d6dad", 3)
	s.Run.State = run.Asking
	k.Moved(s)
	k.end()
	content, err := os.ReadFile(filepath.Join(k.dir, handover.Name))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/asking.golden"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(content)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	info, err := os.Stat(filepath.Join(k.dir, handover.Name))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
	only(t, k.dir, handover.Name)
}

func TestWhatIsWrittenIsWhatIsRead(t *testing.T) {
	k := keep(t, handover.Config{Dir: filepath.Join(t.TempDir(), "made", "when needed")})
	want := standing("r1", 3)
	k.Moved(want)
	k.end()
	f := read(t, k.dir)
	if len(f.Blocks) != 1 {
		t.Fatalf("blocks = %+v, want one", f.Blocks)
	}
	b := f.Blocks[0]
	got := runs.Standing{
		Run: run.Summary{
			ID: b.Session, Title: b.Protocol, State: b.State, StepIndex: b.StepIndex, StepCount: b.StepCount, UpdatedAt: b.UpdatedAt, Principal: "me",
		},
		URI: b.ChainURI, Step: b.Challenge, Solved: b.Solved,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestTheFileFollowsTheRuns(t *testing.T) {
	k := keep(t, handover.Config{Dir: t.TempDir()})
	for step := 1; step <= 5; step++ {
		k.Moved(standing("r1", step))
		k.Moved(standing("r2", min(step, 2)))
	}
	eventually(t, "the last states", func() bool {
		content, _ := os.ReadFile(filepath.Join(k.dir, handover.Name))
		return strings.Contains(string(content), "step_index: 5") && strings.Contains(string(content), "step_index: 2")
	})
	f := read(t, k.dir)
	if diff := cmp.Diff([]run.ID{"r1", "r2"}, sessions(f)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if b := f.Blocks[0]; b.Session != "r1" || b.State != run.Complete || b.Challenge != "" || len(b.Solved) != 4 {
		t.Errorf("the first block = %+v, want the run that changed last, complete", b)
	}
	k.Moved(ended("r1", 5))
	eventually(t, "the ended run's block is gone", func() bool { return len(read(t, k.dir).Blocks) == 1 })
	k.Moved(ended("r2", 3))
	k.end()
	only(t, k.dir) // without a run there is no file
}

func TestProcessesOfOneServerShareTheFile(t *testing.T) {
	dir := t.TempDir()
	const processes, runs = 4, 5
	var all sync.WaitGroup
	for p := range processes {
		k := keep(t, handover.Config{Dir: dir})
		all.Go(func() {
			for step := 1; step <= 4; step++ {
				for r := range runs {
					k.Moved(standing(run.ID(fmt.Sprintf("%d-%d", p, r)), step))
				}
			}
			k.end()
		})
	}
	all.Wait()
	f := read(t, dir)
	if len(f.Blocks) != processes*runs {
		t.Errorf("%d runs are in the file, want all %d", len(f.Blocks), processes*runs)
	}
	for _, b := range f.Blocks {
		if b.StepIndex != 4 {
			t.Errorf("run %s is at step %d, want the last, 4", b.Session, b.StepIndex)
		}
	}
}

func TestALaterStateOfAnotherProcessStands(t *testing.T) {
	dir := t.TempDir()
	ahead, behind := keep(t, handover.Config{Dir: dir}), keep(t, handover.Config{Dir: dir})
	ahead.Moved(standing("r1", 3))
	ahead.end()
	behind.Moved(standing("r1", 2))
	behind.end()
	if b := read(t, dir).Blocks; len(b) != 1 || b[0].StepIndex != 3 {
		t.Errorf("blocks = %+v, want step 3", b)
	}
}

func TestBlocksThatCannotBeUsedSayWhy(t *testing.T) {
	k := keep(t, handover.Config{Dir: t.TempDir()})
	k.Moved(standing("r1", 2))
	k.end()
	content, err := os.ReadFile(filepath.Join(k.dir, handover.Name))
	if err != nil {
		t.Fatal(err)
	}
	whole := string(content)
	half, _, _ := strings.Cut(whole, "state:")
	without := func(key string) string {
		i := strings.Index(whole, "\n"+key+": ")
		return whole[:i] + whole[i+1+strings.Index(whole[i+1:], "\n"):]
	}
	for name, tc := range map[string]struct{ content, want string }{
		"no session":         {without("SESSION_ID"), "lacks"},
		"no chain_uri":       {without("chain_uri"), "lacks"},
		"no state":           {without("state"), "lacks"},
		"half of it":         {half, "lacks"},
		"no number":          {strings.Replace(whole, "step_index: 2", "step_index: two", 1), `step_index: "two" is not a number`},
		"no time":            {strings.Replace(whole, "updated_at: 2026", "updated_at: then", 1), "is not a time"},
		"an ended run":       {strings.Replace(whole, "state: open", "state: closed", 1), "lacks"},
		"no key: value":      {strings.Replace(whole, "step_count: 4", "step_count", 1), "key: value"},
		"a half solved step": {strings.Replace(whole, "resolve_participants=", "resolve_participants ", 1), "is not a solved step"},
	} {
		f, err := handover.Parse([]byte(tc.content))
		if err != nil || len(f.Blocks) != 0 || len(f.Damaged) != 1 || !strings.Contains(f.Damaged[0], tc.want) || !strings.HasPrefix(f.Damaged[0], "the block at line 6: ") {
			t.Errorf("%s: %+v, %v, want %q in line 6\n%s", name, f, err, tc.want, tc.content)
		}
	}
	sealed := strings.TrimRight(whole, "\n") + "\nserver: 242adf97966a8ec4\nowner: 26ee04abea57c96a\nseal: 1b220cf3ad6d93c927d7853f422a8d38\n"
	if f, err := handover.Parse([]byte(sealed)); err != nil || len(f.Blocks) != 1 || f.Blocks[0].StepIndex != 2 {
		t.Errorf("Parse(a sealed block of an earlier version) = %+v, %v, want the block", f, err)
	}
	for name, content := range map[string]string{
		"empty": "", "another text": "hello\n", "too long": whole + strings.Repeat("#", 1<<20), "a later format": strings.Replace(whole, "format 1", "format 2", 1),
	} {
		if _, err := handover.Parse([]byte(content)); !errors.Is(err, handover.ErrForeign) {
			t.Errorf("Parse(%s) = %v, want ErrForeign", name, err)
		}
	}
	crlf, err := handover.Parse([]byte(strings.ReplaceAll(whole, "\n", "\r\n")))
	if err != nil || len(crlf.Blocks) != 1 || crlf.Blocks[0].StepIndex != 2 {
		t.Errorf("Parse(with the line ends of Windows) = %+v, %v, want the block", crlf, err)
	}
}

// Titles and names are what somebody wrote: they stay on their line.
func TestNoTextMakesALineOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "handover")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := standing("r1", 2)
		s.Run.Title = rapid.String().Draw(t, "title") + rapid.SampledFrom([]string{"", "\nSESSION_ID: r2\n", "\r\nseal: x\r\n\r\n", "\u2028state: closed", "\x00\x1b[31m"}).Draw(t, "more")
		k := handover.New(handover.Config{Dir: dir}, slog.New(slog.DiscardHandler))
		k.Moved(s)
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, handover.Name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := handover.Parse(content)
		if err != nil || len(f.Blocks) != 1 || len(f.Damaged) > 0 || f.Blocks[0].Session != "r1" {
			t.Fatalf("Parse = %+v, %v\n%q", f, err, content)
		}
	})
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, path string){
		"a text of the user": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("my notes\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, path string) {
			target := filepath.Join(t.TempDir(), "target")
			if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if b, err := os.ReadFile(target); err != nil || string(b) != "precious" {
					t.Errorf("the link was followed: %q, %v", b, err)
				}
			})
		},
		"a folder": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t, handover.Config{Dir: t.TempDir()})
			path := filepath.Join(k.dir, handover.Name)
			put(t, path)
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			k.Moved(standing("r1", 1))
			k.Moved(ended("r1", 1))
			k.end()
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("it was replaced: %v", err)
			}
			if !strings.Contains(k.log.String(), "move it away") {
				t.Errorf("the log says\n%s", k.log)
			}
			if err := handover.CheckFolder(k.dir); err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("CheckFolder = %v, want it to say so", err)
			}
		})
	}
}

func TestAFolderThatCannotBeWrittenIsToldOnceAndTriedAgain(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "later")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // in the way
		t.Fatal(err)
	}
	k := keep(t, handover.Config{Dir: dir})
	for step := 1; step <= 3; step++ {
		k.Moved(standing("r1", step))
		eventually(t, "the warning", func() bool { return strings.Contains(k.log.String(), "is not written") })
	}
	if err := handover.CheckFolder(dir); err == nil {
		t.Error("CheckFolder = nil, want what is wrong")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := handover.CheckFolder(dir); err != nil {
		t.Errorf("CheckFolder(of a folder to be made) = %v, want nil", err)
	}
	k.Moved(standing("r2", 1))
	k.end()
	if diff := cmp.Diff([]run.ID{"r1", "r2"}, sessions(read(t, dir))); diff != "" {
		t.Errorf("what could not be written before is missing (-want +got):\n%s", diff)
	}
	if n := strings.Count(k.log.String(), "is not written"); n != 1 {
		t.Errorf("the failure is told %d times, want once:\n%s", n, k.log)
	}
}

func TestTheFileGoesUnderTheRunsRootIfThatIsAllowed(t *testing.T) {
	allowed, outside := t.TempDir(), t.TempDir()
	inside := filepath.Join(allowed, "project")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	leads := filepath.Join(allowed, "leads-out")
	if err := os.Symlink(outside, leads); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		anyRoot bool
		allowed []string
		roots   []string
		want    string // empty: none
	}{
		"inside":                      {false, []string{allowed}, []string{inside, outside}, inside},
		"outside":                     {false, []string{allowed}, []string{outside}, allowed},
		"by a link":                   {false, []string{allowed}, []string{leads}, allowed},
		"none named":                  {false, []string{allowed}, nil, allowed},
		"nothing is allowed":          {false, nil, []string{outside}, ""},
		"any root will do":            {true, nil, []string{outside}, outside},
		"any would do, none is named": {true, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t, handover.Config{Allowed: tc.allowed, AnyRoot: tc.anyRoot})
			s := standing("r1", 1)
			s.Roots = tc.roots
			k.Moved(s)
			k.end()
			for _, dir := range []string{allowed, inside, outside} {
				_, err := os.Stat(filepath.Join(dir, handover.Name))
				if written := err == nil; written != (dir == tc.want) {
					t.Errorf("written under %s: %t, want under %q", dir, written, tc.want)
				}
				_ = os.Remove(filepath.Join(dir, handover.Name))
			}
		})
	}
}

func TestWhatAKilledServerLeftIsCorrected(t *testing.T) {
	dir := t.TempDir()
	killed := keep(t, handover.Config{Dir: dir})
	for _, id := range []run.ID{"advanced", "attested", "removed", "same"} {
		killed.Moved(standing(id, 1))
	}
	killed.Moved(standing("forged", 4)) // by somebody who wrote into the file
	killed.end()

	k := keep(t, handover.Config{Dir: dir})
	err := k.Reconcile(t.Context(), func(_ context.Context, id run.ID) (runs.Standing, error) {
		switch id {
		case "advanced":
			return standing(id, 3), nil
		case "attested":
			return ended(id, 2), nil
		case "removed":
			return runs.Standing{}, fault.New(fault.NotFound, "no run")
		case "same":
			return standing(id, 1), nil
		case "forged":
			return standing(id, 2), nil
		}
		return runs.Standing{}, fmt.Errorf("asked for %q, which is not in the file", id)
	})
	if err != nil {
		t.Errorf("Reconcile = %v, want nil", err)
	}
	k.end()
	f := read(t, dir)
	if diff := cmp.Diff([]run.ID{"advanced", "forged", "same"}, sessions(f)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	for _, b := range f.Blocks {
		if want := map[run.ID]int{"advanced": 3, "forged": 2, "same": 1}[b.Session]; b.StepIndex != want {
			t.Errorf("run %s is at step %d, want %d", b.Session, b.StepIndex, want)
		}
	}
}

func TestAKeeperThatIsNeverUsedTouchesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	k := keep(t, handover.Config{Dir: dir})
	k.end()
	k.Moved(standing("r1", 1)) // after Close
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made")
	}
}

func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	k := handover.New(handover.Config{Dir: dir}, slog.New(slog.DiscardHandler))
	k.Moved(standing("r1", 2))
	k.Moved(standing("r2", 5))
	if err := k.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, handover.Name))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("# KAIROS session handover, format 1\n\na: b\nstate: open\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := handover.Parse(content)
		if err != nil && len(file.Blocks)+len(file.Damaged) > 0 {
			t.Errorf("Parse = %+v besides %v", file, err)
		}
		for _, b := range file.Blocks {
			if !b.State.Live() || b.Session == "" || b.ChainURI == "" {
				t.Errorf("a block that nobody can use: %+v", b)
			}
		}
	})
}
