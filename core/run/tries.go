package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Tries is what was tried at a step without success. It stays with the evidence that
// is accepted in the end, so that one success does not pass for the only attempt.
type Tries struct {
	// Times is how often the evidence was tried to be obtained, with the time that
	// succeeded. A step that is not solved counts it in its Attempts.
	Times int `json:"times,omitempty"`
	// Failures counts refused submissions for this step.
	Failures int `json:"failures,omitempty"`
	Failed   Few `json:"failed,omitzero"` // of Failures
	// Discarded counts what the server observed itself and what did not count.
	Discarded int `json:"discarded,omitempty"`
	Observed  Few `json:"observed,omitzero"` // of Discarded
	// LeftOut counts events of the step that the record does not hold.
	LeftOut int `json:"events_left_out,omitempty"`
}

// Few are the first and the last few of what a caller can repeat without end. Those
// in between are only counted.
type Few struct {
	First []Failure `json:"first,omitempty"`
	Last  []Failure `json:"last,omitempty"` // that are not among First
}

// Failure is one attempt that did not count.
type Failure struct {
	At time.Time `json:"at"`
	// Via obtained what was discarded. It is empty if nothing was obtained.
	Via    string `json:"via,omitempty"`
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
}

// maxFew is how many are kept at each end, and maxFewReason how many bytes of each reason.
const (
	maxFew       = 3
	maxFewReason = 200
)

// All lists what is kept, the oldest first.
func (f Few) All() []Failure { return slices.Concat(f.First, f.Last) }

func (f *Few) add(one Failure) {
	if len(one.Reason) > maxFewReason {
		one.Reason = strings.ToValidUTF8(one.Reason[:maxFewReason], "") + "…"
	}
	if len(f.First) < maxFew {
		f.First = append(slices.Clip(f.First), one) // the run before the event has it, too
		return
	}
	f.Last = lastOf(append(slices.Clip(f.Last), one), maxFew)
}

// redacted is without the words, which may quote values.
func (f Few) redacted() Few {
	without := func(all []Failure) []Failure {
		all = slices.Clone(all)
		for i := range all {
			all[i].Reason = ""
		}
		return all
	}
	return Few{First: without(f.First), Last: without(f.Last)}
}

func (t Tries) redacted() Tries {
	t.Failed, t.Observed = t.Failed.redacted(), t.Observed.redacted()
	return t
}

// fail counts a submission or a result that was refused.
func (t *Tries) fail(e Event) {
	t.Failures++
	t.Failed.add(Failure{At: e.At, Code: e.Code, Reason: e.Reason})
}

// discard counts those of the answers that the server observed itself.
func (t *Tries) discard(answers []driver.Answer, e Event) {
	code := e.Code
	if code == "" {
		code = string(e.Kind)
	}
	for _, a := range answers {
		if a.Provenance == driver.ServerObserved && a.Via != CoreDriver {
			t.Discarded++
			t.Observed.add(Failure{At: e.At, Via: a.Via, Code: code, Reason: e.Reason})
		}
	}
}

// discardLook counts what the challenge driver observed itself, which is not among the answers.
func (s *Step) discardLook(e Event) {
	via := e.Via
	if w := s.Withheld; w != nil && w.Provenance == driver.ServerObserved {
		via = w.Via
	}
	if via != "" && !slices.ContainsFunc(s.Answers, func(a driver.Answer) bool { return a.Via == via }) {
		s.discard([]driver.Answer{{Via: via, Provenance: driver.ServerObserved}}, e)
	}
}

// lookFailed counts an attempt of a driver that looked, and brought nothing back.
func (s *Step) lookFailed(e Event) {
	if a, p := e.Attempt, s.Plan; p != nil && p.Driver == a.Via && !a.Untried {
		s.Discarded++
		s.Observed.add(Failure{At: e.At, Via: a.Via, Code: a.Outcome, Reason: a.Reason})
	}
}

// Unsuccessful returns what was tried at the step without success so far, or nil.
func (s Step) Unsuccessful() *Tries {
	t := s.Tries
	for input, n := range s.Attempts {
		if rule := rules[input]; !rule.ungated && !rule.ofRun {
			t.Times = max(t.Times, n)
		}
	}
	if t.Failures == 0 && t.Discarded == 0 && t.LeftOut == 0 {
		return nil
	}
	return &t
}

// The record keeps the first events of a step, of which the last may exceed the bytes,
// however often its caller repeats something.
const (
	maxEvents     = 200
	maxEventBytes = 1 << 20
)

// StepTries is what was tried at a step without success.
type StepTries struct {
	Step   int  `json:"step"` // 1-based
	Solved bool `json:"solved"`
	Tries
}

// Unsuccessful lists the steps whose first attempt did not succeed, the open one included.
func (r Run) Unsuccessful() (all []StepTries) {
	for i, ev := range r.Evidence {
		if ev.Tries != nil {
			all = append(all, StepTries{i + 1, true, *ev.Tries})
		}
	}
	if open := r.Step.Unsuccessful(); open != nil {
		all = append(all, StepTries{r.Step.Index, false, *open})
	}
	return all
}

// Counts says to people how much was tried: "3 attempts, 2 failures, 2 observations of
// the server that did not count".
func (t Tries) Counts() string {
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{
		{t.Times, "attempt", "attempts"}, {t.Failures, "failure", "failures"},
		{t.Discarded, "observation of the server that did not count", "observations of the server that did not count"},
		{t.LeftOut, "event that is not recorded", "events that are not recorded"},
	} {
		switch {
		case p.n == 1:
			parts = append(parts, "1 "+p.one)
		case p.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.many))
		}
	}
	return strings.Join(parts, ", ")
}

// always are the events that the record holds in any case: a step or a run has one of each.
var always = map[Kind]bool{Accepted: true, Attested: true, Expired: true, Abandoned: true, Redacted: true}

// full reports whether the record keeps no more events of the step.
func (s Step) full() bool { return s.Events >= maxEvents || s.EventBytes >= maxEventBytes }

// weigh counts an event of the open step.
func (s *Step) weigh(e Event) {
	switch {
	case always[e.Kind] || e.Step != s.Index:
	case s.full():
		s.LeftOut++
	default:
		s.Events++
		s.EventBytes += e.size()
	}
}

// Records reports whether the record of a run holds the event that led from before to
// after: it keeps the first ones of each step, and counts the others.
func Records(before, after Run) bool {
	return before.Step.Index != after.Step.Index || before.Step.LeftOut == after.Step.LeftOut
}

// size is about how many bytes an event takes in the record.
func (e Event) size() int {
	n := 256 + len(e.Reason) + len(e.Walk) + len(e.Facts) + len(e.State.Data)
	for _, in := range e.Inputs {
		n += inputSize(in)
	}
	if q := e.Question; q != nil {
		n += 256 + inputSize(q.Input) + len(q.Ask.Params) + len(q.Client.Capabilities)
	}
	if a := e.Answer; a != nil {
		n += len(a.Value)
	}
	if p := e.Plan; p != nil {
		n += len(p.Text) + len(p.Data) + len(p.Proposed) + len(p.Action)
	}
	if v := e.Withheld; v != nil {
		n += len(v.Proof) + len(v.Output)
	}
	for _, d := range e.Diagnostics {
		n += len(d.Message)
	}
	return n
}

func inputSize(in driver.Input) int {
	return len(in.Description) + len(in.System) + len(in.User) + len(in.Schema) + len(in.Display)
}

// maxSame is how often one outcome of one route is kept for the open step; more than
// a tree can have retries.
const maxSame = 16

// close adds an attempt to those that are finished, and drops the oldest of its kind.
func (s *Step) close(a Attempt) {
	same := func(b Attempt) bool {
		return b.Input == a.Input && b.Route == a.Route && b.Path == a.Path && b.Via == a.Via && b.Outcome == a.Outcome && b.Untried == a.Untried
	}
	n := 0
	for _, b := range s.Tried {
		if same(b) {
			n++
		}
	}
	if n >= maxSame {
		i := slices.IndexFunc(s.Tried, same)
		s.Tried = slices.Delete(s.Tried, i, i+1)
	}
	s.Tried = append(s.Tried, a)
}

// maxEarlier is how many earlier numbers of a question are kept: a decline of an older
// one does not count any more.
const maxEarlier = 64

func lastOf[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }
