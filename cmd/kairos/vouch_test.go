package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// look is a capability that says that it observed the result of every command.
var look = script{
	name: "look", via: "look",
	descriptor: `"role":"capability","handles":["evidence"],"effect":"reads"`,
	cases:      `Render*) echo '{"answer":{"provenance":"server-observed","value":` + ranWell + `}}' ;;`,
}

// A driver's provenance is recorded as no more than the configuration allows: in the
// reply, in the stored run and in its proof. A changed limit is taken up by the
// server that runs.
func TestADriverVouchesForNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	s := withScript(t, look, "max_provenance: agent-reported", "")
	p := s.pipe(t, legacyEra, hasNothing)
	r := p.opens(oneCommand)
	done := p.told(r, "")
	if got := done.Solved[0]; got.Via != "look" || got.Provenance != driver.AgentReported {
		t.Errorf("solved via %s as %s, want look within its limit", got.Via, got.Provenance)
	}
	out, err := s.program("runs", "show", r.RunID, "-o", "json").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"provenance": "agent-reported"`) || strings.Contains(string(out), "server-observed") {
		t.Errorf("runs show: %v\n%s\nwant agent-reported and no observation", err, out)
	}
	info, err := s.program("driver", "info", "look").CombinedOutput()
	if err != nil || !strings.Contains(string(info), "vouches     at most agent-reported") {
		t.Errorf("driver info: %v\n%s\nwant the limit", err, info)
	}

	before, err := os.ReadFile(s.path("kairos.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("kairos.yaml", strings.Replace(string(before), "max_provenance: agent-reported", "max_provenance: server-observed", 1))
	begin := fmt.Sprintf(`{"uri":%q}`, r.CurrentStep.URI)
	var again *api.StepReply
	eventually(t, "the server takes up the other limit", func() bool {
		again = p.told(p.step("kairos_begin", begin), "")
		return again.Solved[0].Provenance == driver.ServerObserved
	})
	p.leave()
}

// A shipped driver whose answers come from a person is not asked for one where
// the configuration says that it may not answer for a person.
func TestADriverThatMayNotAnswerForAPersonIsNotAsked(t *testing.T) {
	t.Parallel()
	const gated = "# Gated\n\n## Run\n\nrun it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"approval_mode\":\"user\",\"shell\":{\"cmd\":\"true\"}}}\n```\n"
	for settings, want := range map[string]string{
		"{}": "approved",
		"{elicitation: {human: false}, page: {human: false}}": "APPROVAL_UNAVAILABLE",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := &served{t: t, dir: t.TempDir()}
			s.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\nadmin: {socket: off}\ndrivers: {dir: %s, settings: %s}\n", buildDrivers(t), settings))
			p := s.pipe(t, legacyEra, hasForms)
			r := p.opens(gated)
			if want == "approved" {
				p.approve(p.next(r, ""))
			} else if got := p.step("kairos_next", p.next(r, "")); got.ErrorCode != want || !strings.Contains(got.Message, "the operator does not let it answer for a person") {
				t.Errorf("error_code = %q, want %q: %s", got.ErrorCode, want, got.Message)
			}
			p.leave()
			out, err := s.program("runs", "show", r.RunID).CombinedOutput()
			if err != nil || strings.Contains(string(out), "approved") != (want == "approved") {
				t.Errorf("runs show: %v\n%s", err, out)
			}
		})
	}
}
