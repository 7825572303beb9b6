package driverhost

import "fmt"

// state is where a generation stands in its life.
type state string

const (
	registered  state = "registered"
	verified    state = "verified"
	starting    state = "starting"
	describing  state = "describing"
	configuring state = "configuring"
	probing     state = "probing"
	ready       state = "ready"
	draining    state = "draining"
	stopped     state = "stopped"
	crashed     state = "crashed"
)

// happening is what moves a generation on.
type happening string

const (
	sumMatched happening = "sum matched"
	forked     happening = "forked"
	connected  happening = "connected"
	described  happening = "described"
	configured happening = "configured"
	probed     happening = "probed"
	failed     happening = "failed" // a step of the start did not succeed
	died       happening = "died"   // the process ended or became unreachable
	retired    happening = "retired"
	ended      happening = "ended"
)

// next is the whole life of a generation. What is not in it cannot happen.
var next = map[state]map[happening]state{
	registered:  {sumMatched: verified, failed: stopped, died: stopped, retired: stopped},
	verified:    {forked: starting, failed: stopped, died: stopped, retired: stopped},
	starting:    {connected: describing, failed: stopped, died: crashed, retired: stopped},
	describing:  {described: configuring, failed: stopped, died: crashed, retired: stopped},
	configuring: {configured: probing, failed: stopped, died: crashed, retired: stopped},
	probing:     {probed: ready, failed: stopped, died: crashed, retired: stopped},
	ready:       {died: crashed, retired: draining},
	draining:    {died: stopped, ended: stopped},
	crashed:     {ended: stopped},
	stopped:     {},
}

// step returns the state that follows.
func (s state) step(h happening) (state, error) {
	to, ok := next[s][h]
	if !ok {
		return s, fmt.Errorf("a %s driver cannot have %s", s, h)
	}
	return to, nil
}
