//go:build linux

package faults_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/e2e/play"
)

// paused is how long processes are stopped.
func paused() time.Duration {
	if os.Getenv("KAIROS_SOAK") != "" {
		return 10 * time.Second
	}
	return 2 * time.Second
}

// pause stops processes for a while.
func pause(t *testing.T, pids ...int) {
	t.Helper()
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, pid := range pids {
			if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
				t.Errorf("%s to %d: %v", signal, pid, err)
			}
		}
		if signal == syscall.SIGSTOP {
			play.Pause(t, paused())
		}
	}
}

// A server or drivers that stand still for a while, as a suspended machine does, lose
// and repeat nothing.
func TestProcessesThatStandStill(t *testing.T) {
	s := play.NewServer(t, bin)
	g := begin(t, s, s.Prepare(), 8)
	for range rounds(1, 5) {
		g.awaitRuns(8)
		var drivers []int
		for _, d := range s.Drivers() {
			drivers = append(drivers, d.PID)
		}
		if len(drivers) == 0 {
			t.Fatal("no driver runs")
		}
		pause(t, drivers...)
		g.awaitRuns(4)
		pause(t, append(drivers, s.PID())...)
		g.awaitRuns(4)
	}
	g.finish()
	g.ledger.Check(t, s)
}

// So does a PostgreSQL server that stands still.
func TestADatabaseThatStandsStill(t *testing.T) {
	onlyInSoak(t)
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("A POSTGRESQL THAT STANDS STILL IS NOT TESTED: its programs are not on this machine")
	}
	s := play.NewServerOn(t, bin, server.Database(t))
	g := begin(t, s, s.Prepare(), 8)
	for range rounds(1, 5) {
		g.awaitRuns(8)
		pause(t, below(t, server.PID())...)
		g.awaitRuns(8)
	}
	g.finish()
	g.ledger.Check(t, s)
}

// below lists a process and those that it started, and so on.
func below(t *testing.T, parent int) []int {
	t.Helper()
	all := []int{parent}
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children") // the pattern is right
	for _, file := range tasks {
		children, _ := os.ReadFile(file) // the process may have ended
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, below(t, pid)...)
		}
	}
	return all
}

// A server without a file descriptor left refuses what it cannot do, and does it when
// it has some again.
func TestFileDescriptorsRunOut(t *testing.T) {
	onlyInSoak(t) // drivers that could not start are tried again after a while
	s := play.NewServer(t, bin)
	g := begin(t, s, s.Prepare(), 8)
	for _, spare := range []uint64{0, 3, 20}[:rounds(2, 3)] {
		g.awaitRuns(8)
		opened, err := os.ReadDir("/proc/" + strconv.Itoa(s.PID()) + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		var usual unix.Rlimit
		few := unix.Rlimit{Cur: uint64(len(opened)) + spare}
		if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, nil, &usual); err != nil {
			t.Fatal(err)
		}
		few.Max = usual.Max
		if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &few, nil); err != nil {
			t.Fatal(err)
		}
		var held []net.Conn
		for range spare + 30 {
			c, err := net.DialTimeout("tcp", s.Address, time.Second)
			if err == nil {
				held = append(held, c)
			}
		}
		play.Pause(t, paused())
		if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &usual, nil); err != nil {
			t.Fatal(err)
		}
		for _, c := range held {
			c.Close()
		}
		s.AwaitReady()
		g.awaitRuns(8)
	}
	if log, err := os.ReadFile(s.Path("log")); err != nil || !strings.Contains(string(log), "too many open files") {
		t.Errorf("the server has not run out of file descriptors: %v", err)
	}
	g.finish()
	g.ledger.Check(t, s)
}
