package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// example is a protocol of the folder examples and what a person types when it
// runs at a terminal.
type example struct {
	name   string
	before string // an operator's command
	flags  string
	typed  []string
}

const (
	// inPlace has KAIROS run the commands, on a copy of the folder.
	inPlace = " --workspace ."
	// addCalendar lets KAIROS call the tools of the calendar.
	addCalendar = "tools add calendar --yes -- bin/calendar-server --state calendar.json"
)

var playedExamples = []example{
	{name: "release-a-version", flags: inPlace, typed: []string{"1.4.0", "once", "The export is twice as fast now.", "y", "y", "y", "y"}},
	{name: "close-an-incident", flags: inPlace, typed: []string{
		"mail-relay", "test -d examples", "once", "y",
		"The disk of the mail queue was full since Sunday.", "Dora", "2026-12-01", "y",
		"A customer told us by phone. An alarm at 90 percent of the disk would have shown it a day earlier.", "y",
	}},
	{name: "onboard-a-colleague", flags: inPlace, typed: []string{
		"dora", "once", "2026-12-01", "support", "Betty", "y",
		"Read the runbook and answer one ticket, because that shows all our tools. It worked when the customer closes it.", "y",
	}},
	{name: "user-input", typed: []string{"tuesday", "Dora", "y"}},
	{name: "comment", typed: []string{
		"The importer is finished; I compared the row counts of the nightly sample by hand.", ".",
		"Open are the retry limits of the importer; next, ask the operators which limit they want.", ".", "y",
	}},
	{name: "files", flags: inPlace, typed: []string{"2026-W10", "once", "y", "The week was quiet and all is well.", "."}},
	{name: "shell", flags: inPlace, typed: []string{"examples", "once", "y", "y"}},
	{name: "mcp", before: addCalendar, typed: []string{"Betty", "once"}},
	{name: "calendar-appointment", before: addCalendar, typed: []string{"Adam, Betty", "once", "30", "y"}},
	{name: "meet-a-colleague", flags: " --with-servers", typed: []string{"Betty", "y", "y", "y"}},
	{name: "mixed", before: addCalendar, flags: inPlace, typed: []string{
		"the mail relay", "Dora", "once", "y", "45",
		"The mail relay is away for 45 minutes; please call Dora if you cannot wait for your mail.", ".", "y",
	}},
}

// The transcripts in examples/transcripts are what a person sees, with what they type
// after the prompts. They are written anew with -update.
func TestTheTranscriptsOfTheExamplesAreTrue(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "kairos") // it starts itself by its name
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	drivers := buildDrivers(t)
	env := append(os.Environ(), "KAIROS_DRIVERS_DIR="+drivers, "LOG_LEVEL=error", "DISPLAY=", "WAYLAND_DISPLAY=", "LC_ALL=C")
	for _, e := range playedExamples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			work, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			copyExample(t, e.name, work)
			if err := os.Symlink(filepath.Dir(drivers), filepath.Join(work, "bin")); err != nil {
				t.Fatal(err)
			}
			say := func(line string, typed ...string) string {
				cmd := exec.Command(program, strings.Fields(line)...)
				cmd.Dir, cmd.Env = work, append(slices.Clip(env), "KAIROS_DB="+filepath.Join(dir, e.name, "kairos.db"))
				return "$ kairos " + line + "\n" + strings.ReplaceAll(converse(t, cmd, typed), work, "/home/dora/kairos")
			}
			got := ""
			if e.before != "" {
				got = say(e.before) + "\n"
			}
			got += timeless(say("run examples/"+e.name+".md"+e.flags, e.typed...))
			path := filepath.Join("../../examples/transcripts", e.name+".txt")
			if *updateRuns {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the run differs from its transcript (-update writes it anew, read what changed):\n%s", diff)
			}
		})
	}
}

// Every protocol of the folder is listed in its README, and each transcript is of one
// that was played.
func TestEveryExampleIsListed(t *testing.T) {
	readme, err := os.ReadFile("../../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../examples/*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		if base := filepath.Base(file); base != "README.md" && !strings.Contains(string(readme), "]("+base+")") {
			t.Errorf("examples/README.md does not list %s", base)
		}
	}
	for _, e := range playedExamples {
		if link := "(transcripts/" + e.name + ".txt)"; !strings.Contains(string(readme), link) {
			t.Errorf("examples/README.md has no link %s", link)
		}
	}
}

func copyExample(t *testing.T, name, to string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(to, "examples"), 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob("../../examples/" + name + ".*")
	if err != nil || len(found) == 0 {
		t.Fatalf("example %s: %v, %v", name, found, err)
	}
	for _, from := range found {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "examples", filepath.Base(from)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// typing is how long a person takes for a line: KAIROS takes an answer that is faster
// than a person can be for the client's own.
const typing = time.Second

// converse answers each prompt with the next line, and returns both as a terminal
// shows them. A prompt is a line that has not ended when the program waits.
func converse(t *testing.T, cmd *exec.Cmd, typed []string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for buf := make([]byte, 64<<10); ; {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(said.String(), " ") {
			continue
		}
		if len(typed) == 0 {
			t.Errorf("one more question than answers:\n%s", &said)
			_ = in.Close()
			continue
		}
		time.Sleep(typing)
		said.WriteString(typed[0] + "\n")
		if _, err := io.WriteString(in, typed[0]+"\n"); err != nil {
			t.Fatal(err)
		}
		typed = typed[1:]
	}
	if err := cmd.Wait(); err != nil || len(typed) > 0 {
		t.Errorf("kairos run: %v, answers that were not asked for: %q\n%s%s", err, typed, &said, &stderr)
	}
	return said.String()
}

var (
	anyRun     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}([0-9a-f]{8})\b`)
	anyDigest  = regexp.MustCompile(`\b(?:[0-9a-f]{16,64}\b|[0-9a-f]{8}…)|\bsha256 [0-9a-f]{12}\b`)
	anyTime    = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	anySeconds = regexp.MustCompile(`(?m)\bin (\d+m)?\d+(\.\d+)?m?s$`)
)

// timeless replaces what differs from run to run and from machine to machine: the
// run's id, digests, times.
func timeless(said string) string {
	const id, short = "01a20000-0000-7000-8000-00004b1d64f9", "4b1d64f9"
	if m := anyRun.FindStringSubmatch(said); m != nil {
		said = anyRun.ReplaceAllString(strings.ReplaceAll(said, m[0], id), id)
		said = strings.ReplaceAll(said, m[1], short)
	}
	said = timesInOrder(said)
	said = anySeconds.ReplaceAllString(said, "in 1s")
	const digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	said = anyDigest.ReplaceAllStringFunc(said, func(text string) string {
		if name, of, ok := strings.Cut(text, " "); ok {
			return name + " " + digits[:len(of)]
		}
		n := strings.IndexFunc(text+" ", func(r rune) bool { return !strings.ContainsRune(digits, r) })
		return digits[:n] + text[n:]
	})
	return said
}

// timesInOrder replaces the earliest time, the next one and so on by times half an
// hour apart.
func timesInOrder(said string) string {
	times := anyTime.FindAllString(said, -1)
	slices.Sort(times)
	next := time.Date(2026, 3, 5, 9, 0, 0, 0, time.UTC)
	for _, text := range slices.Compact(times) {
		said = strings.ReplaceAll(said, text, next.Format(time.RFC3339))
		next = next.Add(30 * time.Minute)
	}
	return said
}
