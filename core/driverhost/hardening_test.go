package driverhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// obedient is a driver on the exec transport that does what the challenge says.
// A nap begins by making a file and ends when another is there.
const obedient = `#!/bin/sh
if [ "$1" = --describe ]; then
  echo '{"name": "script", "version": "1.0.0", "role": "challenge", "handles": ["script"], "effect": "pure", "transport": "exec"}'
  exit 0
fi
request=$(cat)
case $2 in
  CheckHealth) echo '{"healthy": true}';;
  Advance) case $request in
    *nap*) dir=${request#*in:}; dir=${dir%%:*}
      touch "$(mktemp "$dir/began-XXXXXX")"
      until [ -e "$dir/end" ]; do sleep 0.02; done
      echo '{"accepted": {"proof": 1}}';;
    *hang*) sleep 1000;;
    *die*) kill -9 $$;;
    *) echo '{"accepted": {"proof": 1}}';; esac;;
esac
`

func scripted(t *testing.T, cfg driverhost.Config) (hosted, driverhost.Config) {
	t.Helper()
	cfg.Dir = t.TempDir()
	install(t, cfg.Dir, "script", []byte(obedient))
	cfg.Lock = described(t, cfg.Dir)
	return newHost(t, cfg, io.Discard), cfg
}

func tell(ctx context.Context, on challenges, do string) (string, error) {
	c, _ := on.Challenge("script")
	res, err := c.Advance(ctx, driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"` + do + `"}`)})
	if err != nil {
		return "", err
	}
	return string(res.Accepted.Proof), nil
}

// naps starts calls that last until the returned function is called, which
// returns what became of them.
func naps(t *testing.T, on challenges, n int) (end func() error) {
	t.Helper()
	dir := t.TempDir()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = tell(t.Context(), on, "nap in:"+dir+":") })
	}
	eventually(t, "every nap has begun", func() bool {
		began, _ := filepath.Glob(filepath.Join(dir, "began-*"))
		return len(began) >= n
	})
	return func() error {
		if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

func TestDeathOfOneExecProcessCostsNoOtherCall(t *testing.T) {
	h, _ := scripted(t, driverhost.Config{})
	end := naps(t, h, 3)
	if _, err := tell(t.Context(), h, "die"); err == nil {
		t.Error("a call whose process was killed twice has an answer")
	}
	if err := end(); err != nil {
		t.Errorf("another call failed: %v", err)
	}
	if s, _ := h.StatusOf("script"); s.State != driverhost.Ready || s.Crashes != 2 {
		t.Errorf("it is %s after %d crashes, want ready after 2", s.State, s.Crashes)
	}
}

func TestBusyExecDriverIsNotTakenForHung(t *testing.T) {
	h, cfg := scripted(t, driverhost.Config{Call: 1500 * time.Millisecond})
	late := make(chan error, 1)
	go func() { _, err := tell(t.Context(), h, "hang"); late <- err }()
	if err := <-late; err == nil || !strings.Contains(err.Error(), "did not answer within") {
		t.Errorf("a call that hangs ended with %v", err)
	}
	cfg.Call = patience // many processes take their time to start
	following, err := h.Prepare(t.Context(), h.Set, complete(t, cfg))
	check(t, err)
	h.Use(following)
	end := naps(t, following, 15)
	if err := end(); err != nil {
		t.Errorf("calls failed: %v", err)
	}
}

func TestExecRunsOnlyTheLockedBytes(t *testing.T) {
	h, cfg := scripted(t, driverhost.Config{})
	if _, err := tell(t.Context(), h, "x"); err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(obedient, `"proof": 1`, `"proof": 2`)
	path := filepath.Join(cfg.Dir, "kairos-driver-script")
	check(t, os.WriteFile(path, []byte(other), 0o700)) // into the very file, as cp and some editors do
	if proof, err := tell(t.Context(), h, "x"); err == nil || !strings.Contains(err.Error(), "not the locked one") {
		t.Errorf("ran with proof %s, error %v", proof, err)
	}
}

func TestForgottenSetStillServesThoseWhoHoldIt(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T) (hosted, driverhost.Config, string){
		"exec": func(t *testing.T) (hosted, driverhost.Config, string) {
			h, cfg := scripted(t, driverhost.Config{})
			return h, cfg, "script"
		},
		"grpc": func(t *testing.T) (hosted, driverhost.Config, string) {
			cfg := folder(t, "alpha")
			return newHost(t, cfg, io.Discard), cfg, "alpha"
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, cfg, driver := prepare(t)
			h.Hold()
			defer h.Release()
			following, err := h.Prepare(t.Context(), h.Set, cfg, driver)
			check(t, err)
			h.Use(following)
			h.Drain(h.Set)
			h.Forget(h.Set)
			mustObey(t, h, driver, "pid")
		})
	}
}

func TestDevModeGoesBackToTheEarlierBytesToo(t *testing.T) {
	h, cfg := scripted(t, driverhost.Config{Dev: true})
	earlier := h.Set
	install(t, cfg.Dir, "script", []byte(strings.ReplaceAll(obedient, `"proof": 1`, `"proof": 2`)))
	cfg.Lock = described(t, cfg.Dir)
	h = h.swap(t, cfg)
	back, err := h.Restore(t.Context(), h.Set, earlier)
	check(t, err)
	if proof, err := tell(t.Context(), back, "x"); err != nil || proof != "1" {
		t.Errorf("proof %s, %v, want that of the earlier script", proof, err)
	}
}

func TestFrozenProcessIsReplacedUnderImpatientCallers(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	check(t, syscall.Kill(pidOf(t, h, "alpha"), syscall.SIGSTOP))
	eventually(t, "a call is served", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		_, err := obey(ctx, t, h, "alpha", "pid")
		return err == nil
	})
}

func TestCallsThatTheirCallersGiveUpDoNotKeepTheBreakerShut(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	for range 5 {
		_, _ = obey(t.Context(), t, h, "alpha", "die")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, _ = obey(ctx, t, h, "alpha", "wait", "file", filepath.Join(t.TempDir(), "waiting"))
		cancel()
	}
	if s, _ := h.StatusOf("alpha"); s.Breaker.State != "open" {
		t.Errorf("breaker %s after %d crashes", s.Breaker.State, s.Crashes)
	}
}

func TestErrorsOfADriverCannotDeceiveWhoReadsThem(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	_, err := obey(t.Context(), t, h, "alpha", "fail", "text", "\x1b[2J\u202egone\nfor good")
	s, _ := h.StatusOf("alpha")
	for where, text := range map[string]string{"the error": err.Error(), "the status": s.LastError} {
		if want := "driver alpha: ⟨U+001B⟩[2J⟨U+202E⟩gone; for good"; text != want {
			t.Errorf("%s says %q, want %q", where, text, want)
		}
	}
}

func TestReloadRefusesAnUnlockedBinaryAlsoWhereNothingElseChanged(t *testing.T) {
	cfg := folder(t, "alpha")
	h := newHost(t, cfg, io.Discard)
	install(t, cfg.Dir, "alpha", []byte("#!/bin/sh\nexit 0\n"))
	_, err := h.Prepare(t.Context(), h.Set, cfg)
	if err == nil || !strings.Contains(err.Error(), "driver alpha: the binary") || !strings.Contains(err.Error(), "its sha256 is") {
		t.Errorf("Prepare error = %v, want one with both sums", err)
	}
	mustObey(t, h, "alpha", "pid")
}

func TestADriverMayHaveTimesOfItsOwn(t *testing.T) {
	cfg := folder(t, "alpha", "beta")
	cfg.Drivers = map[string]driverhost.DriverConfig{"alpha": {Call: 300 * time.Millisecond}}
	h := newHost(t, cfg, io.Discard)
	alpha, beta := pidOf(t, h, "alpha"), pidOf(t, h, "beta")
	if _, err := obey(t.Context(), t, h, "alpha", "wait", "file", filepath.Join(t.TempDir(), "waiting")); err == nil ||
		!strings.Contains(err.Error(), "within 300ms") {
		t.Errorf("error = %v, want its own time to be kept", err)
	}
	cfg.Drivers = map[string]driverhost.DriverConfig{"alpha": {Idle: time.Millisecond}}
	old := h
	h = h.swap(t, cfg)
	want := []driverhost.Change{
		{Driver: "alpha", Kind: "adjusted", Why: []string{"timeouts"}}, {Driver: "beta", Kind: "kept"},
	}
	if diff := cmp.Diff(want, bare(old.Changes(h.Set))); diff != "" {
		t.Errorf("Changes (-want +got):\n%s", diff)
	}
	// It ran when it was never to be idle for so short a time.
	eventually(t, "alpha is stopped", func() bool { return gone(alpha) })
	if again := pidOf(t, h, "beta"); again != beta {
		t.Errorf("beta has process %d, want %d kept", again, beta)
	}
}

func TestSlogLinesOfADriverReadLikeText(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	mustObey(t, h, "alpha", "say", "text", `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"disk is nearly full","left":"3 MiB","disk":"sda"}`+"\n")
	eventually(t, "the line has arrived", func() bool {
		lines, _ := h.Logs("alpha", 0)
		last := len(lines) - 1 // behind that of the start
		return last >= 0 && lines[last].Text == `disk is nearly full disk=sda left="3 MiB"` && lines[last].Level == "WARN"
	})
}
