//go:build linux

package faults_test

import (
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/disk"
	"github.com/kairos-mcp/kairos/e2e/play"
)

func nothing() bool { return false }
func chance() bool  { return rand.IntN(2) == 0 }

// What was acknowledged is on the disk: it is there after every loss of power, whatever
// part of the rest was written.
func TestALossOfPowerLosesNothing(t *testing.T) {
	s, d := onDisk(t)
	g := begin(t, s, s.Prepare(), 8)
	// Its making is seen by another process: this one serves the file system.
	key := func() string {
		out, _ := exec.Command("cat", s.Path("data/state.key")).Output() // it may not exist
		return string(out)
	}
	made := ""
	for i := range rounds(3, 300) {
		g.awaitRuns(1)
		play.Pause(t, rand.N(500*time.Millisecond))
		if made == "" {
			made = key()
		}
		d.CutPower()
		s.Kill()
		if err := d.Restart([]func() bool{nothing, chance}[i%2]); err != nil {
			t.Fatal(err)
		}
		if got := key(); made != "" && got != made {
			t.Errorf("the key with which calls of drivers are made once is %q after the loss, and was %q", got, made)
		}
		s.Start()
		s.AwaitReady()
		if t.Failed() {
			break
		}
	}
	g.finish()
	if !t.Failed() {
		g.ledger.Check(t, s)
	}
}

// A server whose disk fails acknowledges nothing that is not stored, and works again
// when the disk does.
func TestADiskThatFails(t *testing.T) {
	s, d := onDisk(t)
	g := begin(t, s, s.Prepare(), 8)
	for range rounds(1, 40) {
		for _, fault := range []struct {
			name string
			set  func() disk.Faults
			cut  bool // the power after it
		}{
			{"one sync fails", func() disk.Faults { return disk.Faults{FailSyncs: 1} }, false},
			{"three syncs fail", func() disk.Faults { return disk.Faults{FailSyncs: 3} }, false},
			{"every sync fails", func() disk.Faults { return disk.Faults{FailSyncs: -1} }, true},
			{"it is full", func() disk.Faults { return disk.Faults{Room: d.Used() + 1} }, false},
			{"it is nearly full", func() disk.Faults { return disk.Faults{Room: d.Used() + 20<<10} }, false},
			{"it is read-only", func() disk.Faults { return disk.Faults{ReadOnly: true} }, true},
		} {
			g.awaitRuns(4)
			t.Log(fault.name)
			d.Set(fault.set())
			play.Pause(t, 300*time.Millisecond+rand.N(300*time.Millisecond))
			d.Set(disk.Faults{})
			g.awaitRuns(4)
			if !fault.cut {
				continue
			}
			// Everything that was not synced is lost now.
			d.CutPower()
			s.Kill()
			if err := d.Restart(nothing); err != nil {
				t.Fatal(err)
			}
			s.Start()
			s.AwaitReady()
		}
	}
	g.finish()
	g.ledger.Check(t, s)
}
