package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkRun measures a command that does nothing against bubblewrap with the same
// arguments, started by hand, in turn. over-bwrap-ms is what KAIROS adds: the difference
// of the medians, since other programs disturb single runs.
func BenchmarkRun(b *testing.B) {
	needsSandbox(b)
	dir := openDir(b)
	s := Sandbox{}
	if err := s.Hand(dir); err != nil {
		b.Fatal(err)
	}
	for i := range 200 {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i%26))+time.Now().Format("150405.000000000")), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	c := Command{Line: "true", Files: dir, Workspace: "/srv/project"}
	s.Limits = s.withDefaults()
	argv, err := s.arguments(c)
	if err != nil {
		b.Fatal(err)
	}
	var bare, ours []time.Duration
	for b.Loop() {
		began := time.Now()
		cmd := exec.CommandContext(b.Context(), argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = "/", s.environment()
		s.confine(cmd)
		status, err := newStatus(cmd)
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		status.close()
		between := time.Now()
		bare = append(bare, between.Sub(began))
		if res, err := s.Run(b.Context(), c); err != nil || res.ExitCode != 0 {
			b.Fatalf("Run = %+v, %v", res, err)
		}
		ours = append(ours, time.Since(between))
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(median(bare), "bwrap-ms")
	b.ReportMetric(median(ours)-median(bare), "over-bwrap-ms")
}
