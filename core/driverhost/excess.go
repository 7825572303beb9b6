package driverhost

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// excessEvery is how often the memory of a driver without a cgroup is looked at.
const excessEvery = 250 * time.Millisecond

// excessError is why a process was ended that used more memory than its driver may.
type excessError struct {
	driver    string
	used, may int64 // bytes
}

func (e *excessError) Error() string {
	return fmt.Sprintf("it used %d MiB of memory and may use %d, so it was ended; if it needs more, raise drivers.settings.%s.memory_mib",
		e.used>>20, e.may>>20, e.driver)
}

// excess watches the memory of a process and of what it has started, where no cgroup
// limits it. Processes are found by the host's own view of /proc, whatever they see.
type excess struct {
	stop chan struct{}
	done sync.WaitGroup
	err  error // read after done
}

// watchExcess returns nil where nothing has to be watched, or can be.
func (g *guard) watchExcess(pid int, owner string) *excess {
	if g.group != nil || !canWatch {
		return nil
	}
	e := &excess{stop: make(chan struct{})}
	e.done.Go(func() { e.watch(g, pid, owner) })
	return e
}

func (e *excess) watch(g *guard, pid int, owner string) {
	may := int64(g.config.memoryMiB) << 20
	ticker := time.NewTicker(excessEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
		}
		pids := []int{pid}
		if !g.config.launcher { // that limits what it starts itself
			pids = descendants(pid, owner)
		}
		used := int64(0)
		for _, p := range pids {
			used += residentBytes(p)
		}
		if used <= may {
			continue
		}
		e.err = &excessError{g.name, used, may}
		g.log.Warn("driver used too much memory and is ended", "driver", g.name, "pid", pid, "mib", used>>20, "limit_mib", may>>20)
		if g.exceeded != nil {
			g.exceeded(e.err)
		}
		_ = killGroup(pid)
		for _, p := range pids {
			_ = kill(p)
		}
		return
	}
}

// end stops watching, and returns why the process was ended, or nil.
func (e *excess) end() error {
	if e == nil {
		return nil
	}
	close(e.stop)
	e.done.Wait()
	return e.err
}

// MemoryExcess says how often processes of a driver were ended because they used more
// memory than it may.
type MemoryExcess struct {
	Count int       `json:"count"`
	At    time.Time `json:"at"`  // of the last one
	Why   string    `json:"why"` // likewise
}

// exceeded records that a process was ended for its memory.
func (j *journal) exceeded(err error) {
	j.mu.Lock()
	j.excess = MemoryExcess{j.excess.Count + 1, time.Now(), err.Error()}
	j.mu.Unlock()
	j.note(0, slog.LevelWarn, err.Error())
}
