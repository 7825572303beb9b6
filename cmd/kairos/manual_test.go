package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A block of the manual: what stands behind its fence, and its text.
type block struct{ info, text string }

var (
	// A block of this kind is run, and prints what is shown.
	runnable = "console kairos"
	// A block whose fence names a file is that file for the blocks after it.
	named = regexp.MustCompile(`^\w+ ([\w-]+\.\w+)$`)
	// The tools of agents as commands print text at a terminal and JSON elsewhere.
	asTool = regexp.MustCompile(`^kairos (?:search|mint|spaces|runs (?:begin|attest)|protocols (?:update|delete|dump))\b`)
)

// TestTheManualShowsWhatCommandsPrint runs the blocks of a page in their order in
// a folder of its own. In what is shown … is any text within a line, and a line
// of three dots any lines.
func TestTheManualShowsWhatCommandsPrint(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	programIn(t, dir)
	drivers := buildDrivers(t) // beside the programs of the examples
	env := append(os.Environ(), "KAIROS_DRIVERS_DIR="+drivers, "LC_ALL=C", "PATH="+dir+":"+filepath.Dir(drivers)+":"+os.Getenv("PATH"))
	pages := 0
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			if d != nil && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "```"+runnable+"\n") {
			return err
		}
		pages++
		t.Run(strings.TrimPrefix(path, "../../docs/"), func(t *testing.T) { runPage(t, string(text), env) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages == 0 {
		t.Fatal("no page has a block to run; the test looks in the wrong place")
	}
}

// programIn puts the program into the folder, under the name by which it starts itself.
func programIn(t *testing.T, dir string) (program string) {
	t.Helper()
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "kairos")
	if err := os.WriteFile(program, b, 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return program
}

func runPage(t *testing.T, page string, env []string) {
	t.Helper()
	work := t.TempDir()
	env = append(env[:len(env):len(env)], "KAIROS_DB="+filepath.Join(work, ".data", "kairos.db"))
	for _, b := range blocksOf(page) {
		if file := named.FindStringSubmatch(b.info); file != nil {
			if err := os.WriteFile(filepath.Join(work, file[1]), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if b.info != runnable {
			continue
		}
		for _, shown := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			command, want, _ := strings.Cut(shown, "\n")
			line := command
			if asTool.MatchString(line) {
				line += " -o text"
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
			cmd.Dir, cmd.Env = work, env
			got, err := cmd.CombinedOutput()
			if _, failed := err.(*exec.ExitError); err != nil && !failed { //nolint:errorlint // Run returns it as it is
				t.Fatal(err)
			}
			if !pattern(want).MatchString(strings.TrimRight(string(got), "\n") + "\n") {
				t.Errorf("$ %s\nprints:\n%s\nbut the manual shows:\n%s", command, got, want)
			}
		}
	}
}

// pattern matches what is shown, with its omissions.
func pattern(shown string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for line := range strings.Lines(strings.TrimRight(shown, "\n") + "\n") {
		if line = strings.TrimRight(line, "\n"); line == "..." {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + ` *\n`)
	}
	return regexp.MustCompile(b.String() + `$`)
}

// blocksOf are the fenced blocks of a page, in their order.
func blocksOf(page string) []block {
	var all []block
	fence := ""
	for line := range strings.Lines(page) {
		mark := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(mark) >= 3:
			fence = mark
			all = append(all, block{info: strings.TrimSpace(line[len(mark):])})
		case fence != "" && strings.TrimSpace(line) == fence:
			fence = ""
		case fence != "":
			all[len(all)-1].text += line
		}
	}
	return all
}
