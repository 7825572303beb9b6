// Package soak_test kills the server and its drivers while clients run protocols, and
// then compares what the server has recorded with what it acknowledged. `make test`
// plays a short part of it, `make soak` a long one.
package soak_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/play"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(play.Main(m, &bin)) }

// extent is how long and how hard a test is.
type extent struct {
	clients, kills int
	limit          time.Duration // after which the rest of the kills is given up
}

func theExtent() extent {
	switch {
	case os.Getenv("KAIROS_SOAK") != "":
		return extent{clients: 16, kills: 500, limit: 30 * time.Minute}
	case testing.Short():
		return extent{clients: 4, kills: 6, limit: time.Minute}
	}
	return extent{clients: 8, kills: 30, limit: 150 * time.Second}
}

// Kills at any moment lose no acknowledged step: it is recorded once, in its own run. A
// tool that changes something is called at most once for a step, and every run can be
// finished.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	x := theExtent()
	s := play.NewServer(t, bin)
	uri := s.Prepare()
	ledger := play.NewLedger()
	ctx, cancel := context.WithTimeout(t.Context(), x.limit)
	defer cancel()

	var playing sync.WaitGroup
	points := play.NewPoints()
	stop := make(chan struct{})
	for i := range x.clients {
		playing.Go(func() { play.NewPlayer(t, s, ledger, points, i, uri).Play(stop) })
	}
	killed := map[string]int{}
	for range x.kills {
		if ctx.Err() != nil {
			break
		}
		killed[killSomething(ctx, s, points)]++
	}
	close(stop)
	playing.Wait()
	if t.Failed() {
		return
	}
	t.Logf("kills: %v", killed)
	ledger.Check(t, s)
	if total := ledger.Runs(); total < x.clients {
		t.Errorf("only %d runs were begun: the kills leave no time to work", total)
	}
}

// killSomething kills the server or a driver at a random moment or at a named point of
// a step, starts the server again, and says what it did.
func killSomething(ctx context.Context, s *play.Server, p *play.Points) string {
	s.AwaitReady()
	ctx, cancel := context.WithTimeout(ctx, rand.N(1500*time.Millisecond))
	defer cancel()
	if rand.IntN(4) == 0 {
		<-ctx.Done()
		return killDriver(s)
	}
	point := p.Arm()
	if point == play.PointActs {
		go s.AwaitCall(ctx, p)
	}
	select {
	case <-p.Reached:
	case <-ctx.Done():
		point = play.AnyMoment
	}
	p.Disarm()
	s.Kill()
	s.Start()
	return "server, " + point
}

// killDriver kills one of the driver processes, if any has started, or stops it, so
// that it answers nothing more. It says what it did.
func killDriver(s *play.Server) string {
	drivers := s.Drivers()
	if len(drivers) == 0 {
		return "no driver had started"
	}
	d := drivers[rand.IntN(len(drivers))]
	signal, did := syscall.SIGKILL, "driver killed"
	if rand.IntN(4) == 0 {
		signal, did = syscall.SIGSTOP, "driver stopped"
	}
	if err := syscall.Kill(d.PID, signal); err != nil {
		return "driver had ended"
	}
	return did + ": " + d.Name
}
