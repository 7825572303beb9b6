package tables

import (
	"sync"
	"time"
)

// probeEvery is how often a probe is repeated.
const probeEvery = 10 * time.Second

// Probe is when a check that writes succeeded last.
type Probe struct {
	mu sync.Mutex // guards at
	at time.Time  // zero: not yet, or it failed last
}

// Try calls check, unless it succeeded within the last ten seconds.
func (p *Probe) Try(check func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < probeEvery {
		return nil
	}
	p.at = time.Time{}
	err := check()
	if err == nil {
		p.at = time.Now()
	}
	return err
}
