package driverhost

import "time"

// Observer is notified of events in the lifecycle of drivers. It is called concurrently,
// sometimes under a lock of the host: it must return at once and not call the host.
type Observer interface {
	// Called: a call ended; one that was made again on a fresh process is one
	// call, and one that a pure driver had answered before counts as well.
	Called(Call)
	// Started: a start ended; err says why it did not succeed.
	Started(driver string, took time.Duration, err error)
	// Crashed: a process ended unexpectedly.
	Crashed(driver string)
	// BreakerOpened: a driver failed so often that it is not started for a while.
	BreakerOpened(driver string)
	// Swapped: another binary or configuration replaced the driver, or err says why
	// not and the old one continues.
	Swapped(driver string, err error)
}

// Call is one call of a driver, including the start that it waited for.
type Call struct {
	Driver string
	Method string // Validate, Advance, Render or Interpret
	Took   time.Duration
	Err    error
	// Repeated: the process died during the call, and it was repeated.
	Repeated bool
}

// Options of a Host. The zero value works.
type Options struct {
	// Observer is notified of lifecycle events; may be nil.
	Observer Observer
	// Confinement says how drivers are isolated.
	Confinement Confinement
}

// noObserver does nothing.
type noObserver struct{}

func (noObserver) Called(Call)                          {}
func (noObserver) Started(string, time.Duration, error) {}
func (noObserver) Crashed(string)                       {}
func (noObserver) BreakerOpened(string)                 {}
func (noObserver) Swapped(string, error)                {}
