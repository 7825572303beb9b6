package driverhost_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestGoDriversAreCalledOverAStream(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	pidOf(t, h, "alpha")
	if !driverhost.Streams(h.Set, "alpha") {
		t.Error("calls are unary")
	}
}

// A driver that does not use the SDK serves the stream of calls as it likes.
func TestWhateverADriverDoesWithItsStreamOthersAreServedAndItIsReplaced(t *testing.T) {
	dir, mode := t.TempDir(), filepath.Join(t.TempDir(), "mode")
	for name, from := range map[string]string{"bare": "./testdata/bare", "alpha": "./testdata/driver"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "kairos-driver-"+name), from)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	t.Setenv("BARE_FILE", mode)
	check(t, os.WriteFile(mode, nil, 0o600))
	cfg := driverhost.Config{
		Dir: dir, Lock: described(t, dir), Start: 5 * time.Second, Call: 2 * time.Second, Stop: 200 * time.Millisecond,
		Drivers: map[string]driverhost.DriverConfig{"bare": {EnvFrom: []string{"BARE_FILE"}}},
	}
	for how, tc := range map[string]struct{ proof, reason string }{
		"unary":         {proof: `"unary"`},
		"streams":       {proof: `"streamed"`},
		"silent":        {reason: "it was not ready within 5s"},
		"ends":          {reason: "its process died during the call"},
		"floods":        {reason: "its process died during the call"},
		"stops reading": {reason: "it did not answer within 2s"},
	} {
		t.Run(how, func(t *testing.T) {
			check(t, os.WriteFile(mode, []byte(how), 0o600))
			h := newHost(t, cfg, io.Discard)
			well := pidOf(t, h, "alpha")
			proof, err := advanceBare(t, h)
			if proof != tc.proof || (err == nil) != (tc.reason == "") || err != nil && !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("Advance = %s, %v, want %s and an error with %q", proof, err, tc.proof, tc.reason)
			}
			if got := pidOf(t, h, "alpha"); got != well {
				t.Errorf("the driver that is well has process %d now, had %d", got, well)
			}
			check(t, os.WriteFile(mode, []byte("streams"), 0o600))
			if err != nil {
				eventually(t, "a process that behaves serves", func() bool {
					proof, err := advanceBare(t, h)
					return err == nil && proof == `"streamed"`
				})
			}
		})
	}
}

func advanceBare(t *testing.T, h hosted) (string, error) {
	t.Helper()
	c, ok := h.Challenge("bare")
	if !ok {
		t.Fatal("there is no driver bare")
	}
	res, err := c.Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(`{}`)})
	if err != nil {
		return "", err
	}
	return string(res.Accepted.Proof), nil
}
