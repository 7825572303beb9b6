package metrics

import (
	"runtime/metrics"
	"time"
)

// system is what is known of this process between two scrapes.
type system struct {
	started time.Time

	// Guarded by Metrics.scrape.
	at  time.Time     // of the last scrape
	cpu time.Duration // taken until then
}

func newSystem() system {
	now := time.Now()
	return system{started: now, at: now, cpu: processorTime()}
}

// showSystem needs Metrics.scrape.
func (m *Metrics) showSystem() {
	now, cpu := time.Now(), processorTime()
	m.families.systemUptime.WithLabelValues().Set(now.Sub(m.system.started).Seconds())
	m.families.systemStart.WithLabelValues().Set(float64(m.system.started.UnixMilli()) / 1000)
	if wall := now.Sub(m.system.at); wall > 0 {
		m.families.systemCPU.WithLabelValues().Set(100 * float64(cpu-m.system.cpu) / float64(wall))
	}
	m.system.at, m.system.cpu = now, cpu

	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	used, unused, total := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()
	resident := residentBytes()
	if resident == 0 {
		resident = total
	}
	m.families.systemMemory.WithLabelValues("rss").Set(float64(resident))
	m.families.systemMemory.WithLabelValues("heapTotal").Set(float64(used + unused))
	m.families.systemMemory.WithLabelValues("heapUsed").Set(float64(used))
}
