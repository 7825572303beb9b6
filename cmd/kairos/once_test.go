package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
)

// script is a driver of the exec transport in shell. It works in a folder, where it
// leaves the keys of its calls: acts has those that it acted for, asks those that it
// was asked about. Its cases see $request and $key.
type script struct {
	name, descriptor, cases string
	// via obtains the evidence.
	via string
}

const scriptHead = `#!/bin/sh
cd %q || exit 1
if [ "$1" = --describe ]; then
  echo '{"name":%q,"version":"1.0.0","transport":"exec",%s}'
  exit
fi
request=$(cat)
key=$(printf %%s "$request" | sed -n 's/.*"idempotency_key":"\([^"]*\)".*/\1/p')
case "$2 $request" in
Configure*) echo '{}' ;;
CheckHealth*) echo '{"healthy":true}' ;;
%s
*) exit 1 ;;
esac
`

// pay is a capability whose first act for a run never replies. With the file idle
// in its folder that call is lost before it acts.
func pay(features string) script {
	const paid = `'{"answer":{"provenance":"server-observed","value":` + ranWell + `}}'`
	return script{
		name: "pay", via: "pay",
		descriptor: `"role":"capability","handles":["evidence"],"effect":"changes","features":[` + features + `]`,
		cases: `Render*'"recover":true'*)
  echo "$key" >>asks
  if grep -qxe "$key" acts; then echo ` + paid + `; else echo '{"not_done":{"reason":"never heard of it"}}'; fi ;;
Render*'"attempt":1'[,}]*)
  [ -e idle ] || echo "$key" >>acts
  exec sleep 60 ;;
Render*)
  echo "$key" >>acts
  echo ` + paid + ` ;;`,
	}
}

// wait is a capability that has asked somebody, and has the answer when a file with
// the name of the call's key is in its folder.
var wait = script{
	name: "wait", via: "wait",
	descriptor: `"role":"capability","handles":["evidence"],"effect":"reads"`,
	cases: `Render*)
  echo "$key" >>asks
  if [ -n "$key" ] && [ -e "./$key" ]; then
    echo '{"answer":{"provenance":"server-observed","value":` + ranWell + `}}'
  else
    echo '{"pending":{"reason":"the answer is not there","retry_after":0.1,"progress":0.5,"message":"Half of them have answered."}}'
  fi ;;`,
}

// withScript makes a folder with two shipped drivers and a script, which may use
// the folder work.
func withScript(t *testing.T, d script, settings, more string) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir()}
	for _, dir := range []string{"drivers", "work"} {
		if err := os.Mkdir(s.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binaries := map[string][]byte{d.name: fmt.Appendf(nil, scriptHead, s.path("work"), d.name, d.descriptor, d.cases)}
	for _, shipped := range []string{"shell", "agent"} {
		var err error
		if binaries[shipped], err = os.ReadFile(filepath.Join(buildDrivers(t), "kairos-driver-"+shipped)); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range binaries {
		if err := os.WriteFile(s.path("drivers/kairos-driver-"+name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("tree.yaml", "defaults: {missing_type: shell, no_challenge_type: shell}\nchallenges:\n  - match: {}\n    evidence: [{via: "+d.via+"}]\n")
	s.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\ntree: tree.yaml\nadmin: {socket: off}\ndrivers: {dir: drivers, settings: {%s: {folders: [%q], %s}}}\n%s",
		d.name, s.path("work"), settings, more))
	if out, err := s.program("driver", "lock", s.path("drivers")).CombinedOutput(); err != nil {
		t.Fatalf("driver lock: %v\n%s", err, out)
	}
	return s
}

// acting are the settings of a driver that may act, and what it is given for a call.
func acting(timeout string) string {
	return "may: [observe, network, change], call_timeout: " + timeout
}

// keys are the lines of a file that a driver wrote.
func (s *served) keys(file string) []string {
	s.t.Helper()
	content, err := os.ReadFile(s.path("work/" + file))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.Fields(string(content))
}

// expect checks that a reply has the code, or the proof of a solved step.
func expect(t *testing.T, reply *api.StepReply, code string) *api.StepReply {
	t.Helper()
	if reply.ErrorCode != code || (code == "") != (reply.ProofHash != "") {
		t.Fatalf("error_code = %q with the proof %q, want %q: %s", reply.ErrorCode, reply.ProofHash, code, reply.Message)
	}
	return reply
}

// decided runs `kairos runs decide`.
func (s *served) decided(r *api.StepReply, decision ...string) {
	s.t.Helper()
	args := append([]string{"runs", "decide", r.RunID, "--reason", "asked the bank"}, decision...)
	if out, err := s.program(args...).CombinedOutput(); err != nil {
		s.t.Fatalf("runs decide: %v\n%s", err, out)
	}
}

// acted checks that the driver acted so often, each time under another key.
func (s *served) acted(times int) {
	s.t.Helper()
	acts := s.keys("acts")
	different := slices.Clone(acts)
	slices.Sort(different)
	if len(acts) != times || len(slices.Compact(different)) != times {
		s.t.Errorf("it acted for %q, want %d different keys", acts, times)
	}
}

// A driver with effects that does not reply in time has acted once, however often
// the agent calls, until a person says what came of it.
func TestADriverThatHangsAfterItActedActsOnce(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]struct {
		decision []string
		acts     int
	}{
		"it happened":       {[]string{"--happened", "--result", ranWell}, 1},
		"it did not happen": {[]string{"--did-not-happen"}, 2},
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			s := withScript(t, pay(""), acting("5s"), "")
			p := s.pipe(t, legacyEra, hasNothing)
			r := p.opens(oneCommand)
			for range 3 {
				p.told(r, "OUTCOME_UNKNOWN")
			}
			s.acted(1)
			s.decided(r, want.decision...)
			p.told(r, "")
			s.acted(want.acts)
			p.leave()
		})
	}
}

// A call that was lost before it acted is known not to have acted, so that another
// attempt is made, under another key.
func TestACallThatWasNotDoneIsMadeAgainUnderAnotherKey(t *testing.T) {
	t.Parallel()
	s := withScript(t, pay(`"recover"`), acting("5s"), "")
	if err := os.WriteFile(s.path("work/idle"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.pipe(t, legacyEra, hasNothing)
	p.told(p.opens(oneCommand), "")
	s.acted(1)
	if acts, asks := s.keys("acts"), s.keys("asks"); len(asks) != 1 || slices.Contains(acts, asks[0]) {
		t.Errorf("acted for %q after it was asked about %q, want another key", acts, asks)
	}
	p.leave()
}

// A server that was killed between the act and the reply asks the driver what came
// of it and does not have it act again.
func TestADriverWhoseServerWasKilledAfterItActedIsAsked(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, era string) {
		s := withScript(t, pay(`"recover"`), acting("30s"), "")
		p := s.pipe(t, era, hasNothing)
		r := p.opens(oneCommand)
		p.next(r, "")
		eventually(t, "the driver to act", func() bool { return len(s.keys("acts")) > 0 })
		p.kill()
		p = s.pipe(t, era, hasNothing)
		p.told(r, "")
		if acts, asks := s.keys("acts"), s.keys("asks"); len(acts) != 1 || !slices.Equal(acts, asks) {
			t.Errorf("acted for %q and was asked about %q, want once and about the same", acts, asks)
		}
		p.leave()
	})
}

// A run waits for its own answer, across a restart, and says so in progress and
// in a complete result.
func TestARunWaitsForTheAnswerToItsOwnKey(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, era string) {
		s := withScript(t, wait, "call_timeout: 30s", "mcp: {wait: 3s}\n")
		p := s.pipe(t, era, hasNothing)
		first := p.opens(oneCommand)
		p.token = "t"
		told := p.told(first, "WAITING_FOR_DRIVER")
		if told.RetryAfter == nil || told.Progress == nil || *told.Progress != 0.5 || told.ProgressMessage != "Half of them have answered." {
			t.Errorf("reply = %+v, want what the driver said in its fields", told)
		}
		if said := p.reported(); !strings.Contains(said, `"progressToken":"t"`) {
			t.Errorf("notifications while it waits: %q, want progress", said)
		}
		p.token = ""
		key := s.keys("asks")[0]
		second := p.begun(first.CurrentStep.URI, "")
		p.told(second, "WAITING_FOR_DRIVER")
		p.leave()
		if err := os.WriteFile(s.path("work/"+key), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p = s.pipe(t, era, hasNothing)
		p.told(second, "WAITING_FOR_DRIVER")
		p.told(first, "")
		asks := s.keys("asks")
		slices.Sort(asks)
		if asks = slices.Compact(asks); len(asks) != 2 {
			t.Errorf("two runs asked with the keys %q, want two", asks)
		}
		p.leave()
	})
}
