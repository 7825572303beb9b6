package soak_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/play"
)

// sweep kills the server at one moment of one call after the other.
type sweep struct {
	t      *testing.T
	server *play.Server

	mu   sync.Mutex               // guards the fields below
	took map[string]time.Duration // on average, by call
	call string                   // at which the next kill comes; empty: none
	part float64                  // of its duration that passes before
	hit  map[string]int           // by call and what was stored
	due  chan func()              // the kill
}

// A kill at any moment of a call is one that some offset from its start reaches: before
// and after question, effect, answer, verdict, commit and reply. So the kills step
// through the whole duration of each call: in both eras with KAIROS_SOAK, else in one.
func TestAKillAtEachMomentOfACallLosesNothing(t *testing.T) {
	offsets, eras := 1, []int{rand.N(2)}
	if soaking() {
		offsets, eras = 25, []int{0, 1}
	}
	s := play.NewServer(t, bin)
	uri, ledger := s.Prepare(), play.NewLedger()
	w := &sweep{t: t, server: s, took: map[string]time.Duration{}, hit: map[string]int{}, due: make(chan func(), 1)}
	for _, era := range eras {
		p := play.NewPlayer(t, s, ledger, play.NewPoints(), era, uri)
		p.Calling = w.calling
		p.Run() // starts the drivers
		w.forget()
		p.Run()
		for _, call := range w.calls() {
			for i := range offsets {
				w.kill(p, call, (float64(i)+rand.Float64())/float64(offsets))
			}
		}
		p.Leave()
	}
	for _, what := range slices.Sorted(maps.Keys(w.hit)) {
		t.Logf("%4d × %s", w.hit[what], what)
	}
	s.Kill() // it knows nothing any more that it has not stored
	s.Start()
	ledger.Check(t, s)
}

// calls are the calls of a run, those that were measured.
func (w *sweep) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.took))
}

func (w *sweep) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.took)
}

// kill lets a run be made, and kills the server when a part of a call's duration has
// passed.
func (w *sweep) kill(p *play.Player, call string, part float64) {
	w.mu.Lock()
	w.call, w.part = call, part
	w.mu.Unlock()
	made := make(chan struct{})
	go func() {
		defer close(made)
		p.Run()
	}()
	select {
	case kill := <-w.due:
		kill()
	case <-made:
		w.t.Errorf("a run had no call %s", call)
	}
	<-made
}

// calling measures a call, and has the server killed during it if it is its turn.
func (w *sweep) calling(call, run string) (replied func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := time.Now()
	heard := make(chan struct{})
	if w.call == call {
		after := time.Duration(w.part * 1.2 * float64(w.took[call]))
		w.call = ""
		w.due <- func() { w.killAt(began.Add(after), call, run, heard) }
	}
	return func(err error) {
		if err != nil {
			return
		}
		close(heard)
		w.mu.Lock()
		defer w.mu.Unlock()
		if took := time.Since(began); w.took[call] == 0 {
			w.took[call] = took
		} else {
			w.took[call] += (took - w.took[call]) / 4
		}
	}
}

// killAt kills the server, with the reply at the latest, notes what was stored then, and
// starts it again.
func (w *sweep) killAt(moment time.Time, call, run string, heard <-chan struct{}) {
	select {
	case <-heard:
	case <-time.After(time.Until(moment)):
	}
	w.server.Kill()
	reply := "no reply"
	select {
	case <-heard:
		reply = "replied"
	default:
	}
	last := "nothing to look at"
	if run != "" {
		line, err := w.server.Timeline(run)
		if err != nil {
			w.t.Error(err)
		} else if n := len(line.Moments); n > 0 {
			last = fmt.Sprintf("stored: %s", line.Moments[n-1].What)
		}
	}
	w.server.Start()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hit[fmt.Sprintf("%s, %s, %s", call, last, reply)]++
}
