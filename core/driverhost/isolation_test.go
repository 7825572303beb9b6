package driverhost_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// A proof records the isolation that the process really runs with.
func TestIsolationInForceIsReported(t *testing.T) {
	cfg := complete(t, driverhost.Config{})
	for name, level := range map[string]driverhost.Level{"chosen by the machine": "", "turned off": driverhost.LevelNone} {
		t.Run(name, func(t *testing.T) {
			c := driverhost.Confinement{Level: level}
			h := driverhost.New(slog.New(slog.NewJSONHandler(io.Discard, nil)), driverhost.Options{Confinement: c})
			defer func() { check(t, h.Close()) }()
			set, err := h.Load(cfg)
			check(t, err)
			mustObey(t, hosted{h, set}, "alpha", "pid")
			s, _ := h.StatusOf("alpha")
			if got := set.Isolation("alpha"); got != string(s.Isolation) || got == "" || (level != "" && got != string(level)) {
				t.Errorf("Isolation = %q, status says %q, configured %q", got, s.Isolation, level)
			}
		})
	}
}
