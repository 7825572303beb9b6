package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/engine"
)

// payDriver is a capability of the exec transport that writes the keys of its
// calls into a folder: acts has those that it acted for, asks those that it was
// asked about. The first act for a run never replies.
const payDriver = `#!/bin/sh
cd %[1]q || exit 1
if [ "$1" = --describe ]; then
  echo '{"name":"pay","version":"1.0.0","role":"capability","handles":["evidence"],"effect":"effects","transport":"exec","features":[%[2]s]}'
  exit
fi
request=$(cat)
key=$(printf %%s "$request" | sed -n 's/.*"idempotency_key":"\([^"]*\)".*/\1/p')
paid='{"answer":{"provenance":"server-observed","value":` + ranWell + `}}'
case "$2 $request" in
Configure*) echo '{}' ;;
CheckHealth*) echo '{"healthy":true}' ;;
Render*'"recover":true'*)
  echo "$key" >>asks
  if grep -qxe "$key" acts; then echo "$paid"; else echo '{"not_done":{"reason":"never heard of it"}}'; fi ;;
Render*'"attempt":1'[,}]*)
  echo "$key" >>acts
  exec sleep 60 ;;
Render*)
  echo "$key" >>acts
  echo "$paid" ;;
*) exit 1 ;;
esac
`

// withScript makes a folder with the shell driver and a script that obtains its
// evidence and may use the folder work.
func withScript(t *testing.T, name string, script func(work string) string, settings, more string) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir()}
	for _, dir := range []string{"drivers", "work"} {
		if err := os.Mkdir(s.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shell, err := os.ReadFile(filepath.Join(buildDrivers(t), "kairos-driver-shell"))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"shell": shell, name: []byte(script(s.path("work")))} {
		if err := os.WriteFile(s.path("drivers/kairos-driver-"+file), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("tree.yaml", "defaults: {missing_type: shell, no_challenge_type: shell}\nchallenges:\n  - match: {}\n    evidence: [{via: "+name+"}]\n")
	s.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\ntree: tree.yaml\nadmin: {socket: off}\ndrivers: {dir: drivers, settings: {%s: {folders: [%q], %s}}}\n%s",
		name, s.path("work"), settings, more))
	if out, err := s.program("driver", "lock", s.path("drivers")).CombinedOutput(); err != nil {
		t.Fatalf("driver lock: %v\n%s", err, out)
	}
	return s
}

func withPay(t *testing.T, features, timeout string) *served {
	t.Helper()
	return withScript(t, "pay", func(work string) string { return fmt.Sprintf(payDriver, work, features) }, "allow_effects: true, call_timeout: "+timeout, "")
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

// opens stores the protocol of one command and begins a run of it.
func (p *piped) opens() *engine.StepReply {
	p.t.Helper()
	args, err := json.Marshal(map[string]any{"markdown_doc": oneCommand, "llm_model_id": "test", "force_update": true})
	if err != nil {
		p.t.Fatal(err)
	}
	var minted engine.MintReply
	p.call("kairos_mint", string(args), "")
	p.reply(&minted)
	return p.step("kairos_begin", fmt.Sprintf(`{"uri":%q}`, minted.Items[0].URI))
}

// told is the reply to a kairos_next without a solution, which must have a code.
func (p *piped) told(r *engine.StepReply, code string) *engine.StepReply {
	p.t.Helper()
	reply := p.step("kairos_next", p.next(r, ""))
	if reply.ErrorCode != code || (code == "") != (len(reply.Solved) == 1) {
		p.t.Fatalf("error_code = %q with %d solved, want %q: %s", reply.ErrorCode, len(reply.Solved), code, reply.Message)
	}
	return reply
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
			s := withPay(t, "", "2s")
			p := s.pipe(t, legacyEra, hasNothing)
			r := p.opens()
			for range 3 {
				p.told(r, "OUTCOME_UNKNOWN")
			}
			if acts := s.keys("acts"); len(acts) != 1 {
				t.Fatalf("three calls acted %d times: %q", len(acts), acts)
			}
			args := append([]string{"runs", "decide", r.RunID, "--reason", "asked the bank"}, want.decision...)
			if out, err := s.program(args...).CombinedOutput(); err != nil {
				t.Fatalf("runs decide: %v\n%s", err, out)
			}
			p.told(r, "")
			acts := s.keys("acts")
			if len(slices.Compact(acts)) != want.acts || len(acts) != want.acts {
				t.Errorf("after the decision it acted for %q, want %d different keys", acts, want.acts)
			}
			p.leave()
		})
	}
}

// A server that was killed between the act and the reply asks the driver what came
// of it and does not have it act again.
func TestADriverWhoseServerWasKilledAfterItActedIsAsked(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, era string) {
		s := withPay(t, `"recover"`, "30s")
		p := s.pipe(t, era, hasNothing)
		r := p.opens()
		p.call("kairos_next", p.next(r, ""), "")
		eventually(t, "the driver to act", func() bool { return len(s.keys("acts")) > 0 })
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // it was killed
		p = s.pipe(t, era, hasNothing)
		p.told(r, "")
		if acts, asks := s.keys("acts"), s.keys("asks"); len(acts) != 1 || !slices.Equal(acts, asks) {
			t.Errorf("acted for %q and was asked about %q, want once and about the same", acts, asks)
		}
		p.leave()
	})
}

// waitDriver is a capability of the exec transport that has asked somebody, and
// has the answer when a file with the name of the call's key is in its folder.
const waitDriver = `#!/bin/sh
cd %[1]q || exit 1
if [ "$1" = --describe ]; then
  echo '{"name":"wait","version":"1.0.0","role":"capability","handles":["evidence"],"effect":"reads","transport":"exec"}'
  exit
fi
request=$(cat)
key=$(printf %%s "$request" | sed -n 's/.*"idempotency_key":"\([^"]*\)".*/\1/p')
case "$2" in
Configure) echo '{}' ;;
CheckHealth) echo '{"healthy":true}' ;;
Render)
  echo "$key" >>asks
  if [ -n "$key" ] && [ -e "./$key" ]; then
    echo '{"answer":{"provenance":"server-observed","value":` + ranWell + `}}'
  else
    echo '{"pending":{"reason":"the answer is not there","retry_after":0.1,"progress":0.5}}'
  fi ;;
*) exit 1 ;;
esac
`

// A run waits for its own answer, across a restart, and says so in progress and
// in a complete result.
func TestARunWaitsForTheAnswerToItsOwnKey(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, era string) {
		s := withScript(t, "wait", func(work string) string { return fmt.Sprintf(waitDriver, work) }, "call_timeout: 30s",
			"mcp: {plain_wait: 1s, progress_wait: 1s}\n")
		p := s.pipe(t, era, hasNothing)
		first := p.opens()
		p.token = "t"
		p.told(first, "WAITING_FOR_DRIVER")
		if !strings.Contains(p.progress, `"progressToken":"t"`) {
			t.Errorf("notifications while it waits: %q, want progress", p.progress)
		}
		p.token = ""
		key := s.keys("asks")[0]
		second := p.step("kairos_begin", fmt.Sprintf(`{"uri":%q}`, first.CurrentStep.URI))
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
