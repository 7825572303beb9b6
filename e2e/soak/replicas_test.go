package soak_test

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/e2e/play"
	"github.com/kairos-mcp/kairos/e2e/replicas"
)

// Three servers share a PostgreSQL database, and clients reach any of them with each
// call. One after the other is killed, and none that is left is told of it.
func TestNothingAcknowledgedIsLostWhenReplicasAreKilled(t *testing.T) {
	clients, pause, lasts := 4, 3*time.Second, 8*time.Second
	if soaking() {
		clients, pause, lasts = 16, 20*time.Second, 10*time.Minute
	}
	database := postgrestest.Start(t).Database(t)
	operator := play.NewServer(t, bin)
	operator.Configure(database, "")
	t.Setenv("KAIROS_TOOLS", operator.Path("operator/tools.json"))
	uri := operator.Store()
	set := replicas.Start(t, 3, replicas.Config{
		Program: func(args ...string) *exec.Cmd {
			return exec.CommandContext(context.Background(), filepath.Join(bin, "kairos"), args...)
		},
		Drivers: filepath.Join(bin, "drivers"), Database: database, Wait: "4s",
	})
	operator.Address = set.Listener.Addr().String()
	operator.Token = filepath.Join(set.Servers[0].Dir, "admin.token") // all of them have one token
	s := &scene{t: t, server: operator, points: play.NewPoints(), ledger: play.NewLedger(), uri: uri}
	stop, ended := s.play(clients)
	kills, began := 0, time.Now()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for time.Since(began) < lasts && !t.Failed() {
		<-tick.C
		one := set.Servers[rand.IntN(len(set.Servers))]
		one.Kill()
		play.Pause(t, rand.N(pause/2))
		one.Start()
		one.AwaitReady()
		kills++
	}
	close(stop)
	ended()
	if t.Failed() {
		for _, one := range set.Servers {
			log := one.Log()
			t.Logf("%s:\n%s", one.Address, log[max(0, len(log)-3000):])
		}
		return
	}
	t.Logf("%d kills in %s; requests by server %v", kills, time.Since(began).Round(time.Second), set.Served())
	for _, one := range set.Servers { // they know nothing any more that they have not stored
		one.Kill()
		one.Start()
		one.AwaitReady()
	}
	s.ledger.Check(t, operator)
}
