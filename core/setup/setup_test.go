package setup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/setup"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestOpenStartsNothing(t *testing.T) {
	r := newRig(t)
	for _, s := range r.host.Status() {
		if s.Starts != 0 {
			t.Errorf("driver %s was started %d times", s.Name, s.Starts)
		}
	}
}

func TestReloadTakesANewVersion(t *testing.T) {
	r := newRig(t)
	r.install("staged", traits{Version: "2.0.0", Reads: []int{1}, Writes: 1})
	r.lock()
	report := r.reload()
	want := map[string]string{"agent": "kept", "staged": "changed"}
	if diff := cmp.Diff(want, kinds(report)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := r.version(); got != "2.0.0" || report.Tree != setup.Same || report.Took <= 0 {
		t.Errorf("version = %s, report = %+v; want 2.0.0, the tree the same and a duration", got, report)
	}
	again := r.reload()
	if again.Changed() {
		t.Errorf("a reload of the same files reports %+v", again)
	}
}

func TestReloadGivesAFreshProcessWhereAsked(t *testing.T) {
	r := newRig(t)
	report, err := r.Reload(t.Context(), "staged")
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(report)["staged"]; got != "restarted" {
		t.Errorf("staged was %s, want restarted", got)
	}
	if _, err := r.Rollback(t.Context()); err == nil {
		t.Error("there was something to go back to after a mere restart")
	}
	if _, err := r.Reload(t.Context(), "nobody"); err == nil {
		t.Error("a driver that is not there was reloaded")
	}
}

func TestReloadTakesOtherTimeouts(t *testing.T) {
	r := newRig(t)
	uri := r.mint(document)[0]
	r.said(r.begin(uri))
	pid := func() int { s, _ := r.host.StatusOf("staged"); return s.PID }
	before := pid()
	r.change(func(r *rig) { r.config["staged"] = driverhost.DriverConfig{Idle: time.Millisecond} })
	report := r.reload()
	if !report.Changed() || kinds(report)["staged"] != "adjusted" || kinds(report)["agent"] != "kept" {
		t.Errorf("report %+v, want staged adjusted", report)
	}
	eventually(t, "the driver is idle", func() bool { s, _ := r.host.StatusOf("staged"); return s.State == driverhost.Idle })
	if report, err := r.Rollback(t.Context()); err != nil || kinds(report)["staged"] != "adjusted" {
		t.Errorf("Rollback: %+v, %v, want the earlier times back", report, err)
	}
	r.said(r.begin(uri))
	if s, _ := r.host.StatusOf("staged"); s.State != driverhost.Ready || s.PID == before {
		t.Errorf("it is %s as process %d, want it to serve again and stay", s.State, s.PID)
	}
}

// A reload applies what a driver may vouch for to the process that runs.
func TestReloadTakesOtherLimits(t *testing.T) {
	r := newRig(t)
	r.said(r.begin(r.mint(document)[0]))
	before, _ := r.host.StatusOf("staged")
	limits := func() (driver.Provenance, bool) {
		s, release := r.Hold()
		defer release()
		return s.Drivers.Limits("staged")
	}
	r.change(func(r *rig) {
		r.config["staged"] = driverhost.DriverConfig{May: driverhost.May{driverhost.MayUseNetwork}}
	})
	report := r.reload()
	if kinds(report)["staged"] != "adjusted" || kinds(report)["agent"] != "kept" {
		t.Errorf("report %+v, want staged adjusted", report)
	}
	for _, c := range report.Changes {
		if c.Driver == "staged" && !slices.Equal(c.Why, []string{"limits"}) {
			t.Errorf("it changed because of %q, want the limits", c.Why)
		}
	}
	if p, forPersons := limits(); p != driver.AgentReported || forPersons {
		t.Errorf("limits = %s, %t after the reload, want those of the configuration", p, forPersons)
	}
	if s, _ := r.host.StatusOf("staged"); s.PID != before.PID || slices.Contains(s.May, driverhost.MayObserve) {
		t.Errorf("status = %+v, want the same process %d and its limits", s, before.PID)
	}
	if _, err := r.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, forPersons := limits(); p != "" || !forPersons {
		t.Errorf("limits = %s, %t after the rollback, want none", p, forPersons)
	}
}

func TestWhatIsBrokenChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(r *rig)
		want  string
	}{
		"a sick driver": {func(r *rig) {
			r.install("staged", traits{Version: "2.0.0", Sick: true})
			r.lock()
		}, "I am sick"},
		"a binary that is not the locked one": {func(r *rig) {
			r.install("staged", traits{Version: "2.0.0"})
			r.lock()
			r.install("staged", traits{Version: "3.0.0"})
		}, "sha256"},
		"a binary that is none": {func(r *rig) {
			r.install("staged", traits{Version: "2.0.0"})
			r.lock()
			r.write(driverhost.BinaryPrefix+"staged", "not a program")
		}, "staged"},
		"a driver's configuration": {func(r *rig) {
			r.change(func(r *rig) {
				r.config["staged"] = driverhost.DriverConfig{Config: json.RawMessage(`{"nonsense":true}`)}
			})
		}, "means nothing to me"},
		"a tree that does not compile": {func(r *rig) {
			r.write("tree.yaml", strings.ReplaceAll(tree, "via: agent", "via: nobody"))
		}, "nobody"},
		"a tree whose driver is gone": {func(r *rig) {
			if err := os.Remove(r.path(driverhost.BinaryPrefix + "agent")); err != nil {
				r.t.Fatal(err)
			}
			r.lock()
		}, "agent"},
		"a lock that is none":     {func(r *rig) { r.write(driverhost.LockName, "{") }, driverhost.LockName},
		"files that say nonsense": {func(r *rig) { r.change(func(r *rig) { r.broken = errors.New("key frobnicate is unknown") }) }, "frobnicate"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			uri := r.mint(document)[0]
			reply := r.said(r.begin(uri))
			before := r.host.Status()
			tc.spoil(r)
			_, err := r.Reload(t.Context())
			if err == nil {
				t.Fatal("the reload was accepted")
			}
			contains(t, err.Error(), tc.want)
			if got := r.version(); got != "1.0.0" {
				t.Errorf("version = %s, want 1.0.0", got)
			}
			if reply = r.said(reply); reply.ProofHash == "" {
				t.Errorf("reply = %+v, want the step solved as if nothing had happened", reply)
			}
			for i, s := range r.host.Status() {
				if s.PID != before[i].PID {
					t.Errorf("driver %s has process %d, want %d as before", s.Name, s.PID, before[i].PID)
				}
			}
			if _, err := r.Rollback(t.Context()); err == nil {
				t.Error("there was something to go back to after a refused reload")
			}
		})
	}
}

func TestStepsInFlightLiveThroughASwap(t *testing.T) {
	for name, tc := range map[string]struct {
		next  traits
		check func(t *testing.T, r *rig, reply *api.StepReply)
	}{
		"a version that reads the state": {
			traits{Version: "2.0.0", Reads: []int{1, 2}, Writes: 2},
			func(t *testing.T, r *rig, reply *api.StepReply) {
				if reply.ProofHash == "" || !strings.Contains(r.accepted(reply), "2.0.0") {
					t.Errorf("reply = %+v, want the step solved by 2.0.0", reply)
				}
			},
		},
		"a version that does not": {
			traits{Version: "2.0.0", Reads: []int{2}, Writes: 2},
			func(t *testing.T, r *rig, reply *api.StepReply) {
				contains(t, reply.Message, "starts over")
				if reply = r.said(r.said(reply)); reply.ProofHash == "" {
					t.Errorf("reply = %+v, want the step solved after starting over", reply)
				}
			},
		},
		"a stricter version": {
			traits{Version: "2.0.0", Reads: []int{1}, Writes: 1, Strict: true},
			func(t *testing.T, r *rig, reply *api.StepReply) {
				if reply.ErrorCode != "DRIVER_UNAVAILABLE" || *reply.RetryCount != 0 {
					t.Errorf("error_code = %q, retry_count = %d; want DRIVER_UNAVAILABLE and 0", reply.ErrorCode, *reply.RetryCount)
				}
				if _, err := r.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				if reply = r.said(reply); reply.ProofHash == "" {
					t.Errorf("reply = %+v, want the step solved after the rollback", reply)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			reply := r.said(r.begin(r.mint(document)[0]))
			r.install("staged", tc.next)
			r.lock()
			r.reload()
			tc.check(t, r, r.said(reply))
		})
	}
}

func TestRollbackRunsTheEarlierBinaryAndKeepsItOnDisk(t *testing.T) {
	r := newRig(t)
	reply := r.said(r.begin(r.mint(document)[0]))
	r.install("staged", traits{Version: "2.0.0", Reads: []int{1}, Writes: 1})
	r.lock()
	r.reload()
	report, err := r.Rollback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := r.version(); got != "1.0.0" || len(report.Warnings) != 0 {
		t.Errorf("version = %s, warnings %q; want 1.0.0 and none", got, report.Warnings)
	}
	if reply = r.said(reply); reply.ProofHash == "" || !strings.Contains(r.accepted(reply), "1.0.0") {
		t.Errorf("solved = %+v, want it judged by 1.0.0", reply.Solved)
	}
	if after := r.reload(); after.Changed() {
		t.Errorf("the files ask for something else after a rollback: %+v", after)
	}
	if _, err := r.Rollback(t.Context()); err != nil {
		t.Fatalf("Rollback of the rollback: %v", err)
	}
	if got := r.version(); got != "2.0.0" {
		t.Errorf("version = %s after a second rollback, want 2.0.0 again", got)
	}
}

func TestRollbackLeavesTheOperatorsFilesAlone(t *testing.T) {
	r := newRig(t)
	later := strings.Replace(tree, "via: agent}", "via: agent, timeout: 9s}", 1)
	r.write("tree.yaml", later)
	r.change(func(r *rig) { r.how = []string{"agent"} })
	if report := r.reload(); report.Tree != setup.Changed || report.Settings != setup.Changed {
		t.Fatalf("report = %+v, want tree and settings changed", report)
	}
	report, err := r.Rollback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, release := r.Hold()
	defer release()
	if s.Settings != (decision.ConfigFacts{}) || report.Settings != setup.Changed {
		t.Errorf("settings = %+v, report %+v; want the earlier ones", s.Settings, report)
	}
	if b, err := os.ReadFile(r.path("tree.yaml")); err != nil || string(b) != later {
		t.Errorf("tree.yaml = %q, %v; want it left alone", b, err)
	}
	if len(report.Warnings) == 0 {
		t.Error("nothing says that the files ask for something else")
	}
}

func TestSettingsThatNeedARestartAreNamed(t *testing.T) {
	r := newRig(t)
	r.change(func(r *rig) { r.restart["database"] = "elsewhere" })
	report := r.reload()
	if diff := cmp.Diff([]string{"database"}, report.NeedsRestart); diff != "" {
		t.Errorf("needs_restart (-want +got):\n%s", diff)
	}
	if report.Changed() {
		t.Errorf("report = %+v, want nothing applied", report)
	}
}

func TestAReloadThatNobodyWaitsForChangesNothing(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.install("staged", traits{Version: "2.0.0"})
	r.lock()
	if _, err := r.Reload(ctx); err == nil {
		t.Error("a cancelled reload was carried out")
	}
	if got := r.version(); got != "1.0.0" {
		t.Errorf("version = %s, want 1.0.0", got)
	}
}

func TestAfterCloseNothingChangesAndTheSetupIsStillThere(t *testing.T) {
	r := newRig(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reload(t.Context()); err == nil {
		t.Error("a closed setup was reloaded")
	}
	if err := r.host.Close(); err != nil {
		t.Fatal(err)
	}
	s, release := r.Hold()
	defer release()
	if s.Tree == nil || s.Drivers == nil {
		t.Errorf("setup = %+v, want the last one", s)
	}
}

// TestNoStepIsLostUnderReloads drives runs from several callers while versions
// change under them.
func TestNoStepIsLostUnderReloads(t *testing.T) {
	const callers, swaps = 6, 12
	r := newRig(t)
	uri := r.mint(twice)[0]
	var stop atomic.Bool
	var wg sync.WaitGroup
	runs := make([][]run.ID, callers)
	for i := range callers {
		wg.Go(func() {
			for !stop.Load() || len(runs[i]) == 0 {
				id, err := r.play(uri)
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				runs[i] = append(runs[i], id)
			}
		})
	}
	for n := range swaps {
		// Every other version does not read what the one before kept.
		r.install("staged", traits{Version: fmt.Sprintf("2.%d.0", n), Reads: []int{1, 2 + n/2}, Writes: 1 + n%2*(1+n/2), Slow: n%3 == 0})
		r.lock()
		if _, err := r.Reload(t.Context()); err != nil {
			t.Errorf("swap %d: %v", n, err)
		}
	}
	stop.Store(true)
	wg.Wait()
	total := 0
	for _, ids := range runs {
		for _, id := range ids {
			line, err := r.engine.Archive.Timeline(t.Context(), caller, id)
			if err != nil || !line.Verified {
				t.Errorf("run %s: verified = %v, %s, %v", id, line.Verified, line.Problem, err)
			}
			total++
		}
	}
	if total < callers {
		t.Errorf("%d runs were finished, want at least one a caller", total)
	}
}

// play runs the protocol to its end. A step may start over, but no call fails.
func (r *rig) play(uri string) (run.ID, error) {
	round, err := r.engine.Runs.Begin(context.Background(), caller, api.BeginRequest{URI: uri})
	if err != nil {
		return "", err
	}
	reply := round.Reply
	for range 200 {
		if reply.ErrorCode != "" {
			return "", fmt.Errorf("step %d: %s: %s", reply.StepIndex, reply.ErrorCode, reply.Message)
		}
		if strings.Contains(reply.Message, "All steps are complete") {
			_, err := r.engine.Runs.Attest(context.Background(), caller, api.AttestRequest{
				URI: uri, RunID: reply.RunID, Outcome: "success", Message: "done",
			})
			return run.ID(reply.RunID), err
		}
		if reply, err = r.say(reply); err != nil {
			return "", err
		}
	}
	return "", errors.New("the run does not end")
}

// A rollback must not excuse a step from what the operator demands.
func TestRulesHoldAfterARollback(t *testing.T) {
	r := newRig(t)
	r.change(func(r *rig) { r.rules = "rules: [{evidence: server}]" })
	r.reload()
	r.install("staged", traits{Version: "2.0.0", Reads: []int{1}, Writes: 1})
	r.lock()
	r.reload()
	report, err := r.Rollback(t.Context())
	if err != nil || report.Rules != setup.Same {
		t.Errorf("Rollback = %+v, %v, want the same rules", report, err)
	}
	s, release := r.Hold()
	defer release()
	if s.Rules.Len() != 1 {
		t.Errorf("there are %d rules after a rollback, want 1", s.Rules.Len())
	}
}

func TestRulesAreTakenUpWithTheTree(t *testing.T) {
	r := newRig(t)
	held := func() int {
		s, release := r.Hold()
		defer release()
		return s.Rules.Len()
	}
	r.change(func(r *rig) { r.rules = "rules: [{evidence: server}]" })
	if report := r.reload(); report.Rules != setup.Changed || report.Tree != setup.Same || held() != 1 {
		t.Errorf("report = %+v with %d rules, want one rule taken up", report, held())
	}
	r.change(func(r *rig) { r.rules += " # the same" })
	if report := r.reload(); report.Changed() {
		t.Errorf("report = %+v, want that nothing changed", report)
	}
	r.change(func(r *rig) { r.rules = "rules: [{evidnce: server}]" })
	if _, err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), `did you mean "evidence"?`) || held() != 1 {
		t.Errorf("Reload = %v with %d rules, want the mistake named and the rule before it held", err, held())
	}
}
