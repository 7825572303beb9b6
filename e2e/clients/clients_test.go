package clients_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/kairos-mcp/kairos/e2e/clients"
)

var (
	update = flag.Bool("update", false, "write what the programs do into recorded.yaml")
	notes  = flag.String("notes", "", "folder for what programs and agents did in each situation")
	only   = flag.String("cells", "", "play these situations, with commas between them, instead of those of CI")
)

// wanted are the programs that CLIENTS names, such as "codex@latest,gemini" or "all";
// without it those of CI.
func wanted(t *testing.T) (chosen []program, everything bool) {
	t.Helper()
	named := os.Getenv("CLIENTS")
	for _, p := range programs {
		switch named {
		case "":
			if p.ci {
				chosen = append(chosen, p)
			}
		case "all":
			chosen = append(chosen, p)
		}
	}
	if named == "" || named == "all" {
		return chosen, named != ""
	}
	for _, n := range strings.FieldsFunc(named, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, version, newer := strings.Cut(n, "@")
		i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
		if i < 0 {
			t.Fatalf("CLIENTS names %q, which is not a program that is tested", name)
		}
		p := programs[i]
		if newer {
			p.packages = slices.Clone(p.packages)
			for i, full := range p.packages {
				p.packages[i] = full[:strings.LastIndex(full, "@")+1] + version
			}
		}
		chosen = append(chosen, p)
	}
	return chosen, true
}

func TestClientsDoWhatIsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agent programs")
	}
	requireNode(t)
	chosen, everything := wanted(t)
	results := make(map[string]clients.Result)
	var mu sync.Mutex // guards results
	t.Run("programs", func(t *testing.T) {
		for _, p := range chosen {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				r, ok := played(t, p, everything)
				mu.Lock()
				defer mu.Unlock()
				if ok {
					results[p.name] = r
				}
			})
		}
	})
	if *update {
		keep(t, results)
	}
}

// played plays the situations of one program, and compares each with the record.
func played(t *testing.T, p program, everything bool) (r clients.Result, ok bool) {
	t.Helper()
	bin, version, err := fetched(t.Context(), p)
	if err != nil {
		text := fmt.Sprintf("%s WAS NOT PLAYED, the table keeps its last result: %v", p.title, err)
		fmt.Fprintln(os.Stderr, text)
		t.Skip(text)
	}
	r = clients.Read().Programs[p.name]
	r.Title, r.Version, r.Played = p.title, version, time.Now().UTC().Format(time.DateOnly)
	cells := make(map[string]string) // those that are played
	r.Cells = cells
	g := &game{t: t, program: p, bin: bin, result: &r}
	for _, s := range situations {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.name) || *only == "" && !everything && !s.ci {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			expected, known := clients.Read().Programs[p.name].Cells[s.name]
			if !known && !everything && !*update {
				t.Skip("not recorded: make test-clients UPDATE=1")
			}
			g.t, g.log = t, nil
			outcome := s.play(g)
			if _, limit := clients.Read().Limits[outcome]; outcome != expected && (!*update || outcome != clients.Works && !limit) { // once more: a machine may be busy
				t.Logf("%s, expected %s: once more", outcome, expected)
				g.first = nil
				outcome = s.play(g)
			}
			cells[s.name] = outcome
			t.Logf("%s %s, %s: %s after %s", p.title, version, s.name, outcome, time.Since(began).Round(time.Second))
			if outcome != expected && !*update {
				t.Errorf("%s does not do what is recorded: %s, want %s; go test ./e2e/clients -update writes it\n%s", p.title, outcome, expected, tail(strings.Join(g.log, "\n")))
			}
			if *notes != "" {
				_ = os.WriteFile(filepath.Join(*notes, p.name+"-"+s.name), []byte(strings.Join(g.log, "\n")), 0o600)
			}
		})
	}
	return r, true
}

// keep writes the results over what is recorded, and leaves what was not played.
func keep(t *testing.T, results map[string]clients.Result) {
	t.Helper()
	const file = "recorded.yaml"
	text, err := os.ReadFile(file) // another run may have written it since this was built
	if err != nil {
		t.Fatal(err)
	}
	var all clients.Recorded
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for name, r := range results {
		was := all.Programs[name]
		cells := maps.Clone(was.Cells)
		if cells == nil {
			cells = make(map[string]string)
		}
		maps.Copy(cells, r.Cells)
		if _, counted := r.Cells["stdio"]; !counted {
			r.Tools, r.ToolBytes, r.ReplyBytes = was.Tools, was.ToolBytes, was.ReplyBytes
		}
		if _, looked := r.Cells["tools"]; !looked {
			r.Instructions, r.Deferred = was.Instructions, was.Deferred
		}
		r.Cells = cells
		all.Programs[name] = r
	}
	if text, err = yaml.MarshalWithOptions(all, yaml.UseLiteralStyleIfMultiline(true)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// requireNode skips without Node and npm, except where CI promises them.
func requireNode(t *testing.T) {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		text := fmt.Sprintf("%s DID NOT RUN: %s is missing; install Node 20 or newer with npm", t.Name(), name)
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
			t.Fatal(text)
		}
		fmt.Fprintln(os.Stderr, text)
		t.Skip(text)
	}
}

func TestEveryLimitHasItsCause(t *testing.T) {
	all := clients.Read()
	used := make(map[string]bool)
	for name, r := range all.Programs {
		for _, s := range situations {
			outcome, played := r.Cells[s.name]
			if !played {
				continue // the page says so
			}
			used[outcome] = true
			if l := all.Limits[outcome]; outcome != clients.Works && (l.Says == "" || l.Cause == "") {
				t.Errorf("%s, %s: %q is neither %s nor a limit with a cause", name, s.name, outcome, clients.Works)
			}
		}
	}
	for name := range all.Limits {
		if !used[name] {
			t.Errorf("no program has the limit %s", name)
		}
	}
	names := make([]string, 0, len(all.Situations))
	for _, s := range all.Situations {
		names = append(names, s.Name)
	}
	want := make([]string, 0, len(situations))
	for _, s := range situations {
		want = append(want, s.name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("situations are %v, want %v", names, want)
	}
}
