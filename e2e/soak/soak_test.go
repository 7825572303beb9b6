// Package soak_test kills the server and its drivers while clients run protocols, and
// then compares what the server has recorded with what it acknowledged. `make test`
// plays a short part of it, `make soak` a long one.
package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == counterArg {
		if err := serveCounter(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, isNew, err := programs.Find(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := m.Run()
	if isNew {
		_ = os.RemoveAll(dir) // temporary in any case
	}
	os.Exit(code)
}

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
	s := newServer(t)
	uri := s.prepare()
	ledger := newLedger()
	ctx, cancel := context.WithTimeout(t.Context(), x.limit)
	defer cancel()

	var playing sync.WaitGroup
	points := newPoints()
	stop := make(chan struct{})
	for i := range x.clients {
		playing.Go(func() { newPlayer(t, s, ledger, points, i, uri).play(stop) })
	}
	killed := map[string]int{}
	for range x.kills {
		if ctx.Err() != nil {
			break
		}
		killed[s.killSomething(ctx, points)]++
	}
	close(stop)
	playing.Wait()
	if t.Failed() {
		return
	}
	t.Logf("kills: %v", killed)
	ledger.check(t, s)
	if total := len(ledger.runs); total < x.clients {
		t.Errorf("only %d runs were begun: the kills leave no time to work", total)
	}
}

// killSomething kills the server or a driver at a random moment or at a named point of
// a step, starts the server again, and says what it did.
func (s *server) killSomething(ctx context.Context, p *points) string {
	s.awaitReady()
	ctx, cancel := context.WithTimeout(ctx, rand.N(1500*time.Millisecond))
	defer cancel()
	if rand.IntN(4) == 0 {
		<-ctx.Done()
		return s.killDriver()
	}
	point := p.arm()
	if point == pointActs {
		go s.awaitCall(ctx, p)
	}
	select {
	case <-p.reached:
	case <-ctx.Done():
		point = anyMoment
	}
	p.disarm()
	s.kill()
	s.start()
	return "server, " + point
}
