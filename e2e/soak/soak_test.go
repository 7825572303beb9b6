// Package soak_test kills servers and what they depend on while clients run protocols,
// and then compares what was recorded with what was acknowledged. `make test` plays a
// short part of it, `make soak` a long one.
package soak_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/e2e/play"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(play.Main(m, &bin)) }

func soaking() bool { return os.Getenv("KAIROS_SOAK") != "" }

// extent is how long and how hard a test is. Half of the clients are processes.
type extent struct {
	clients, kills int
	limit          time.Duration // after which the rest of the kills is given up
}

func extentOf(short, usual, long extent) extent {
	switch {
	case soaking():
		return long
	case testing.Short():
		return short
	}
	return usual
}

// target is something that is killed, and started again.
type target struct {
	name   string
	weight int
	kill   func(context.Context) (what string)
}

// scene is a server, what is around it, and the clients.
type scene struct {
	t       *testing.T
	server  *play.Server
	points  *play.Points
	ledger  *play.Ledger
	uri     string
	proxy   *play.Proxy
	clients []*play.Client
}

func newScene(t *testing.T, s *play.Server) *scene {
	t.Helper()
	return &scene{t: t, server: s, points: play.NewPoints(), ledger: play.NewLedger(), uri: s.Prepare(), proxy: play.StartProxy(t, s)}
}

// Kills at any moment lose no acknowledged step: it is recorded once, in its own run. A
// tool that changes something is called at most once for a step, and every run can be
// finished.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	x := extentOf(extent{4, 6, time.Minute}, extent{8, 20, 100 * time.Second}, extent{16, 500, 40 * time.Minute})
	newScene(t, play.NewServer(t, bin)).soak(x)
}

func TestNothingAcknowledgedIsLostWithPostgreSQLAndQdrant(t *testing.T) {
	x := extentOf(extent{4, 4, time.Minute}, extent{8, 6, time.Minute}, extent{16, 150, 20 * time.Minute})
	database := postgrestest.Start(t)
	if !database.Owned() {
		t.Skip("the server of KAIROS_TEST_POSTGRES is not the test's to kill")
	}
	index := qdranttest.New(t, qdranttest.Options{})
	s := play.NewServer(t, bin)
	s.Configure(database.Database(t), "qdrant: {url: \"http://"+index.Address()+"\"}\n")
	newScene(t, s).soak(x, target{"postgres", 4, func(context.Context) string {
		database.Kill()
		play.Pause(t, rand.N(300*time.Millisecond))
		if err := database.Run(); err != nil {
			t.Error(err)
		}
		return "postgres"
	}}, target{"qdrant", 2, func(context.Context) string {
		index.Kill(t)
		play.Pause(t, rand.N(300*time.Millisecond))
		index.Restart(t)
		return "qdrant"
	}})
}

// soak lets clients play while targets are killed, and checks what is left.
func (s *scene) soak(x extent, more ...target) {
	t := s.t
	targets := slices.Concat(more, []target{{"server", 8, s.killServer}, {"driver", 3, s.killDriver}, {"proxy", 1, s.killProxy}, {"client", 2, s.killClient}})
	ctx, cancel := context.WithTimeout(t.Context(), x.limit)
	defer cancel()
	began := time.Now()
	stop, ended := s.play(x.clients)
	killed := map[string]int{}
	for range x.kills {
		if ctx.Err() != nil || t.Failed() {
			break
		}
		killed[s.kill(ctx, targets)]++
	}
	close(stop)
	ended()
	if t.Failed() {
		return
	}
	total := 0
	for _, what := range slices.Sorted(maps.Keys(killed)) {
		t.Logf("%4d × %s", killed[what], what)
		total += killed[what]
	}
	t.Logf("%d kills in %s", total, time.Since(began).Round(time.Second))
	s.server.Kill() // it knows nothing any more that it has not stored
	s.server.Start()
	s.ledger.Check(t, s.server)
	if runs := s.ledger.Runs(); runs < x.clients {
		t.Errorf("only %d runs were begun: the kills leave no time to work", runs)
	}
}

// play starts the clients, which play until stop is closed. Then ended waits until they
// have finished their runs.
func (s *scene) play(clients int) (stop chan struct{}, ended func()) {
	stop = make(chan struct{})
	var playing sync.WaitGroup
	for i := range clients {
		if i%4 < 2 {
			playing.Go(func() { play.NewPlayer(s.t, s.server, s.ledger, s.points, i, s.uri).Play(stop) })
			continue
		}
		c := play.NewClient(s.t, s.server, i, s.uri)
		c.Start()
		s.clients = append(s.clients, c)
	}
	return stop, func() {
		playing.Wait()
		for _, c := range s.clients {
			c.Finish(s.ledger)
		}
	}
}

// kill waits until all is well, and kills one of the targets.
func (s *scene) kill(ctx context.Context, targets []target) string {
	s.server.AwaitReady()
	ctx, cancel := context.WithTimeout(ctx, rand.N(1500*time.Millisecond))
	defer cancel()
	sum := 0
	for _, one := range targets {
		sum += one.weight
	}
	at := rand.N(sum)
	for _, one := range targets {
		if at -= one.weight; at < 0 {
			return one.kill(ctx)
		}
	}
	panic("weights add up")
}

// killServer kills the server at a random moment or at a named point of a step.
func (s *scene) killServer(ctx context.Context) string {
	point := s.points.Arm()
	go s.server.Watch(ctx, s.points, point)
	select {
	case <-s.points.Reached:
	case <-ctx.Done():
		point = play.AnyMoment
	}
	s.points.Disarm()
	s.server.Kill()
	s.server.Start()
	return "server, " + point
}

// killDriver kills one of the driver processes, if any has started, or stops it, so
// that it answers nothing more.
func (s *scene) killDriver(ctx context.Context) string {
	<-ctx.Done()
	drivers := s.server.Drivers()
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

func (s *scene) killProxy(ctx context.Context) string {
	<-ctx.Done()
	s.proxy.Kill()
	play.Pause(s.t, rand.N(200*time.Millisecond))
	s.proxy.Start()
	return "proxy"
}

func (s *scene) killClient(ctx context.Context) string {
	<-ctx.Done()
	c := s.clients[rand.IntN(len(s.clients))]
	c.Kill()
	c.Start()
	return "client"
}
