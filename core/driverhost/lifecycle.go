package driverhost

import "fmt"

// State is the lifecycle state of a driver.
type State string

// The states. Calls are served only in Ready.
const (
	Registered  State = "registered"        // has not started yet
	Verifying   State = "verifying"         // its binary is compared with the lock
	Starting    State = "starting"          // its process starts and is dialled
	Describing  State = "describing"        // its descriptor is compared with the lock
	Configuring State = "configuring"       // dry run first
	Probing     State = "probing"           // asked for its health
	Ready       State = "ready"             // serves calls
	Idle        State = "idle"              // stopped because it was idle; the next call starts it
	Backoff     State = "backoff"           // it failed; waits before the next start
	BreakerOpen State = "breaker_open"      // it failed too often and is not started for a while
	HalfOpen    State = "breaker_half_open" // the next call tries one start
	Draining    State = "draining"          // takes no more calls and waits for those in flight
	Stopped     State = "stopped"           // will not start again
)

// event triggers a lifecycle transition.
type event string

const (
	requested  event = "requested" // a call or a swap needs the driver
	verified   event = "verified"  // the binary has the locked sum
	connected  event = "connected"
	described  event = "described"
	configured event = "configured"
	probed     event = "probed"
	failed     event = "failed"    // a step of the start failed
	died       event = "died"      // the process ended or became unreachable
	timedOut   event = "timed out" // a call timed out, and the process may never return from it
	tripped    event = "tripped"   // the breaker opened
	cooledDown event = "cooled down"
	idled      event = "idled"
	closing    event = "closing"
	drained    event = "drained"
)

// next is the whole lifecycle of a driver. A pair that is not in it is an error.
var next = map[State]map[event]State{
	Registered:  {requested: Verifying, closing: Stopped},
	Verifying:   {verified: Starting, failed: Backoff, tripped: BreakerOpen, closing: Draining},
	Starting:    {connected: Describing, failed: Backoff, tripped: BreakerOpen, closing: Draining},
	Describing:  {described: Configuring, failed: Backoff, tripped: BreakerOpen, closing: Draining},
	Configuring: {configured: Probing, failed: Backoff, tripped: BreakerOpen, closing: Draining},
	Probing:     {probed: Ready, failed: Backoff, tripped: BreakerOpen, closing: Draining},
	Ready:       {died: Backoff, timedOut: Backoff, tripped: BreakerOpen, idled: Idle, closing: Draining},
	Idle:        {requested: Verifying, closing: Stopped},
	Backoff:     {requested: Verifying, closing: Stopped},
	BreakerOpen: {cooledDown: HalfOpen, closing: Stopped},
	HalfOpen:    {requested: Verifying, closing: Stopped},
	Draining:    {drained: Stopped},
	Stopped:     {},
}

// step returns the next state.
func (s State) step(e event) (State, error) {
	to, ok := next[s][e]
	if !ok {
		return s, fmt.Errorf("a driver in state %s does not accept %s", s, e)
	}
	return to, nil
}
