package bench_test

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// memoryTenths is in how many parts the runs are played, with a look at the memory
// after each.
const memoryTenths = 10

// BenchmarkWireMemory is the resident memory of the server, without its drivers, while
// 32 clients play KAIROS_BENCH_RUNS (100,000) whole runs: after all of them, and how
// much it grows in a minute of the second half.
func BenchmarkWireMemory(b *testing.B) {
	for b.Loop() {
		p := newPlayers(b, "", programs(b), newClient())
		pid := strconv.Itoa(p.server.pid())
		total := memoryRuns(b)
		var held [memoryTenths + 1]float64
		held[0] = residentMB(b, pid)
		half := time.Now()
		for tenth := range memoryTenths {
			if tenth == memoryTenths/2 {
				half = time.Now()
			}
			p.playAll(b, total/memoryTenths)
			held[tenth+1] = residentMB(b, pid)
		}
		b.Logf("MB at the start and after each tenth of %d runs: %.0f", total, held)
		slope := (held[memoryTenths] - held[memoryTenths/2]) / time.Since(half).Minutes()
		b.ReportMetric(held[0], "start-MB")
		b.ReportMetric(held[memoryTenths], "rss-MB")
		b.ReportMetric(slope, "MB/min")
		measured.add(most(fmt.Sprintf("memory of the server after %d runs", total), held[memoryTenths], "MB", 150))
		measured.add(most(fmt.Sprintf("growth of it in the second half of %d runs", total), slope, "MB/min", 1))
		p.server.stop(b)
	}
	b.ReportMetric(0, "ns/op")
}

func memoryRuns(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(os.Getenv("KAIROS_BENCH_RUNS"))
	if err != nil || n < memoryTenths*runClients {
		return 100_000
	}
	return n
}

// playAll plays a number of runs, shared by all clients.
func (p *players) playAll(b *testing.B, runs int) {
	b.Helper()
	play := p.play(b)
	var played atomic.Int64
	inParallel(len(p.agents), func(client int) {
		for played.Add(1) <= int64(runs) {
			play(client)
		}
	})
}
