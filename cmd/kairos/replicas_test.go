package main

import (
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/e2e/replicas"
)

// replicated is several replicas of the real program behind a proxy, which clients take
// for one server.
type replicated struct {
	*program
	*replicas.Set
}

func startReplicas(t *testing.T, n int, more string) *replicated {
	t.Helper()
	set := replicas.Start(t, n, replicas.Config{
		Program: func(args ...string) *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Args = append([]string{"kairos"}, args...)
			return cmd
		},
		Drivers: buildDrivers(t), Database: postgrestest.Start(t).Database(t), More: more,
	})
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range set.Servers {
				t.Logf("%s: %s", s.Address, ending(s.Log()))
			}
		}
	})
	l := &listening{served: &served{t: t, dir: set.Servers[0].Dir}, url: set.URL}
	b := &program{listening: l, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(b.client.CloseIdleConnections)
	return &replicated{b, set}
}

// Clients of both eras play through a proxy that takes turns, so that every call and
// every answer arrives at another replica than the one before.
func TestThreeReplicasAreOneServerToClients(t *testing.T) {
	long(t)
	t.Parallel()
	r := startReplicas(t, 3, "")
	t.Run("clients", func(t *testing.T) {
		for name, tc := range answeringClients {
			t.Run(name, func(t *testing.T) {
				inBothEras(t, func(t *testing.T, era string) { tc.play(&stage{r.visit(t, era, tc.can), t}) })
			})
		}
	})
	for i, n := range r.Served() {
		if n < 20 {
			t.Errorf("replica %d served %d requests of %v: the proxy does not take turns", i, n, r.Served())
		}
	}
}
