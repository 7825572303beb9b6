//go:build linux

// Package faults_test disturbs the machine under the server while clients run protocols:
// it cuts the power of the disk, fails its syncs, fills it, stops processes, takes file
// descriptors and cuts the network. Then it compares what the server has recorded with
// what it acknowledged. `make test` plays a short part of it, `make soak` a long one.
package faults_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/disk"
	"github.com/kairos-mcp/kairos/e2e/play"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(play.Main(m, &bin)) }

// rounds is how often a test repeats its fault.
func rounds(usual, soak int) int {
	if os.Getenv("KAIROS_SOAK") != "" {
		return soak
	}
	return usual
}

// onlyInSoak skips a test that takes too long for every change.
func onlyInSoak(t *testing.T) {
	t.Helper()
	if os.Getenv("KAIROS_SOAK") == "" {
		t.Skip("only with KAIROS_SOAK=1 (make soak)")
	}
}

// game is players that use a server.
type game struct {
	t      *testing.T
	s      *play.Server
	uri    string
	ledger *play.Ledger

	playing sync.WaitGroup
	stop    chan struct{}
}

// begin lets clients play on a server that was prepared.
func begin(t *testing.T, s *play.Server, uri string, clients int) *game {
	g := &game{t: t, s: s, uri: uri, ledger: play.NewLedger(), stop: make(chan struct{})}
	points := play.NewPoints()
	for i := range clients {
		g.playing.Go(func() { play.NewPlayer(t, s, g.ledger, points, i, uri).Play(g.stop) })
	}
	return g
}

// awaitRuns waits until more runs were begun, which shows that the server works.
func (g *game) awaitRuns(more int) {
	g.t.Helper()
	want := g.ledger.Runs() + more
	for limit := time.Now().Add(time.Minute); g.ledger.Runs() < want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			out, err := g.s.Kairos("runs", "begin", g.uri, "--input", `{"who":"nobody"}`, "--url", "http://"+g.s.Address)
			g.t.Fatalf("the server works no more: %s, %v\n%s", out, err, g.s.Lately())
		}
	}
}

// finish lets every client finish its run.
func (g *game) finish() {
	close(g.stop)
	g.playing.Wait()
}

// onDisk is a server whose database is on a disk that can fail.
func onDisk(t *testing.T) (*play.Server, *disk.Disk) {
	t.Helper()
	if why := disk.Missing(); why != "" {
		t.Skipf("FAULTS OF THE DISK ARE NOT TESTED: %s", why)
	}
	s := play.NewServer(t, bin)
	d, err := disk.Mount(s.Path("data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return s, d
}
