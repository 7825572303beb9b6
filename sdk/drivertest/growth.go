package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"
)

const (
	growthCalls = 1000
	// Growth that a runtime may add on its own, so that only a leak with every call or
	// every few calls is found.
	spareGoroutines = 20
	spareThreads    = 16
	spareFiles      = 16
	// Memory is only a leak if it grows by this much in each of several rounds.
	spareMemoryKiB = 2 << 10
	memoryRounds   = 5
	settleTime     = 2 * time.Second
)

func noGrowth(ctx context.Context, s Subject) error {
	if s.process == nil {
		return noMoreGoroutines(ctx, s)
	}
	return noBiggerProcess(ctx, s)
}

// manyCalls makes a thousand calls, of all samples in turn. Their errors are
// findings of other checks.
func manyCalls(ctx context.Context, s Subject) {
	all := s.light()
	for i := 0; i < growthCalls && ctx.Err() == nil; i++ {
		if len(all) == 0 {
			_ = healthAnswers(ctx, s)
			continue
		}
		_, _ = s.call(ctx, all[i%len(all)].Request)
	}
}

func noMoreGoroutines(ctx context.Context, s Subject) error {
	_ = sampleOutcome(ctx, s) // what is made once is made now
	before := runtime.NumGoroutine()
	manyCalls(ctx, s)
	deadline := time.Now().Add(settleTime)
	for runtime.NumGoroutine() > before+spareGoroutines {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d goroutines before %d calls, %d after", before, growthCalls, runtime.NumGoroutine())
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// footprint is what a process holds.
type footprint struct{ memoryKiB, threads, files int }

func noBiggerProcess(ctx context.Context, s Subject) error {
	manyCalls(ctx, s)
	before, err := footprintOf(s.process.PID())
	if err != nil {
		return err
	}
	grew := 0
	for range memoryRounds {
		manyCalls(ctx, s)
		after, err := footprintOf(s.process.PID())
		if err != nil {
			return err
		}
		switch {
		case after.files > before.files+spareFiles:
			return fmt.Errorf("%d open files before %d calls, %d after", before.files, growthCalls, after.files)
		case after.threads > before.threads+spareThreads:
			return fmt.Errorf("%d threads before %d calls, %d after", before.threads, growthCalls, after.threads)
		case after.memoryKiB <= before.memoryKiB+spareMemoryKiB:
			return nil
		}
		grew += after.memoryKiB - before.memoryKiB
		before = after
	}
	return fmt.Errorf("%d KiB more in %d calls, and in each thousand of them", grew, memoryRounds*growthCalls)
}

var (
	memoryLine  = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`)
	threadsLine = regexp.MustCompile(`(?m)^Threads:\s+(\d+)`)
)

// footprintOf reads /proc; where there is none the check is skipped.
func footprintOf(pid int) (footprint, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat("/proc/self/status"); err != nil {
			return footprint{}, skip("this system has no /proc to look into", "a Linux machine")
		}
	}
	if err != nil {
		return footprint{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return footprint{}, fmt.Errorf("look at the open files of process %d: %w", pid, err)
	}
	return footprint{memoryKiB: number(memoryLine, status), threads: number(threadsLine, status), files: len(files)}, nil
}

func number(line *regexp.Regexp, in []byte) int {
	found := line.FindSubmatch(in)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(found[1])) // digits, by the pattern
	return n
}
