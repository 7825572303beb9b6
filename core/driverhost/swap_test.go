package driverhost_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// folder is a driver folder of the test's own, with copies of the drivers.
func folder(t testing.TB, names ...string) driverhost.Config {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(binaries, "kairos-driver-"+name))
		if err != nil {
			t.Fatal(err)
		}
		install(t, dir, name, b)
	}
	return driverhost.Config{Dir: dir, Lock: described(t, dir)}
}

// install puts a binary in place as an operator would: by a rename.
func install(t testing.TB, dir, name string, content []byte) {
	t.Helper()
	tmp := filepath.Join(dir, ".new")
	if err := os.WriteFile(tmp, content, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, "kairos-driver-"+name)); err != nil {
		t.Fatal(err)
	}
}

func described(t testing.TB, dir string) driverhost.Lock {
	t.Helper()
	l, err := driverhost.DescribeAll(t.Context(), dir, driverhost.Confinement{Level: driverhost.LevelNone})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rebuilt installs a driver that does the same and has other bytes.
func rebuilt(t testing.TB, cfg driverhost.Config, name string) driverhost.Config {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cfg.Dir, "kairos-driver-"+name))
	if err != nil {
		t.Fatal(err)
	}
	install(t, cfg.Dir, name, append(b, "one more byte"...)) // an ELF file does not mind
	cfg.Lock = described(t, cfg.Dir)
	return cfg
}

func (h hosted) swap(t testing.TB, cfg driverhost.Config, again ...string) hosted {
	t.Helper()
	next, err := h.Prepare(t.Context(), h.Set, complete(t, cfg), again...)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	h.Use(next)
	h.Drain(h.Set)
	return hosted{h.Host, next}
}

// switched is the set in use, as a server keeps it.
type switched struct{ atomic.Pointer[driverhost.Set] }

func (s *switched) hold() (challenges, func()) {
	for {
		if set := s.Load(); set.Hold() {
			return set, set.Release
		}
	}
}

// swap prepares alpha anew and switches to it.
func (s *switched) swap(t testing.TB, h *driverhost.Host, cfg driverhost.Config) {
	t.Helper()
	old := s.Load()
	following, err := h.Prepare(t.Context(), old, cfg, "alpha")
	if err != nil {
		t.Fatal(err)
	}
	s.Store(following)
	h.Use(following)
	h.Drain(old)
	h.Forget(old)
}

func TestSwapsUnderLoadLoseNoCall(t *testing.T) {
	swaps := shortened(40, 10)
	cfg := folder(t, "alpha", "beta")
	h := newHost(t, cfg, io.Discard)
	var current switched
	current.Store(h.Set)
	load := startLoad(t, 8, current.hold)
	for i := range swaps {
		if i%10 == 0 {
			cfg = rebuilt(t, cfg, "alpha")
		}
		current.swap(t, h.Host, cfg)
		load.everyCallerAnswered(t)
	}
	if err := load.stop(); err != nil {
		t.Errorf("calls failed: %v", err)
	}
	status, _ := h.StatusOf("alpha")
	if status.Generation != swaps+1 || status.State != driverhost.Ready || status.Crashes != 0 {
		t.Errorf("generation %d, %s, %d crashes after %d swaps", status.Generation, status.State, status.Crashes, swaps)
	}
}

func TestASwapKeepsWhatIsTheSame(t *testing.T) {
	cfg := folder(t, "alpha", "beta", "gamma")
	h := newHost(t, cfg, io.Discard)
	alpha, beta := pidOf(t, h, "alpha"), pidOf(t, h, "beta")

	t.Setenv("KAIROS_TEST_NEWS", "1")
	cfg.Drivers = map[string]driverhost.DriverConfig{"beta": {Config: json.RawMessage(`{"a": 1}`), EnvFrom: []string{"KAIROS_TEST_NEWS"}}}
	old := h
	h = h.swap(t, cfg)
	if got := pidOf(t, h, "alpha"); got != alpha {
		t.Errorf("alpha has process %d, want its %d kept", got, alpha)
	}
	if got := pidOf(t, h, "beta"); got == beta {
		t.Error("beta has its old process, although its configuration is new")
	}
	eventually(t, "beta's old process is gone", func() bool { return gone(beta) })
	want := []driverhost.Change{
		{Driver: "alpha", Kind: "kept"}, {Driver: "beta", Kind: "changed", Why: []string{"configuration", "settings", "environment"}}, {Driver: "gamma", Kind: "kept"},
	}
	if diff := cmp.Diff(want, bare(old.Changes(h.Set))); diff != "" {
		t.Errorf("Changes (-want +got):\n%s", diff)
	}
	if s, _ := h.StatusOf("gamma"); s.State != driverhost.Registered {
		t.Errorf("gamma is %s, although nobody has called it", s.State)
	}
}

// bare leaves the versions out.
func bare(changes []driverhost.Change) []driverhost.Change {
	for i := range changes {
		changes[i].From, changes[i].To = driverhost.Version{}, driverhost.Version{}
	}
	return changes
}

func TestAFailedSwapChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, cfg *driverhost.Config)
		want  string
	}{
		"another binary": {func(t *testing.T, cfg *driverhost.Config) {
			install(t, cfg.Dir, "alpha", []byte("#!/bin/sh\nexit 0\n"))
			cfg.Drivers = configured("alpha", `{"changed": true}`)
		}, "its sha256 is"},
		"a refused configuration": {func(_ *testing.T, cfg *driverhost.Config) {
			cfg.Drivers = configured("alpha", `{"refuse": true}`)
		}, "I do not like it"},
		"a sick driver": {func(_ *testing.T, cfg *driverhost.Config) {
			cfg.Drivers = configured("alpha", `{"sick": true}`)
		}, "I am sick"},
		"a driver that does not start": {func(t *testing.T, cfg *driverhost.Config) {
			t.Setenv("KAIROS_TEST_START", "exit")
			cfg.Drivers = map[string]driverhost.DriverConfig{"alpha": {EnvFrom: []string{"KAIROS_TEST_START"}}}
		}, "my disk is"},
		"an unlocked driver": {func(_ *testing.T, cfg *driverhost.Config) { cfg.Drivers = configured("nobody", `{}`) }, "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := folder(t, "alpha", "beta")
			h := newHost(t, cfg, io.Discard)
			pid, beta := pidOf(t, h, "alpha"), pidOf(t, h, "beta")
			tc.spoil(t, &cfg)
			if _, err := h.Prepare(t.Context(), h.Set, cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("Prepare error = %v, want one with %q", err, tc.want)
			}
			if pidOf(t, h, "alpha") != pid || pidOf(t, h, "beta") != beta {
				t.Error("a driver in use has another process")
			}
			if s, _ := h.StatusOf("alpha"); s.State != driverhost.Ready || s.PID != pid {
				t.Errorf("status: %s, process %d, want ready, %d", s.State, s.PID, pid)
			}
		})
	}
}

func configured(name, config string) map[string]driverhost.DriverConfig {
	return map[string]driverhost.DriverConfig{name: {Config: json.RawMessage(config)}}
}

func TestARetiredSetServesThoseWhoHoldIt(t *testing.T) {
	h := newHost(t, folder(t, "alpha"), io.Discard)
	pid := pidOf(t, h, "alpha")
	if !h.Hold() {
		t.Fatal("a set in use cannot be held")
	}
	old := h.Set
	h = h.swap(t, folder(t, "alpha"))
	if got := pidOf(t, old, "alpha"); got != pid {
		t.Errorf("its holder is served by process %d, want %d", got, pid)
	}
	if old.Hold() {
		t.Error("a retired set can be held")
	}
	old.Release()
	eventually(t, "the old process is gone", func() bool { return gone(pid) })
	if _, err := obey(t.Context(), t, old, "alpha", "pid"); err == nil {
		t.Error("a set that nobody holds still serves")
	}
}

func TestHoldersThatDoNotEndAreNotWaitedForLongerThanTheDrain(t *testing.T) {
	cfg := folder(t, "alpha")
	cfg.Drain = 50 * time.Millisecond
	h := newHost(t, cfg, io.Discard)
	pid := pidOf(t, h, "alpha")
	h.Hold()
	h.swap(t, cfg, "alpha")
	eventually(t, "the old process is gone", func() bool { return gone(pid) })
}

func TestRestoreRunsTheEarlierBinary(t *testing.T) {
	cfg := folder(t, "alpha")
	h := newHost(t, cfg, io.Discard)
	pidOf(t, h, "alpha")
	earlier := h.Set
	_, sum, _ := h.Describe("alpha")
	h = h.swap(t, rebuilt(t, cfg, "alpha"))
	if _, now, _ := h.Describe("alpha"); now == sum {
		t.Fatal("the swap brought the same binary")
	}
	var kept strings.Builder
	if err := earlier.CopyBinary("alpha", &kept); err != nil || kept.Len() == 0 {
		t.Errorf("CopyBinary wrote %d bytes: %v", kept.Len(), err)
	}
	back, err := h.Restore(t.Context(), h.Set, earlier)
	if err != nil {
		t.Fatal(err)
	}
	h.Use(back)
	h.Drain(h.Set)
	if _, now, _ := back.Describe("alpha"); now != sum {
		t.Errorf("restored %s, want %s", now, sum)
	}
	mustObey(t, back, "alpha", "pid")
	h.Forget(earlier)
}

func TestReplacedBinaryDoesNotKeepTheLockedOneFromStarting(t *testing.T) {
	cfg := folder(t, "alpha")
	h := newHost(t, cfg, io.Discard)
	install(t, cfg.Dir, "alpha", []byte("#!/bin/sh\nexit 0\n"))
	mustObey(t, h, "alpha", "pid")
	script, cfg := scripted(t, driverhost.Config{})
	install(t, cfg.Dir, "script", []byte("#!/bin/sh\nexit 7\n"))
	if proof, err := tell(t.Context(), script, "x"); err != nil || proof != "1" {
		t.Errorf("proof %s, %v, want that of the locked script", proof, err)
	}
}

// failing is a host of a driver that ends at its start, until it is told to be well.
func failing(t *testing.T, cool time.Duration) (h hosted, repair func()) {
	t.Helper()
	cfg := folder(t, "alpha")
	cfg.Cool = cool
	script := filepath.Join(t.TempDir(), "mode")
	t.Setenv("KAIROS_TEST_START_FILE", script)
	cfg.Drivers = map[string]driverhost.DriverConfig{"alpha": {EnvFrom: []string{"KAIROS_TEST_START_FILE"}}}
	check(t, os.WriteFile(script, []byte("exit"), 0o600))
	return newHost(t, cfg, io.Discard), func() { check(t, os.WriteFile(script, []byte("well"), 0o600)) }
}

func TestDriverThatKeepsFailingIsLeftAlone(t *testing.T) {
	h, _ := failing(t, time.Hour)
	status := func() driverhost.Status { s, _ := h.StatusOf("alpha"); return s }
	eventually(t, "the breaker opens", func() bool {
		_, _ = obey(t.Context(), t, h, "alpha", "pid")
		return status().Breaker.State == "open"
	})
	if s := status(); s.Starts != 5 || s.State != driverhost.BreakerOpen || !strings.Contains(s.LastError, "my disk is") {
		t.Errorf("after %d starts it is %s, last error %q", s.Starts, s.State, s.LastError)
	}
	if _, err := obey(t.Context(), t, h, "alpha", "pid"); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("error = %v, want one that says that it is left alone", err)
	}
}

func TestDriverThatWasLeftAloneIsTriedOnce(t *testing.T) {
	h, repair := failing(t, time.Millisecond)
	status := func() driverhost.Status { s, _ := h.StatusOf("alpha"); return s }
	starts := func(n int) func() bool {
		return func() bool {
			if _, err := obey(t.Context(), t, h, "alpha", "pid"); err == nil {
				t.Fatal("it started")
			}
			return status().Starts >= n
		}
	}
	eventually(t, "the breaker opens", starts(5))
	eventually(t, "the breaker is half open", func() bool { return status().Breaker.State == "half-open" })
	eventually(t, "it is tried", starts(6))
	// The next trial may be due already.
	if s := status(); s.Starts != 6 || s.Breaker.State == "closed" {
		t.Errorf("a failed trial: %d starts, breaker %s, want 6 and no closed one", s.Starts, s.Breaker.State)
	}
	repair()
	eventually(t, "it serves again", func() bool {
		_, err := obey(t.Context(), t, h, "alpha", "pid")
		return err == nil
	})
	if s := status(); s.Breaker.State != "closed" || s.State != driverhost.Ready {
		t.Errorf("after a served call: %s, breaker %s", s.State, s.Breaker.State)
	}
}

func TestCrashesWithoutAServedCallOpenTheBreaker(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	for range 8 {
		_, _ = obey(t.Context(), t, h, "alpha", "die")
	}
	s, _ := h.StatusOf("alpha")
	if s.Breaker.State != "open" || s.Crashes != 5 {
		t.Errorf("breaker %s after %d crashes, want open after 5", s.Breaker.State, s.Crashes)
	}
}

func TestUnusedDriverIsStoppedAndStartsAgain(t *testing.T) {
	h := newHost(t, driverhost.Config{Idle: 30 * time.Millisecond}, io.Discard)
	pid := pidOf(t, h, "alpha")
	eventually(t, "its process is gone", func() bool { return gone(pid) })
	eventually(t, "it is idle without a process or a crash", func() bool {
		s, _ := h.StatusOf("alpha")
		return s.State == driverhost.Idle && s.PID == 0 && s.Crashes == 0
	})
	if again := pidOf(t, h, "alpha"); again == pid {
		t.Error("the stopped process answers")
	}
	if s, _ := h.StatusOf("alpha"); s.Generation != 2 {
		t.Errorf("generation %d, want 2", s.Generation)
	}
}

func TestIdleNeverCutsOffACall(t *testing.T) {
	h := newHost(t, driverhost.Config{Idle: time.Millisecond}, io.Discard)
	for i := range 200 {
		if _, err := obey(t.Context(), t, h, "alpha", "pid"); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

func TestStatusShowsWhatADriverDoes(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	_, _ = obey(t.Context(), t, h, "alpha", "fail", "text", "no luck")
	mustObey(t, h, "alpha", "say", "text", "hello \x1b[31mred\n")
	var lines []driverhost.Line
	eventually(t, "the line has arrived", func() bool { lines, _ = h.Logs("alpha", 0); return len(lines) > 1 })
	if last := lines[len(lines)-1]; last.Text != "hello ⟨U+001B⟩[31mred" || last.Stream != "stderr" || last.Generation != 1 {
		t.Errorf("logged %+v", last)
	}
	s, ok := h.StatusOf("alpha")
	if !ok || s.State != driverhost.Ready || s.PID == 0 || s.RSSBytes == 0 || s.Calls != 2 || s.Failures != 1 ||
		!strings.Contains(s.LastError, "no luck") || s.Latency["Advance"].Count != 2 || s.Latency["Advance"].P50 <= 0 {
		t.Errorf("status %+v", s)
	}
	if all := h.Status(); len(all) != len(lockOf(t).Drivers) {
		t.Errorf("status of %d drivers, want %d", len(all), len(lockOf(t).Drivers))
	}
}

func TestLogsAreReadFromAPositionOn(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	position := 0
	for _, want := range []string{"first", "second"} {
		mustObey(t, h, "alpha", "say", "text", want+"\n")
		var got []string
		eventually(t, "the line has arrived", func() bool {
			var lines []driverhost.Line
			lines, position = h.Logs("alpha", position)
			for _, l := range lines {
				if l.Stream == "stderr" {
					got = append(got, l.Text)
				}
			}
			return len(got) > 0
		})
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("lines behind the position (-want +got):\n%s", diff)
		}
	}
	if lines, next := h.Logs("nobody", 7); lines != nil || next != 0 {
		t.Errorf("Logs of a driver that there is not = %v, %d", lines, next)
	}
}

func TestLaunchRunsOneBinaryOnItsOwn(t *testing.T) {
	l, err := driverhost.Launch(t.Context(), filepath.Join(binaries, "kairos-driver-alpha"), driverhost.LaunchConfig{}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	if l.Descriptor().Name != "alpha" || l.PID() == 0 || l.Took() <= 0 {
		t.Errorf("launched %s, process %d, in %v", l.Descriptor().Name, l.PID(), l.Took())
	}
	res, err := l.Calls().Challenge().Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"print","text":"noise\n"}`)})
	if err != nil || res.Accepted == nil {
		t.Fatalf("Advance = %+v, %v", res, err)
	}
	eventually(t, "the noise is heard", func() bool { return cmp.Equal(l.Noise(), []string{"noise"}) })
	l.CutLifeline()
	<-l.Exited()
}

func TestTextsOfADriverCannotDeceiveWhoReadsThem(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	c, _ := h.Capability("capable", 0)
	res, err := c.Render(t.Context(), driver.RenderRequest{Input: driver.Input{Description: "say"}})
	if err != nil || res.Unavailable == nil {
		t.Fatalf("Render = %+v, %v", res, err)
	}
	if want := "I only\tinterpret\n⟨U+001B⟩[31m and do not⟨U+202E⟩ write backwards⟨U+0000⟩"; res.Unavailable.Reason != want {
		t.Errorf("reason %q, want %q", res.Unavailable.Reason, want)
	}
}

func TestAMalformedErrorCodeBreaksTheContract(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	c, _ := h.Challenge("alpha")
	for code, sound := range map[string]bool{
		"WORD_MISSING": true, "A": true, "": false, "word_missing": false, "1ST": false, "NOT DONE": false, "A.B": false, strings.Repeat("A", 65): false,
	} {
		challenge, err := json.Marshal(map[string]string{"do": "reject", "text": code})
		check(t, err)
		res, err := c.Advance(t.Context(), driver.AdvanceRequest{Challenge: challenge})
		switch {
		case sound && (err != nil || res.Rejected == nil || res.Rejected.Code != code):
			t.Errorf("%q: %+v, %v; want the rejection", code, res, err)
		case !sound && (err == nil || !strings.Contains(err.Error(), "its result is unsound: the error code")):
			t.Errorf("%q: %+v, %v; want a broken contract", code, res, err)
		}
	}
}
