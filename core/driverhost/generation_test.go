package driverhost

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// A late call takes the generation out of service; whoever stops it then lets its other
// calls end all the same.
func TestAGenerationThatALateCallWithdrewIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		still := &stillTransport{}
		g := newGeneration(slog.New(slog.DiscardHandler), 1, still)
		g.admit()
		for range 2 {
			if !g.enter() {
				t.Fatal("it takes no calls")
			}
		}
		g.withdraw() // as the late call does
		g.endCall(false)
		go g.retire(time.Minute, time.Second)
		synctest.Wait()
		if still.stopped.Load() {
			t.Error("it is stopped under a call")
		}
		g.endCall(true)
		synctest.Wait()
		if !still.stopped.Load() {
			t.Error("it is not stopped when its last call has ended")
		}
	})
}

// stillTransport is a process that does nothing.
type stillTransport struct{ stopped atomic.Bool }

func (*stillTransport) connect(context.Context, func() error) (driverrpc.Calls, error) {
	return nil, nil
}
func (*stillTransport) settled()                {}
func (*stillTransport) lasting() bool           { return true }
func (*stillTransport) exited() <-chan struct{} { return nil }
func (*stillTransport) pid() int                { return 0 }
func (*stillTransport) explain(err error) error { return err }
func (*stillTransport) protection() []string    { return nil }
func (s *stillTransport) stop(time.Duration)    { s.stopped.Store(true) }
