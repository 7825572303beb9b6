package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
)

const oneCount = "# Count\n\n## Count\n\nCount one up.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"evidence_from\":\"server\"," +
	"\"mcp\":{\"tool_name\":\"count\",\"arguments\":{}}}}\n```\n"

// withCounter is a server that may call a tool which writes down each call. The
// settings are more of its configuration, the arguments those of the counter.
func withCounter(t *testing.T, settings string, args ...string) (s *served, uri string) {
	t.Helper()
	s = &served{t: t, dir: t.TempDir()}
	if err := os.Mkdir(s.path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", s.path("counter"), "./testdata/counter")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the counter: %v\n%s", err, out)
	}
	s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: off}\ndrivers: {dir: "+buildDrivers(t)+"}\n"+settings)
	add := append([]string{"tools", "add", "counter", "--changes", "count", "--", s.path("counter"), s.path("work/acts")}, args...)
	if out, err := s.program(add...).CombinedOutput(); err != nil {
		t.Fatalf("tools add: %v\n%s", err, out)
	}
	p := s.pipe(t, legacyEra, hasNothing)
	r := p.opens(oneCount)
	p.leave()
	if out, err := s.program("allow", r.RunID, "--yes").CombinedOutput(); err != nil {
		t.Fatalf("allow: %v\n%s", err, out)
	}
	return s, r.CurrentStep.URI
}

// processesOf lists the processes below one whose command line has the name.
func processesOf(t *testing.T, parent int, name string) (found []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(dir + "/cmdline")
		if !bytes.Contains(line, []byte(name)) {
			continue
		}
		for above := pid; above > 1; above = parentOf(above) {
			if above == parent {
				found = append(found, pid)
			}
		}
	}
	return found
}

// awaitEnd waits until the processes have ended, and what they have started.
func awaitEnd(t *testing.T, pids []int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(pids) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v run on", pids)
		}
		var left []int
		for _, pid := range pids {
			if parentOf(pid) > 0 {
				left = append(left, processesOf(t, pid, "")...) // it is one of them
			}
		}
		slices.Sort(left)
		pids = slices.Compact(left)
	}
}

// parentOf is 0 for a process that has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}

// continued is the reply to a kairos_next, for which a person may have to approve.
func (p *piped) continued(r *api.StepReply) *api.StepReply {
	p.t.Helper()
	p.call("kairos_next", p.next(r, ""), "")
	h := p.hear()
	reply := new(api.StepReply)
	if h.Method == "elicitation/create" {
		if _, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", h.ID, filled(yes)); err != nil {
			p.t.Fatal(err)
		}
		p.reply(reply)
		return reply
	}
	if err := json.Unmarshal(h.Result.Structured, reply); err != nil {
		p.t.Fatal(err)
	}
	return reply
}

// The server and the driver are killed while KAIROS calls a tool that changes something:
// it is called at most once for a step, and a call that is reported was made.
func TestAToolIsCalledAtMostOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	kills := 12
	if os.Getenv("KAIROS_SOAK") != "" {
		kills = 100
	}
	s, uri := withCounter(t, "")
	calls := func() int { return len(s.keys("acts")) }
	outcomes := map[string]int{}
	var open *api.StepReply // of the run that was cut short
	for i := range kills {
		p := s.pipe(t, legacyEra, hasForms)
		if open != nil {
			before := calls()
			r := p.continued(open)
			if r.ErrorCode == "" && len(r.Solved) == 0 { // approved just now
				r = p.continued(open)
			}
			outcomes["server: "+r.ErrorCode]++
			if r.ErrorCode == "OUTCOME_UNKNOWN" && calls() != before {
				t.Fatalf("kill %d: it was called again although nobody knows whether it was called", i)
			}
		}
		start := calls()
		r := p.step("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri))
		p.approve(p.next(r, ""))
		p.call("kairos_next", p.next(r, ""), "")
		<-time.After(time.Duration(i) * 60 * time.Millisecond / time.Duration(kills)) // the call takes about 40 ms with the start of the tool server
		if i%2 == 0 {
			started := processesOf(t, p.cmd.Process.Pid, "")
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.cmd.Wait() // it was killed
			awaitEnd(t, started)
			open = r
		} else {
			for _, pid := range processesOf(t, p.cmd.Process.Pid, "kairos-driver-tools") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			done := new(api.StepReply)
			p.reply(done)
			outcomes["driver: "+done.ErrorCode]++
			if len(done.Solved) == 1 && calls() != start+1 {
				t.Fatalf("kill %d: solved with %d calls", i, calls()-start)
			}
			open = nil
			p.leave()
		}
		if n := calls() - start; n > 1 {
			t.Fatalf("kill %d: called %d times for one step", i, n)
		}
	}
	keys := s.keys("acts")
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] || key == "" {
			t.Errorf("the key %q was used twice", key)
		}
		seen[key] = true
	}
	t.Logf("%d kills, %d calls, outcomes %v", kills, len(keys), outcomes)
}
