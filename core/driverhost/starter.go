package driverhost

import (
	"os/exec"
	"runtime"
	"sync"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
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
}

func newStarter() *starter {
	closeOnExec()
	adoptOrphans()
	s := startThread(forbidPrivileges)
	s.network = sync.OnceValue(s.findNetwork)
	s.groups = sync.OnceValues(openCgroup)
	return s
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

// visible starts a process that says what it sees at the paths.
func (s *starter) visible(l sandbox.Launch, paths []string) ([]sandbox.Seen, error) {
	return l.Look(processAttributes(), paths, func(cmd *exec.Cmd) error { return s.do(cmd.Start) })
}
