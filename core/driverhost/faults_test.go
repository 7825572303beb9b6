package driverhost_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/e2e/programs"
)

// clinic is a host with a driver that can be broken and repaired, one that is
// well, and a run whose open step the broken one judges.
type clinic struct {
	hosted
	log    *programs.Output
	engine *director.Engine
	script string // what is wrong
	uri    string
	nonce  string
	hash   string // that the solution has to carry
	runID  string
	well   int // process of the driver that is well
}

const faultyProtocol = "# Trouble\n\n## One\n\nSay anything.\n\n```json\n" +
	`{"challenge": {"type": "faulty", "faulty": {}}}` + "\n```\n"

const agentOnly = `
defaults: {missing_type: faulty, no_challenge_type: faulty}
challenges:
  - match: {}
    evidence: [{via: agent}]
inputs:
  approval: [{via: agent}]
  files: [{via: agent}]
`

var patient = access.Caller{Principal: "local", Space: "user:local:operator"}

// clinicDrivers is the folder with the drivers of a clinic, which are built once.
var clinicDrivers = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(binaries, "clinic-")
	if err != nil {
		return "", err
	}
	for name, from := range map[string]string{
		"faulty": "./testdata/faulty", "agent": "../../plugins/agent", "alpha": "./testdata/driver",
	} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "kairos-driver-"+name), from)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
})

// newClinic makes a host that gives a start and a call that time.
func newClinic(t *testing.T, within time.Duration) *clinic {
	t.Helper()
	dir, err := clinicDrivers()
	check(t, err)
	c := &clinic{log: &programs.Output{}, script: filepath.Join(t.TempDir(), "fault")}
	t.Setenv("FAULT_FILE", c.script)
	c.hosted = newHost(t, driverhost.Config{
		Dir: dir, Lock: described(t, dir), Start: within, Call: within, Stop: 200 * time.Millisecond, Cool: 200 * time.Millisecond,
		Drivers: map[string]driverhost.DriverConfig{"faulty": {EnvFrom: []string{"FAULT_FILE"}}},
	}, c.log)
	tree, err := decision.Compile(decision.Source{Name: "test", YAML: []byte(agentOnly)}, c.Descriptors())
	check(t, err)
	store, err := sqlitetest.Open(filepath.Join(t.TempDir(), "kairos.db"), quiet())
	check(t, err)
	t.Cleanup(func() { check(t, store.Close()) })
	c.engine = director.New(director.Store{
		Protocols: store, Writer: store, Versions: store, Searcher: store, Vectors: store, Ratings: store,
		Runs: store, Index: store, History: store,
	}, driverstest.Fixed(drivers.Setup{Drivers: c.Set, Tree: tree}), director.Options{}, quiet())
	t.Cleanup(func() { check(t, c.engine.Close()) })
	minted, err := c.engine.Library.Mint(t.Context(), patient, api.MintRequest{Document: faultyProtocol, ModelID: "test"})
	check(t, err)
	c.uri = minted.Items[0].URI
	return c
}

// open opens a run with everything well.
func (c *clinic) open(t *testing.T) {
	t.Helper()
	c.repair(t)
	var begun director.Round
	eventually(t, "a run can be opened", func() bool {
		var err error
		begun, err = c.engine.Begin(t.Context(), patient, api.BeginRequest{URI: c.uri})
		return err == nil && begun.Reply != nil && begun.Reply.ErrorCode == ""
	})
	c.nonce, c.hash, c.runID = begun.Reply.Challenge.Nonce, begun.Reply.Challenge.ProofHash, begun.Reply.RunID
	c.well = pidOf(t, c.Set, "alpha")
}

func (c *clinic) breakIt(t *testing.T, what string) {
	t.Helper()
	check(t, os.WriteFile(c.script, []byte(what), 0o600))
}

func (c *clinic) repair(t *testing.T) { c.breakIt(t, "") }

// kill lets the next call start the driver anew.
func (c *clinic) kill(t *testing.T) {
	t.Helper()
	s, _ := c.StatusOf("faulty")
	if s.PID == 0 {
		return
	}
	check(t, syscall.Kill(s.PID, syscall.SIGKILL))
	eventually(t, "the process is gone", func() bool { now, _ := c.StatusOf("faulty"); return now.PID != s.PID })
}

func (c *clinic) submit(t *testing.T) *api.StepReply {
	t.Helper()
	round, err := c.engine.Next(t.Context(), patient, api.NextRequest{URI: c.uri, RunID: c.runID, Solution: json.RawMessage(
		fmt.Sprintf(`{"type":"faulty","nonce":%q,"proof_hash":%q,"evidence":{"said":"anything"}}`, c.nonce, c.hash))})
	check(t, err)
	if round.Reply == nil {
		t.Fatal("there is no reply")
	}
	return round.Reply
}

func TestWhateverADriverDoesTheServerStaysUpAndTheRunIsNotLost(t *testing.T) {
	newClinic(t, time.Second).suffer(t, []trouble{
		{fault: "never-handshakes", atStart: true, reason: "it was not ready within 1s"},
		{fault: "slow", reason: "did not answer within 1s"},
		{fault: "freezes", reason: "did not answer within 1s"},
	})
	newClinic(t, 10*time.Second).suffer(t, []trouble{
		{fault: "closes-stdout", atStart: true, reason: "closed its stdout without a handshake"},
		{fault: "noise-first", atStart: true, reason: "start driver faulty"},
		{fault: "exits", atStart: true, reason: "cannot open /var/lib/faulty"},
		{fault: "unhealthy", atStart: true, reason: "the database is away"},
		{fault: "floods-at-start", atStart: true, none: true},
		{fault: "crashes 1", reason: "its process died during the call"},
		{fault: "crashes 3", none: true},
		{fault: "panics", reason: "index out of range, on purpose"},
		{fault: "garbage", reason: "JSON"},
		{fault: "no-outcome", reason: "outcome"},
		{fault: "huge", reason: "larger than max"},
		{fault: "grandchild", reason: "its process died during the call"},
		{fault: "fork-bomb", reason: "its process died during the call"},
		{fault: "floods", none: true},
	})
}

// trouble is what a driver does wrong.
type trouble struct {
	fault   string
	atStart bool
	reason  string // in the reply, the status and the log
	none    bool   // the step is judged all the same
}

// suffer opens a run for each trouble, lets the driver have it, and repairs the driver.
func (c *clinic) suffer(t *testing.T, all []trouble) {
	t.Helper()
	for _, tc := range all {
		t.Run(tc.fault, func(t *testing.T) {
			c.open(t)
			if tc.atStart {
				c.breakIt(t, tc.fault)
				c.kill(t)
			} else {
				c.breakIt(t, tc.fault)
			}
			reply := c.submit(t)
			if tc.none {
				if reply.ErrorCode != "" {
					t.Fatalf("error %s: %s", reply.ErrorCode, reply.Message)
				}
			} else {
				c.checkRefused(t, reply, tc.reason)
			}
			if got := pidOf(t, c.Set, "alpha"); got != c.well {
				t.Errorf("the driver that is well has process %d now, had %d", got, c.well)
			}
			c.checkNobodyLeft(t)
			c.repair(t)
			eventually(t, "the step is judged", func() bool { return c.submit(t).ErrorCode == "" })
			attested, err := c.engine.Attest(t.Context(), patient, api.AttestRequest{URI: c.uri, RunID: c.runID, Outcome: "success", Message: "done"})
			if err != nil || !attested.Verified {
				t.Errorf("Attest = %+v, %v", attested, err)
			}
		})
	}
}

func (c *clinic) checkRefused(t *testing.T, reply *api.StepReply, reason string) {
	t.Helper()
	if reply.ErrorCode != string(fault.DriverUnavailable) {
		t.Errorf("error code %q, want %s", reply.ErrorCode, fault.DriverUnavailable)
	}
	if reply.RetryCount != nil && *reply.RetryCount != 0 {
		t.Errorf("%d attempts are counted", *reply.RetryCount)
	}
	status, _ := c.StatusOf("faulty")
	for where, text := range map[string]string{"the reply": reply.Message, "the status": status.LastError} {
		if !strings.Contains(text, reason) {
			t.Errorf("%s says %q, want something with %q", where, text, reason)
		}
	}
}

// checkNobodyLeft makes sure that the children of a driver that died are gone.
func (c *clinic) checkNobodyLeft(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(c.script + ".pids")
	if err != nil {
		return // it had no children
	}
	for _, field := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(field)
		check(t, err)
		eventually(t, "a child of the driver is gone", func() bool { return gone(pid) })
	}
	check(t, os.Remove(c.script+".pids"))
}
