package driverhost

import "time"

// Observer hears what becomes of drivers. It is called concurrently, sometimes
// under a lock of the host: it returns at once and does not call the host.
type Observer interface {
	// Called: a call ended; one that was made again on a fresh process is one
	// call, and one that a pure driver had answered before counts as well.
	Called(Call)
	// Started: a start ended; err says why it did not succeed.
	Started(driver string, took time.Duration, err error)
	// Crashed: a process ended that nobody had asked to.
	Crashed(driver string)
	// BreakerOpened: a driver failed so often that it is left alone for a while.
	BreakerOpened(driver string)
	// Swapped: another binary or configuration was to take the driver's place;
	// err says why it did not, and the old one goes on.
	Swapped(driver string, err error)
}

// Call is a call of a driver, from outside: with the start that it waited for.
type Call struct {
	Driver string
	Method string // Validate, Advance, Render or Interpret
	Took   time.Duration
	Err    error
	// Repeated: the process died under it, and it was made again.
	Repeated bool
}

// Options of a Host. The zero value works.
type Options struct {
	// Observer hears what becomes of drivers; nil: nobody does.
	Observer Observer
	// Confinement says which files are hidden from drivers.
	Confinement Confinement
}

// noObserver is the Observer where nobody listens.
type noObserver struct{}

func (noObserver) Called(Call)                          {}
func (noObserver) Started(string, time.Duration, error) {}
func (noObserver) Crashed(string)                       {}
func (noObserver) BreakerOpened(string)                 {}
func (noObserver) Swapped(string, error)                {}
