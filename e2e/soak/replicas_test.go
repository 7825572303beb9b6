package soak_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/e2e/play"
	"github.com/kairos-mcp/kairos/e2e/replicas"
)

// How long replicas are killed, and how often one is. Starting one takes a second or two.
const (
	killReplicasFor   = 10 * time.Minute
	killReplicasEvery = 20 * time.Second
)

// Three replicas behind a proxy that takes turns lose nothing while one after the other
// is killed, and ended as an operator does.
func TestReplicasThatAreKilledLoseNothing(t *testing.T) {
	if os.Getenv("KAIROS_SOAK") == "" {
		t.Skip("SKIPPED: takes 10 minutes; make soak runs it")
	}
	database := postgrestest.Start(t).Database(t)
	// The first server stores the protocol and its tool, and is a place for commands.
	s := play.NewServer(t, bin)
	common := fmt.Sprintf("tools_file: %q\n", s.Path("tools.json"))
	s.Write("kairos.yaml", fmt.Sprintf("database: %q\nadmin: {socket: off}\ndrivers: {dir: %q}\n%s", database, filepath.Join(bin, "drivers"), common))
	uri := s.Prepare()
	s.Kill()
	set := replicas.Start(t, 3, replicas.Config{
		Program: func(args ...string) *exec.Cmd {
			return exec.CommandContext(t.Context(), filepath.Join(bin, "kairos"), args...)
		},
		Drivers: filepath.Join(bin, "drivers"), Database: database, More: common,
	})
	s.Address = strings.TrimPrefix(set.URL, "http://")

	ledger, stop := play.NewLedger(), make(chan struct{})
	var playing sync.WaitGroup
	for i := range 4 { // every run is read by a command in the end
		playing.Go(func() { play.NewPlayer(t, s, ledger, play.NewPoints(), i, uri).Play(stop) })
	}
	kills := 0
	for end := time.Now().Add(killReplicasFor); time.Now().Before(end) && !t.Failed(); kills++ {
		time.Sleep(killReplicasEvery/2 + rand.N(killReplicasEvery))
		one := set.Servers[rand.IntN(len(set.Servers))]
		if kills%4 == 3 {
			_ = one.Stop() // calls that take longer than the shutdown are cut off
		} else {
			one.Kill()
		}
		time.Sleep(rand.N(2 * time.Second))
		one.Start()
		one.AwaitReady()
	}
	close(stop)
	playing.Wait()
	t.Logf("%d replicas killed or ended, %d runs, requests served by each: %v", kills, ledger.Runs(), set.Served())
	if t.Failed() {
		for _, one := range set.Servers {
			log := one.Log()
			t.Logf("%s: … %s", one.Address, log[max(0, len(log)-3000):])
		}
		return
	}
	ledger.Check(t, s)
}
