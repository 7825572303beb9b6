package driverhost

import (
	"runtime"
	"sync"
)

// starter starts processes from one thread that lives as long as the host:
// the kernel ends a driver when the thread that forked it ends, not the process.
// Its children lack what the thread has given up, such as new privileges; the other
// threads of the host keep it.
type starter struct {
	work  chan func()
	done  chan struct{}
	setUp error // why setting up the thread failed; nil: it did not

	// The means of isolation that this machine offers, detected once, when the first
	// driver needs them.
	network func() isolation
	groups  func() (string, error)

	mu     sync.Mutex // guards the field below
	others map[traits]*starter
}

// traits are what the processes of a thread inherit besides having no new privileges.
type traits struct {
	hidden  bool // a mount namespace, in which files can be hidden
	bounded bool // no capabilities that would undo that
	noTCP   bool // Landlock keeps them from TCP
}

func newStarter() *starter {
	closeOnExec()
	adoptOrphans()
	s := startThread(forbidPrivileges)
	s.network = sync.OnceValue(s.findIsolation)
	s.groups = sync.OnceValues(openCgroup)
	return s
}

// thread returns the thread with these traits, which ends with s.
func (s *starter) thread(t traits) (*starter, error) {
	if t == (traits{}) {
		return s, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.others[t]; other != nil {
		return other, nil
	}
	other := startThread(t.setUp)
	if other.setUp != nil {
		other.close()
		return nil, other.setUp
	}
	if s.others == nil {
		s.others = map[traits]*starter{}
	}
	s.others[t] = other
	return other, nil
}

// startThread starts a thread that is set up before it starts its first process.
func startThread(setUp func() error) *starter {
	s := &starter{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go s.loop(setUp, ready)
	s.setUp = <-ready
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, other := range s.others {
		other.close()
		delete(s.others, t)
	}
}

// loop keeps its thread to itself and never unlocks it, so that the thread
// lives exactly as long as the loop and nobody else gets what it gave up.
func (s *starter) loop(setUp func() error, ready chan<- error) {
	runtime.LockOSThread()
	if onMainThread() {
		// The main thread never ends. While this goroutine holds it, another one
		// cannot get it.
		defer runtime.UnlockOSThread()
		other := make(chan error)
		go s.loop(setUp, other)
		ready <- <-other
		return
	}
	defer close(s.done)
	ready <- setUp()
	for work := range s.work {
		work()
	}
}
