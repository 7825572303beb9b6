package driverhost_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

func FuzzCleanLine(f *testing.F) {
	for _, seed := range []string{"plain", "{\"@message\":42}", "\x1b[2J\x00", "\xff\xfe", "\u202egnp", strings.Repeat("ü", 5000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got := driverhost.CleanLine(line)
		if !utf8.ValidString(got) {
			t.Errorf("CleanLine(%q) = %q is not UTF-8", line, got)
		}
		if strings.ContainsFunc(got, plain.Hidden) {
			t.Errorf("CleanLine(%q) = %q has control characters", line, got)
		}
		if len(got) > 3*4096 {
			t.Errorf("CleanLine gave %d bytes", len(got))
		}
	})
}

func TestLinesDoNotDependOnHowTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringOf(rapid.SampledFrom([]rune("ab\n"))).Draw(t, "text"))
		whole := driverhost.SplitLines(4, text)
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		if parts := driverhost.SplitLines(4, text[:cut], text[cut:]); !slices.Equal(whole, parts) {
			t.Errorf("%q cut at %d gives %q, whole %q", text, cut, parts, whole)
		}
		var want []string
		for _, line := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
			want = append(want, string(line[:min(4, len(line))]))
		}
		if len(text) > 0 && !slices.Equal(want, whole) {
			t.Errorf("%q gives %q, want %q", text, whole, want)
		}
	})
}

func TestLifecycleOnlyServesWhatWasVerifiedAndEndsInStopped(t *testing.T) {
	events := driverhost.Events()
	slices.Sort(events)
	rapid.Check(t, func(t *rapid.T) {
		at, passed := "registered", map[string]bool{"registered": true}
		for range rapid.IntRange(0, 20).Draw(t, "length") {
			h := rapid.SampledFrom(events).Draw(t, "happening")
			to, err := driverhost.Step(at, h)
			if err != nil {
				if to != at {
					t.Fatalf("a refused %s moved from %s to %s", h, at, to)
				}
				continue
			}
			if at == "stopped" {
				t.Fatalf("%s woke a stopped driver", h)
			}
			at, passed[to] = to, true
		}
		for _, must := range []string{"verifying", "starting", "describing", "configuring", "probing"} {
			if passed["ready"] && !passed[must] {
				t.Fatalf("ready without having been %s", must)
			}
		}
	})
	for _, s := range driverhost.States() {
		if !reachesStopped(s) {
			t.Errorf("there is no way from %s to stopped", s)
		}
	}
}

func reachesStopped(from string) bool {
	seen, queue := map[string]bool{}, []string{from}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s == "stopped" {
			return true
		}
		if seen[s] {
			continue
		}
		seen[s] = true
		for _, h := range driverhost.Events() {
			if to, err := driverhost.Step(s, h); err == nil {
				queue = append(queue, to)
			}
		}
	}
	return false
}
