package driverhost

import "runtime"

// starter starts processes from one thread that lives as long as the host:
// the kernel ends a driver when the thread that forked it ends, not the process.
type starter struct {
	work chan func()
	done chan struct{}
}

func newStarter() *starter {
	s := &starter{work: make(chan func()), done: make(chan struct{})}
	go s.loop()
	return s
}

// do runs start on the starter's thread. It must not be called after close.
func (s *starter) do(start func() error) error {
	result := make(chan error, 1)
	s.work <- func() { result <- start() }
	return <-result
}

// close ends the thread, and with it every driver that still runs.
func (s *starter) close() {
	close(s.work)
	<-s.done
}

// loop keeps its thread to itself and never unlocks it, so that the thread
// lives exactly as long as the loop.
func (s *starter) loop() {
	runtime.LockOSThread()
	defer close(s.done)
	for work := range s.work {
		work()
	}
}
