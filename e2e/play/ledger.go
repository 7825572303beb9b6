package play

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
)

// Ledger is what the server has acknowledged to clients.
type Ledger struct {
	mu      sync.Mutex // guards the fields below and what is in them
	runs    map[string]*Entry
	replies int      // that were acknowledged
	journal *os.File // of a player in a process of its own; nil: none
}

// Entry is one run as its client knows it.
type Entry struct {
	l   *Ledger
	id  string
	who string

	acked   map[int]string // proof hash by step, as far as a reply named it
	seen    map[string]int // codes of replies that left the step open
	ended   bool
	sure    bool // verified, says the attestation
	notSure bool // a call whose outcome nobody knows
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{runs: map[string]*Entry{}} }

func (l *Ledger) begin(id, who string) *Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &Entry{l: l, id: id, who: who, acked: map[int]string{}, seen: map[string]int{}}
	l.runs[id] = e
	e.written()
	return e
}

func (e *Entry) note(code string) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.seen[code]++
	e.written()
}

func (e *Entry) codes() map[string]int {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	return maps.Clone(e.seen)
}

func (e *Entry) unknown() {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.notSure = true
	e.written()
}

func (e *Entry) attested(verified bool) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.ended, e.sure = true, verified
	e.written()
}

// acknowledge notes that a reply without an error says that steps are solved.
func (l *Ledger) acknowledge(t reporter, e *Entry, r *api.StepReply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer e.written()
	if r.RunID != e.id {
		t.Errorf("run %s: the reply is of run %s", e.id, r.RunID)
	}
	solved := r.StepIndex - 1
	if solvedAll(r) {
		solved = r.StepCount
	}
	e.upTo(solved)
	if r.ProofHash == "" {
		return
	}
	if was := e.acked[solved]; was != "" && was != r.ProofHash {
		t.Errorf("run %s, step %d: acknowledged with proof %s and again with %s", e.id, solved, was, r.ProofHash)
	}
	e.acked[solved] = r.ProofHash
}

// solvedAll reports whether the reply leaves nothing but the attestation.
func solvedAll(r *api.StepReply) bool { return strings.HasPrefix(r.NextAction, "call kairos_attest") }

// upTo notes that all steps up to one are solved.
func (e *Entry) upTo(step int) {
	for i := 1; i <= step; i++ {
		e.acked[i] += ""
	}
}

// resumed looks at where the server says that a run stands.
func (l *Ledger) resumed(t reporter, e *Entry, r *api.StepReply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stands := r.StepIndex - 1
	if solvedAll(r) {
		stands = r.StepCount
	}
	if r.RunID != e.id || stands < len(e.acked) {
		t.Errorf("run %s: resumed as %s with %d solved steps, but %d were acknowledged", e.id, r.RunID, stands, len(e.acked))
	}
	e.upTo(stands)
	e.written()
}

// Replies is how many replies were acknowledged.
func (l *Ledger) Replies() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replies
}

// Runs is how many runs were begun.
func (l *Ledger) Runs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

// Check compares the ledger with what the server has stored, and with the counter.
func (l *Ledger) Check(t *testing.T, s *Server) {
	t.Helper()
	s.AwaitReady()
	counted := s.Counted()
	verified, lost := 0, 0
	ids := slices.Collect(maps.Keys(l.runs))
	var checking sync.WaitGroup
	queue := make(chan string)
	for range 4 {
		checking.Go(func() {
			for id := range queue {
				l.runs[id].check(t, s, counted)
			}
		})
	}
	for _, id := range ids {
		e := l.runs[id]
		if e.sure {
			verified++
		}
		if e.notSure {
			lost++
		}
		queue <- id
	}
	close(queue)
	checking.Wait()
	for who, n := range counted {
		if n > 1 {
			t.Errorf("%s was counted %d times", who, n)
		}
	}
	if out, err := s.Kairos("doctor", "--deep"); err != nil {
		t.Errorf("doctor --deep: %v\n%s", err, out)
	}
	t.Logf("%d runs: %d verified, %d with an unknown outcome; %d calls of the tool, %d acknowledged replies", len(ids), verified, lost, len(counted), l.Replies())
}

// check compares one run.
func (e *Entry) check(t *testing.T, s *Server, counted map[string]int) {
	line, err := s.shown(e.id)
	if err != nil {
		t.Errorf("run %s was acknowledged and cannot be read: %v", e.id, err)
		return
	}
	accepted := map[int]string{}
	for _, m := range line.Moments {
		if m.What != "accepted" {
			continue
		}
		if accepted[m.Step] != "" {
			t.Errorf("run %s: step %d was accepted twice", e.id, m.Step)
		}
		accepted[m.Step] = m.ProofHash
	}
	for step, hash := range e.acked {
		if accepted[step] == "" || hash != "" && hash != accepted[step] {
			t.Errorf("run %s: step %d was acknowledged with proof %q, the store has %q", e.id, step, hash, accepted[step])
		}
	}
	if accepted[3] != "" && counted[e.who] != 1 {
		t.Errorf("run %s: the call of the tool is proved, and it was called %d times", e.id, counted[e.who])
	}
	switch {
	case !e.ended:
		t.Errorf("run %s was not finished: %v", e.id, e.seen)
	case e.sure != line.Verified:
		t.Errorf("run %s: attested with verified %t, the store says %t: %s", e.id, e.sure, line.Verified, line.Problem)
	case !e.sure && !e.notSure:
		t.Errorf("run %s is not verified: %s", e.id, line.Problem)
	}
}
