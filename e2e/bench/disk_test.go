package bench_test

import (
	"os"
	"path/filepath"
	"testing"
)

// diskRuns is how many runs are played to measure the disk space of one.
const diskRuns = 2000

// BenchmarkWireDisk is the disk space of a run of five steps that was attested:
// what the database file grows by, once it is closed.
func BenchmarkWireDisk(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		before := diskAfter(b, dir, 0)
		after := diskAfter(b, dir, diskRuns)
		perRun := float64(after-before) / diskRuns / 1000
		b.ReportMetric(perRun, "KB/run")
		measured.add(most("disk space of a run of five steps", perRun, "KB", 15))
	}
	b.ReportMetric(0, "ns/op")
}

// diskAfter plays runs on a server of its own and returns the size of the
// database file after the server has ended.
func diskAfter(b *testing.B, dir string, runs int) int64 {
	b.Helper()
	client, server := newClient(), serveKairos(b, programs(b), dir)
	uri := mintLong(b, newAgent(b, server, modernEra, client))
	const clients = 8
	inParallel(clients, func(i int) {
		r := runner{agent: newAgent(b, server, modernEra, client), uri: uri}
		for range runs / clients {
			r.begin(b)
			run := r.open.RunID
			for r.left >= 0 {
				r.next(b)
			}
			r.call(b, "kairos_attest", map[string]any{"uri": uri, "outcome": "success", "message": "Measured.", "run_id": run})
		}
	})
	server.stop(b)
	info, err := os.Stat(filepath.Join(dir, "kairos.db"))
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
