package driverhost

import "fmt"

// State is where a driver stands in its life.
type State string

// The states. Ready is the only one in which calls are served.
const (
	Registered  State = "registered"        // known; nothing has started yet
	Verifying   State = "verifying"         // its binary is held against the lock
	Starting    State = "starting"          // its process starts and is dialled
	Describing  State = "describing"        // what it says of itself is held against the lock
	Configuring State = "configuring"       // dry run first
	Probing     State = "probing"           // asked for its health
	Ready       State = "ready"             // serves calls
	Idle        State = "idle"              // stopped because nobody needed it; the next call starts it
	Backoff     State = "backoff"           // it failed; waits before the next start
	BreakerOpen State = "breaker_open"      // it failed too often; nothing is tried for a while
	HalfOpen    State = "breaker_half_open" // the next call tries one start
	Draining    State = "draining"          // takes no more calls; those in flight end
	Stopped     State = "stopped"           // the end
)

// happening is what moves a driver on.
type happening string

const (
	wanted     happening = "wanted" // somebody calls, or a swap prepares it
	sumMatched happening = "sum matched"
	connected  happening = "connected"
	described  happening = "described"
	configured happening = "configured"
	probed     happening = "probed"
	failed     happening = "failed"  // a step of the start did not succeed
	died       happening = "died"    // the process ended or became unreachable
	overdue    happening = "overdue" // a call timed out, and the process may never return from it
	tripped    happening = "tripped" // failed, died or was overdue once too often
	cooled     happening = "cooled"  // the breaker has been open long enough
	unused     happening = "unused"
	retired    happening = "retired"
	ended      happening = "ended"
)

// next is the whole life of a driver. What is not in it cannot happen.
var next = map[State]map[happening]State{
	Registered:  {wanted: Verifying, retired: Stopped},
	Verifying:   {sumMatched: Starting, failed: Backoff, tripped: BreakerOpen, retired: Draining},
	Starting:    {connected: Describing, failed: Backoff, tripped: BreakerOpen, retired: Draining},
	Describing:  {described: Configuring, failed: Backoff, tripped: BreakerOpen, retired: Draining},
	Configuring: {configured: Probing, failed: Backoff, tripped: BreakerOpen, retired: Draining},
	Probing:     {probed: Ready, failed: Backoff, tripped: BreakerOpen, retired: Draining},
	Ready:       {died: Backoff, overdue: Backoff, tripped: BreakerOpen, unused: Idle, retired: Draining},
	Idle:        {wanted: Verifying, retired: Stopped},
	Backoff:     {wanted: Verifying, retired: Stopped},
	BreakerOpen: {cooled: HalfOpen, retired: Stopped},
	HalfOpen:    {wanted: Verifying, retired: Stopped},
	Draining:    {ended: Stopped},
	Stopped:     {},
}

// step returns the state that follows.
func (s State) step(h happening) (State, error) {
	to, ok := next[s][h]
	if !ok {
		return s, fmt.Errorf("a driver that is %s cannot have %s", s, h)
	}
	return to, nil
}
