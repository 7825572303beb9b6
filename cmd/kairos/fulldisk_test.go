//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// When the disk fills up, the refusal names it, nothing is lost, and the run
// continues once there is room again.
func TestADiskThatIsFullAtRunTimeHarmsNoRun(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,mode=0700"); err != nil {
		t.Skipf("NOT TESTED: a full disk. Mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() { // the server has ended: its clean-up was registered later
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("Unmount = %v", err)
		}
	})
	s := &served{t: t, dir: t.TempDir()}
	s.write("kairos.yaml", "database: "+disk+"/kairos.db\nadmin: {socket: run/admin.sock}\ndrivers: {dir: "+buildDrivers(t)+"}\n")
	b := programOf(s.startHTTP())
	uri := b.mint(oneCommand)[0]
	run := b.begin(uri)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 16<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	refused := 0
	for i := range 200 { // the log of the database may still have room
		doc := fmt.Sprintf(`{"llm_model_id":"m","markdown_doc":"# Full %d\n\n## A\n\n%s"}`, i, strings.Repeat("word ", 100_000))
		a := b.do("POST", "/api/kairos_mint/raw", fmt.Sprintf("# Full %d\n\n## A\n\n%s", i, strings.Repeat("word ", 100_000)), map[string]string{"Content-Type": "text/markdown"})
		if a.status == 200 {
			continue
		}
		if refused++; !strings.Contains(a.body, "disk is full") || a.status < 500 {
			t.Fatalf("mint over REST = %d %s", a.status, a.body)
		}
		if a := b.plain("kairos_mint", doc); !a.result(t).IsError || !strings.Contains(a.body, "disk is full") {
			t.Errorf("mint over MCP = %.400s", a.body)
		}
		break
	}
	if refused == 0 {
		t.Fatal("everything was stored on a full disk")
	}
	if a := b.do("GET", "/healthz", "", nil); a.status != 200 {
		t.Errorf("healthz = %d", a.status)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	run.finish()
}
