package soak_test

import (
	"math/rand/v2"
	"sync"
	"time"
)

// The points of a step that can be seen from outside. A kill at any moment reaches the
// others: verdict, commit, reply.
const (
	anyMoment     = "at any moment"
	pointSent     = "after the call was sent"
	pointAsked    = "before the answer to a question"
	pointAnswered = "after the answer to a question"
	pointActs     = "while a tool changes something"
)

var namedPoints = []string{pointSent, pointAsked, pointAnswered, pointActs}

// points tells the killer that a client has reached the point that it waits for.
type points struct {
	reached chan struct{}

	mu    sync.Mutex // guards armed
	armed string     // the point that the killer waits for
}

func newPoints() *points { return &points{reached: make(chan struct{}, 1)} }

// arm picks what the killer waits for: a named point, or half of the time none.
func (p *points) arm() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = anyMoment
	if rand.IntN(2) == 0 {
		p.armed = namedPoints[rand.IntN(len(namedPoints))]
	}
	return p.armed
}

// disarm ends the wait.
func (p *points) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = ""
	select {
	case <-p.reached: // too late
	default:
	}
}

// at says that somebody is at a point. At the one that the killer waits for, the
// caller waits a little, so that the kill comes before what follows.
func (p *points) at(point string) {
	p.mu.Lock()
	hit := p.armed == point
	if hit {
		p.armed = ""
		p.reached <- struct{}{} // has room: armed is set once for each receive
	}
	p.mu.Unlock()
	if hit {
		time.Sleep(20 * time.Millisecond)
	}
}
