package main

import (
	"strings"
	"testing"
)

// till is a capability of a third party that acts on what a protocol says, in 12
// lines of shell.
var till = script{
	name: "till", via: "till",
	descriptor: `"role":"capability","handles":["evidence"],"effect":"effects","features":["grant"]`,
	cases: `Preview*)
  echo '{"plan":{"text":"Book 10 EUR","data":{"amount":10},"effect":"reads"}}' ;;
Render*'"plan":{"amount":10}'*)
  echo "$key" >>acts
  echo '{"answer":{"provenance":"server-observed","value":` + ranWell + `}}' ;;
Render*) echo '{"unavailable":{"reason":"no plan"}}' ;;`,
}

// A driver acts for a step only once a person has allowed it at the server's
// terminal, while the server runs: a protocol's text is not a permission.
func TestADriverActsOnceAPersonAllowedIt(t *testing.T) {
	t.Parallel()
	s := withScript(t, till, "call_timeout: 5s", "")
	p := s.pipe(t, legacyEra, hasNothing)
	doc := strings.Replace(oneCommand, `"type":`, `"evidence_from":"server","type":`, 1)
	r := p.opens(doc)
	waits := p.told(r, "OBSERVATION_UNAVAILABLE")
	if !strings.Contains(waits.Message, "kairos allow "+r.RunID) {
		t.Errorf("message = %q, want the command that allows it", waits.Message)
	}
	s.acted(0)
	ran := func(args ...string) string {
		t.Helper()
		out, err := s.program(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out, err := s.program("allow", r.RunID).CombinedOutput(); err == nil || !strings.Contains(string(out), "--yes") {
		t.Errorf("without a terminal: %v\n%s", err, out)
	}
	p.told(r, "OBSERVATION_UNAVAILABLE")
	if out := ran("allow", r.RunID, "--once", "--yes"); !strings.Contains(out, "KAIROS could do 1 of 1 step") || !strings.Contains(out, "this run only") {
		t.Errorf("allow prints\n%s", out)
	}
	done := p.told(r, "")
	s.acted(1)
	if solved := done.Solved[0]; solved.Provenance != "server-observed" || solved.Via != "till" {
		t.Errorf("solved = %+v, want what the server saw in its own account", solved)
	}

	second := p.opens(doc) // the grant was for the first run only
	p.told(second, "OBSERVATION_UNAVAILABLE")
	ran("allow", second.RunID, "--yes")
	p.told(second, "")
	s.acted(2)
	listed := ran("grants", "list")
	if strings.Count(listed, "till") != 2 || !strings.Contains(listed, "this version") {
		t.Errorf("grants list prints\n%s", listed)
	}
	for _, line := range strings.Split(strings.TrimSpace(listed), "\n")[1:] {
		ran("grants", "revoke", strings.Fields(line)[0])
	}
	third := p.opens(doc)
	p.told(third, "OBSERVATION_UNAVAILABLE")
	s.acted(2)
	if out, err := s.program("grants", "revoke", "00000000").CombinedOutput(); err == nil || !strings.Contains(string(out), "kairos grants list") {
		t.Errorf("a grant that is not there: %v\n%s", err, out)
	}
	p.leave()
}
