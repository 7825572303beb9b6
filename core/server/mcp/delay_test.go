package mcp_test

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
)

// reading is how long the person of these tests reads. What is measured may be longer on a busy machine.
const reading = 300 * time.Millisecond

// measured checks what the director was told of how long an answer took.
func measured(t *testing.T, got *run.Delay) {
	t.Helper()
	switch {
	case got == nil:
		t.Fatal("the time of the answer was not measured")
	case got.After < reading/2 || got.After > time.Minute: // the client may read a question before its sending returned
		t.Errorf("the answer took %s, want about the %s that the client waited", got.After, reading)
	case got.RoundTrip <= 0:
		t.Error("no round trip is known after the handshake")
	}
}

func TestTheTimeThatAnAnswerTookIsMeasured(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		d := newDirector(elicit("sure?"))
		w := dial(t, config(), d)
		w.initialize(everything)
		id := w.call("kairos_begin", beginArgs)
		q := w.question("elicitation/create")
		<-time.After(reading)
		w.answer(q.ID, accepted)
		w.step(id)
		measured(t, (<-d.continued).Delay)
	})
	t.Run("http", func(t *testing.T) {
		d := newDirector(elicit("sure?"))
		v := newSite(t, config(), d).visit(everything)
		id, r := v.call("kairos_begin", beginArgs)
		q := r.question("elicitation/create")
		<-time.After(reading)
		v.answer(q.ID, accepted)
		r.step(id)
		measured(t, (<-d.continued).Delay)
	})
}

// The time is that of the copy which is answered: a form that was just shown again was not read for long.
func TestACopyThatIsAnsweredAtOnceIsNotTimedByTheFirst(t *testing.T) {
	d := newDirector(elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	id := w.call("kairos_begin", beginArgs)
	w.question("elicitation/create")
	began := time.Now()
	<-time.After(2 * reading)
	w.raw(cancelled(id))
	id = w.call("kairos_next", beginArgs)
	second := w.question("elicitation/create")
	w.answer(second.ID, accepted)
	w.step(id)
	if got := (<-d.continued).Delay; got == nil || got.After >= time.Since(began)-reading {
		t.Errorf("the answer to the second copy took %+v, %s after the first was sent", got, time.Since(began))
	}
}

// Answers that need no person tell the shortest round trip.
func TestTheShortestRoundTripOfTheConnectionIsKnown(t *testing.T) {
	d := newDirector(sample("say"), elicit("sure?"))
	w := dial(t, config(), d)
	w.initialize(everything)
	id := w.call("kairos_begin", beginArgs)
	w.answer(w.question("sampling/createMessage").ID, `{"model":"m","role":"assistant","content":{"type":"text","text":"x"}}`)
	machine := (<-d.continued).Delay
	w.answer(w.question("elicitation/create").ID, accepted)
	w.step(id)
	person := (<-d.continued).Delay
	if machine == nil || person == nil || person.RoundTrip <= 0 || person.RoundTrip > machine.After {
		t.Errorf("sampling took %+v, and then the round trip is %+v, want at most that", machine, person)
	}
}
