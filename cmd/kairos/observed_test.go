package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const oneCount = "# Count\n\n## Count\n\nCount one up.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"evidence\":\"server\"," +
	"\"mcp\":{\"tool_name\":\"count\",\"arguments\":{}}}}\n```\n"

// withCounter is a server that may call a tool which writes down each call. The
// settings are more of its configuration, the arguments those of the counter.
func withCounter(t *testing.T, settings string, args ...string) (s *served, uri string) {
	t.Helper()
	s = &served{t: t, dir: t.TempDir()}
	if err := os.Mkdir(s.path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", s.path("counter"), "./testdata/counter")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the counter: %v\n%s", err, out)
	}
	s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: off}\ndrivers: {dir: "+buildDrivers(t)+"}\n"+settings)
	add := append([]string{"tools", "add", "counter", "--changes", "count", "--", s.path("counter"), s.path("work/acts")}, args...)
	if out, err := s.program(add...).CombinedOutput(); err != nil {
		t.Fatalf("tools add: %v\n%s", err, out)
	}
	p := s.pipe(t, legacyEra, hasNothing)
	r := p.opens(oneCount)
	p.leave()
	if out, err := s.program("accept", r.CurrentStep.URI, "--yes").CombinedOutput(); err != nil {
		t.Fatalf("accept: %v\n%s", err, out)
	}
	return s, r.CurrentStep.URI
}

// processesOf lists the processes below one whose command line has the name.
func processesOf(t *testing.T, parent int, name string) (found []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(dir + "/cmdline")
		if !bytes.Contains(line, []byte(name)) {
			continue
		}
		for above := pid; above > 1; above = parentOf(above) {
			if above == parent {
				found = append(found, pid)
			}
		}
	}
	return found
}

// parentOf is 0 for a process that has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}
