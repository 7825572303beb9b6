package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkRun measures a command that does nothing against bubblewrap with the same
// arguments, started by hand, in turn. over-bwrap-ms is what KAIROS adds.
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
	var bare, ours time.Duration
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
		bare += between.Sub(began)
		if res, err := s.Run(b.Context(), c); err != nil || res.ExitCode != 0 {
			b.Fatalf("Run = %+v, %v", res, err)
		}
		ours += time.Since(between)
	}
	n := float64(b.N) * float64(time.Millisecond)
	b.ReportMetric(float64(bare)/n, "bwrap-ms")
	b.ReportMetric(float64(ours-bare)/n, "over-bwrap-ms")
}
