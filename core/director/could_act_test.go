package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The reply names what would help, and nothing that would not.
func TestAStepThatNobodyAllowedSaysWhatWouldHelp(t *testing.T) {
	for name, tc := range map[string]struct {
		refuses, want, not string
	}{
		"the driver could":     {"", "A person can allow KAIROS to do it: `kairos allow ", "could not do this one"},
		"the driver could not": {"no workspace is set", "Driver doer does such steps, and could not do this one now: no workspace is set.", "kairos allow"},
	} {
		t.Run(name, func(t *testing.T) {
			w, d := withDoer(t, driver.EffectReads)
			d.refuses = tc.refuses
			uri := w.mint(strings.Replace(plainStep, `"type":`, `"evidence_from":"server","type":`, 1))[0]
			r := w.next(uri, placeholder(w.begin(uri)))
			w.code(r, "OBSERVATION_UNAVAILABLE")
			if !strings.Contains(r.Message, tc.want) || strings.Contains(r.Message, tc.not) || strings.Contains(r.Message, "agent:") {
				t.Errorf("message = %q, want %q in it, and not %q", r.Message, tc.want, tc.not)
			}
		})
	}
}
