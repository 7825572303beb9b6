package driver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

const sound = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestOnlySoundTraceparentsAreTaken(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"sound":                      {sound, sound},
		"unknown flags":              {sound[:53] + "ff", sound[:53] + "ff"},
		"empty":                      {"", ""},
		"upper case":                 {strings.ToUpper(sound), ""},
		"one short":                  {sound[:54], ""},
		"version 00 is longer":       {sound + "-more", ""},
		"version ff":                 {"ff" + sound[2:], ""},
		"version is not a number":    {"0x" + sound[2:], ""},
		"a later version":            {"01" + sound[2:], sound},
		"a later version is longer":  {"7a" + sound[2:53] + "fb-more", sound},
		"a later version, unsampled": {"01" + sound[2:53] + "02", sound[:53] + "00"},
		"a later version runs over":  {"01" + sound[2:] + "more", ""},
		"trace id of zeros":          {"00-" + strings.Repeat("0", 32) + sound[35:], ""},
		"parent id of zeros":         {sound[:36] + strings.Repeat("0", 16) + "-01", ""},
		"wrong dashes":               {strings.Replace(sound, "-00f0", "000f0", 1), ""},
		"space around":               {" " + sound, ""},
		"a line break in an id":      {sound[:10] + "\n" + sound[11:], ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := driver.TraceOf(driver.WithTrace(context.Background(), tc.in)); got != tc.want {
				t.Errorf("TraceOf(WithTrace(%q)) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestABrokenTraceparentLeavesTheOneThatWasThere(t *testing.T) {
	ctx := driver.WithTrace(context.Background(), sound)
	if got := driver.TraceOf(driver.WithTrace(ctx, "broken")); got != sound {
		t.Errorf("TraceOf = %q, want %q", got, sound)
	}
}

// FuzzTraceparent: whatever comes in, what comes out is a sound version 00.
func FuzzTraceparent(f *testing.F) {
	for _, seed := range []string{"", sound, "cc" + sound[2:] + "-x", strings.Repeat("0", 55)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := driver.TraceOf(driver.WithTrace(context.Background(), in))
		if out == "" {
			return
		}
		if len(out) != 55 || !strings.HasPrefix(out, "00-") || out[3:35] != in[3:35] {
			t.Errorf("%q became %q", in, out)
		}
		if again := driver.TraceOf(driver.WithTrace(context.Background(), out)); again != out {
			t.Errorf("%q is not stable: %q", out, again)
		}
	})
}
