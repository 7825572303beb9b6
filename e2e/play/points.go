package play

import (
	"math/rand/v2"
	"sync"
	"time"
)

// The points of a step that can be seen from outside. A driver reads from its pipe
// before it judges and writes to it afterwards, and a database writes its log when
// it commits, so the kernel's counters tell of verdicts and commits.
const (
	AnyMoment     = "at any moment"
	PointSent     = "after the call was sent"
	PointAsked    = "before the answer to a question"
	PointAnswered = "after the answer to a question"
	PointActs     = "while a tool changes something"
	PointAsksWork = "before a driver's verdict"
	PointVerdict  = "after a driver's verdict"
	PointCommit   = "while the database commits"
	PointReply    = "at the first bytes of a reply"
)

// NamedPoints are those that the killer can wait for.
var NamedPoints = []string{PointSent, PointAsked, PointAnswered, PointActs, PointAsksWork, PointVerdict, PointCommit, PointReply}

// Points tells the killer that a client has reached the point that it waits for.
type Points struct {
	Reached chan struct{} // receives when a client is at the armed point

	mu    sync.Mutex // guards armed
	armed string     // the point that the killer waits for
}

// NewPoints returns points of which none is armed.
func NewPoints() *Points { return &Points{Reached: make(chan struct{}, 1)} }

// Arm picks what the killer waits for: a named point, or half of the time none.
func (p *Points) Arm() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = AnyMoment
	if rand.IntN(2) == 0 {
		p.armed = NamedPoints[rand.IntN(len(NamedPoints))]
	}
	return p.armed
}

// Disarm ends the wait.
func (p *Points) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = ""
	select {
	case <-p.Reached: // too late
	default:
	}
}

// At says that somebody is at a point. At the one that the killer waits for, the
// caller waits a little, so that the kill comes before what follows.
func (p *Points) At(point string) {
	p.mu.Lock()
	hit := p.armed == point
	if hit {
		p.armed = ""
		p.Reached <- struct{}{} // has room: armed is set once for each receive
	}
	p.mu.Unlock()
	if hit {
		time.Sleep(20 * time.Millisecond)
	}
}
