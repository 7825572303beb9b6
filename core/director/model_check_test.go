package director_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
)

func keysOf(solved map[string]int, replaced map[string]bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range solved {
			if !yield(k) {
				return
			}
		}
		for k := range replaced {
			if !yield(k) {
				return
			}
		}
	}
}

// one makes one call.
func (m *model) one(rt *rapid.T) {
	i := m.pick(rt)
	m.play(rt, i, []call{m.draw(rt, i)})
}

// pick is a run, mostly one that is open.
func (m *model) pick(rt *rapid.T) int {
	if len(m.runs) == 0 {
		rt.Skip("no run")
	}
	var open []int
	for i, r := range m.runs {
		if r.live() {
			open = append(open, i)
		}
	}
	if len(open) > 0 && rapid.IntRange(0, 9).Draw(rt, "any run") > 0 {
		return rapid.SampledFrom(open).Draw(rt, "run")
	}
	return rapid.IntRange(0, len(m.runs)-1).Draw(rt, "run")
}

// together makes calls on one run at the same time, mostly the same one.
func (m *model) together(rt *rapid.T) {
	i := m.pick(rt)
	calls := []call{m.draw(rt, i)}
	for n := rapid.IntRange(1, 2).Draw(rt, "more"); n > 0; n-- {
		if rapid.IntRange(0, 2).Draw(rt, "another") == 0 {
			calls = append(calls, m.draw(rt, i))
			continue
		}
		same := calls[0]
		same.server = rapid.IntRange(0, 1).Draw(rt, "server")
		calls = append(calls, same)
	}
	m.play(rt, i, calls)
}

// play makes the calls at once, and finds an order in which they could have come.
func (m *model) play(rt *rapid.T, i int, calls []call) {
	r := m.runs[i]
	at := m.conditions()
	at.shared = len(calls) > 1
	at.acts = at.shared && slices.ContainsFunc(calls, r.mayAct)
	got := make([]result, len(calls))
	start := make(chan struct{})
	var all sync.WaitGroup
	for n, c := range calls {
		all.Go(func() {
			<-start
			got[n] = m.do(c, r)
		})
	}
	close(start)
	all.Wait()
	for n, c := range calls {
		m.note("run %d, %d at once: %s\n\t-> %s", i, len(calls), c, got[n])
		m.valid(rt, got[n])
	}
	stored, events := m.stored(rt, r.id)
	at.begun = func(key recordKey) bool { return m.begunIs(rt, r.id, key) }
	var whys []string
	for _, order := range orders(len(calls)) {
		states := []branch{{m: r}}
		for _, n := range order {
			var next []branch
			for _, s := range states {
				for _, b := range s.m.take(calls[n], at, got[n]) {
					if b.why != "" {
						whys = append(whys, fmt.Sprintf("order %v, call %d: %s", order, n, b.why))
						continue
					}
					next = append(next, b)
				}
			}
			states = next
		}
		for _, s := range states {
			why := s.m.differs(stored, events)
			if why == "" {
				m.runs[i] = s.m
				return
			}
			whys = append(whys, fmt.Sprintf("order %v: the store has %s", order, why))
		}
	}
	slices.Sort(whys)
	m.fatal(rt, "no order of the calls explains what came of them:\n%s", strings.Join(slices.Compact(whys), "\n"))
}

// orders lists the permutations of n calls.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var out [][]int
	for _, shorter := range orders(n - 1) {
		for at := range n {
			out = append(out, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return out
}

// valid: a reply is what the tool's schema says.
func (m *model) valid(rt *rapid.T, got result) {
	if got.reply == nil {
		return
	}
	if problems := m.reply.Validate(json.RawMessage(got.told())); len(problems) > 0 {
		m.fatal(rt, "the reply does not fit its schema: %v\n%s", problems, got)
	}
}

// stored reads a run from the database, past the servers.
func (m *model) stored(rt *rapid.T, id run.ID) (run.Run, []run.Event) {
	r, err := m.store.Run(context.Background(), id)
	if err != nil {
		m.fatal(rt, "run %s is not stored: %v", id, err)
	}
	events, err := m.store.Events(context.Background(), id)
	if err != nil {
		m.fatal(rt, "run %s has no past: %v", id, err)
	}
	return r.Recall(run.Run{}, events), events
}

// begunIs tells whether the store holds that a driver has begun to act for the call.
func (m *model) begunIs(rt *rapid.T, id run.ID, key recordKey) bool {
	rec, ok, err := m.store.Recorded(context.Background(), id, "nonce:"+key.name)
	if err != nil {
		m.fatal(rt, "what is recorded in run %s: %v", id, err)
	}
	return ok && strings.HasPrefix(string(rec.Reply), `{"begun":`) && rec.Payload == fmt.Sprintf("%x", sha256.Sum256([]byte(key.payload)))
}

// differs says how a stored run differs from the model; empty: it does not.
func (m modelRun) differs(r run.Run, events []run.Event) string {
	state := r.State
	if state == run.Asking || state == run.Waiting {
		state = run.Open
	}
	if m.expired && state == run.Ended && m.state != run.Closed {
		state = m.state
	}
	q, want := int64(0), int64(0)
	if r.Step.Question != nil {
		q = r.Step.Question.Seq
	}
	if m.question != nil {
		want = m.question.seq
	}
	if m.expired && r.State == run.Ended {
		want = 0
	}
	counted := 0
	for _, ev := range events {
		if ev.Kind == run.Refused || ev.Kind == run.Rejected {
			counted++
		}
	}
	switch {
	case counted != m.counted:
		return fmt.Sprintf("%d failures of all steps, want %d", counted, m.counted)
	case state != m.state:
		return fmt.Sprintf("state %s, want %s", r.State, m.state)
	case r.Step.Index != m.step+1 || len(r.Proofs) != m.step || len(r.Evidence) != m.step:
		return fmt.Sprintf("step %d with %d proofs, want %d", r.Step.Index, len(r.Proofs), m.step+1)
	case r.Step.Nonce != m.nonce:
		return fmt.Sprintf("nonce %s, want %s", r.Step.Nonce, m.nonce)
	case r.Step.Failures != m.failures:
		return fmt.Sprintf("%d failures, want %d", r.Step.Failures, m.failures)
	case q != want:
		return fmt.Sprintf("question %d, want %d", q, want)
	case (r.Step.Call != nil) != m.unknown:
		return fmt.Sprintf("open call %+v, want one: %t", r.Step.Call, m.unknown)
	case (len(r.Step.Declines) > 0) != m.declined:
		return fmt.Sprintf("declines %v, want some: %t", r.Step.Declines, m.declined)
	case cmp.Compare(r.Outcome, m.outcome) != 0:
		return fmt.Sprintf("outcome %q, want %q", r.Outcome, m.outcome)
	}
	if err := r.Verify(); err != nil {
		return "a broken chain: " + err.Error()
	}
	return m.differsInProofs(r)
}

func (m modelRun) differsInProofs(r run.Run) string {
	for i, p := range r.Proofs {
		if p.Hash != m.proofs[i] {
			return fmt.Sprintf("proof %s of step %d, want %s", p.Hash, i+1, m.proofs[i])
		}
		var has []string
		for _, a := range r.Evidence[i].Answers {
			has = append(has, markerIn(a.Value))
		}
		if m.markers[i] == "" && slices.ContainsFunc(has, func(s string) bool { return s != "" }) || m.markers[i] != "" && !slices.Contains(has, m.markers[i]) {
			return fmt.Sprintf("evidence %q of step %d, want %q", has, i+1, m.markers[i])
		}
	}
	var held []string
	for _, a := range r.Step.Answers {
		held = append(held, markerIn(a.Value))
	}
	if len(held) != len(m.held) || len(held) > 0 && held[0] != m.held[0] && "!"+held[0] != m.held[0] {
		return fmt.Sprintf("evidence %q that is not judged, want %q", held, m.held)
	}
	return ""
}

// markerIn finds the marker in evidence, or in the solution that is evidence where a
// step has no challenge.
func markerIn(value json.RawMessage) string {
	if marker := markerOf(value); marker != "" {
		return marker
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return ""
	}
	for _, v := range fields {
		if marker := markerOf(v); marker != "" {
			return marker
		}
	}
	return ""
}

// check compares all runs with the database, also those that no call was on.
func (m *model) check(rt *rapid.T) {
	for i, r := range m.runs {
		stored, events := m.stored(rt, r.id)
		if why := r.differs(stored, events); why != "" {
			m.fatal(rt, "run %d: the store has %s", i, why)
		}
		if stored.Principal != m.caller.Principal || stored.Space != m.caller.Space {
			m.fatal(rt, "run %d belongs to %s in %s", i, stored.Principal, stored.Space)
		}
		accepted := map[int]bool{}
		for _, ev := range events {
			if ev.Run != r.id {
				m.fatal(rt, "run %d has an event of run %s", i, ev.Run)
			}
			if ev.Kind == run.Accepted && accepted[ev.Step] {
				m.fatal(rt, "run %d: step %d was accepted twice", i, ev.Step)
			}
			accepted[ev.Step] = accepted[ev.Step] || ev.Kind == run.Accepted
		}
		m.checkDeeds(rt, i, r)
	}
	for marker, n := range m.deeds.counts() {
		for _, r := range m.runs {
			n -= r.decided[marker] // a person said that it had not happened
		}
		if n > 1 {
			m.fatal(rt, "%s was done %d times too often", marker, n-1)
		}
	}
}

// checkDeeds: what is proved to be done was done, once.
func (m *model) checkDeeds(rt *rapid.T, i int, r modelRun) {
	for step, marker := range r.markers {
		if r.kinds[step] == effectful && marker != "" && m.deeds.counts()[marker] == 0 {
			m.fatal(rt, "run %d: step %d is proved and was not done", i, step+1)
		}
	}
}

// restart ends the servers, as a crash does, and starts them again on the same file.
func (m *model) restart(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "both") {
		m.close()
		m.open()
		m.note("restart of both servers")
		return
	}
	i := rapid.IntRange(0, 1).Draw(rt, "server")
	if err := m.servers[i].Close(); err != nil {
		m.fatal(rt, "%v", err)
	}
	m.serve(i)
	m.note("restart of server %d", i)
}

// driver breaks or repairs a driver.
func (m *model) driver(rt *rapid.T) {
	broken, dies := rapid.Bool().Draw(rt, "broken"), rapid.Bool().Draw(rt, "dies")
	m.fakes.set(reported, broken)
	m.deeds.set(dies)
	m.note("drivers: reported broken %t, acting dies %t", broken, dies)
}

// time lets time pass: a little, too long for an approval, or too long for a run.
func (m *model) time(rt *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Second, time.Second, time.Second, 2 * time.Hour, 2 * time.Hour, 8 * 24 * time.Hour}).Draw(rt, "passes")
	m.machine.Pass(d)
	if d > 7*24*time.Hour {
		for i := range m.runs {
			m.runs[i].expired = true
		}
	}
	m.note("%s pass", d)
}

// finish plays every run that is open to its end: none is stuck.
func (m *model) finish(rt *rapid.T) {
	m.fakes.set(reported, false)
	m.deeds.set(false)
	m.machine.Pass(2 * time.Minute) // people are left alone for one
	for i := range m.runs {
		for range 40 {
			r := m.runs[i]
			if !r.live() {
				break
			}
			m.play(rt, i, []call{m.onward(r)})
		}
		if m.runs[i].live() {
			m.fatal(rt, "run %d cannot be finished", i)
		}
	}
	m.check(rt)
}

// onward is the call that brings a run further.
func (m *model) onward(r modelRun) call {
	m.markers++
	c := call{what: "next", nonce: r.nonce, hash: r.proofHash(), marker: fmt.Sprintf("m%d", m.markers), ok: true, supplied: true}
	switch {
	case r.complete():
		return call{what: "attest", outcome: "success"}
	case r.unknown:
		return call{what: "decide"}
	case r.question != nil:
		return call{what: "answer", seq: r.question.seq, action: "accept", marker: c.marker}
	case r.declined && r.declines >= 3:
		return call{what: "attest", outcome: "failure"}
	case r.kind() == personal, r.kind() == gated && r.approved.IsZero():
		c.supplied = false
	}
	c.typ = cmp.Or(r.kind(), "comment")
	c.solution = solutionOf(c)
	return c
}
