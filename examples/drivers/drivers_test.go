// Package drivers_test holds the example drivers to what their READMEs say:
// with the drivers that `make examples` built it runs the kit on each binary,
// plays each protocol with `kairos run`, and looks at a step as an agent sees it.
package drivers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// example is a driver and its folder.
type example struct {
	folder, driver string
	// prepare gives what a run needs beside the script: flags of `kairos run`.
	prepare func(t *testing.T) []string
	// says is in the output of an accepted run, refusal in that of a rejected one.
	says    []string
	refusal string
	// ends is how a rejected run ends; empty: with the last retry.
	ends string
	// unlike makes prepare's world one in which the step is rejected; nil: answers-rejected.yaml does.
	unlike func(t *testing.T) []string
}

var examples = []example{
	{
		folder: "http-check", driver: "http_check",
		prepare: func(t *testing.T) []string { return site(t, "Welcome to KAIROS") },
		says:    []string{"http_check via http_check (the server)", `"status":200`},
		unlike:  func(t *testing.T) []string { return site(t, "It works!") },
		refusal: `does not contain "Welcome". (http_check.HTTP_BODY)`,
	},
	{
		folder: "ask-folder", driver: "ask_folder",
		prepare: func(t *testing.T) []string { return team(t, "Yes: the tests are green.") },
		says:    []string{"solved 1 Ask the team: comment via ask_folder (a person (page link))", "solved 2 Write the release note: comment via agent (the agent)"},
		unlike:  func(t *testing.T) []string { return team(t, "Is the release of this week shipped, and why?") },
		refusal: "COMMENT_IRRELEVANT",
		// The server asks by itself, and what it gets is tried once more where nobody is at
		// the terminal.
		ends: "stopped: COMMENT_IRRELEVANT",
	},
	{
		folder: "regex-python", driver: "regex",
		says:    []string{"solved 1 Write the message: regex via agent (the agent)"},
		refusal: `The text matches (?i)\bwip\b, which it must not. (regex.PATTERN_FORBIDDEN)`,
	},
	{
		folder: "word-count", driver: "word_count",
		says: []string{
			"solved 1 Write the announcement: word_count via agent (the agent)",
			"solved 2 Write it in Japanese: word_count via agent (the agent)",
		},
		refusal: "The text has 5 words; 8 to 30 are asked for. (word_count.TOO_FEW_WORDS)",
	},
}

// site serves one page and gives the flags of a run that checks it.
func site(t *testing.T, text string) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<h1>%s</h1>", text)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	config := readFile(t, filepath.Join("http-check", "kairos.yaml"))
	file := filepath.Join(t.TempDir(), "kairos.yaml")
	writeFile(t, file, bytes.ReplaceAll(config, []byte("127.0.0.1:8000"), []byte(host)))
	return []string{"--config", file, "--input", fmt.Sprintf(`{"url": %q, "text": "Welcome"}`, server.URL)}
}

// asksInFolder gives the flags of a server that asks in the folder.
func asksInFolder(t *testing.T, desk string) []string {
	t.Helper()
	config := readFile(t, filepath.Join("ask-folder", "kairos.yaml"))
	if err := os.MkdirAll(desk, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kairos.yaml")
	config = bytes.ReplaceAll(config, []byte("/tmp/kairos-ask-folder.yaml"), []byte(withRule(t, "ask-folder")))
	config = bytes.ReplaceAll(config, []byte("/tmp/kairos-ask-folder"), []byte(desk))
	writeFile(t, file, append(config, "mcp: {wait: 100ms}\n"...))
	return []string{"--config", file}
}

// team answers every question in a folder with the text, and gives the flags of
// a run that asks there.
func team(t *testing.T, text string) []string {
	t.Helper()
	desk := filepath.Join(t.TempDir(), "desk")
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	go func() {
		defer close(stopped)
		for look := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-stop:
				look.Stop()
				return
			case <-look.C:
				for _, key := range questions(t, desk) {
					answer(t, desk, key, text)
				}
			}
		}
	}()
	return asksInFolder(t, desk)
}

// questions are the keys of the requests in the folder.
func questions(t *testing.T, desk string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(desk, "requests", "*.json"))
	if err != nil {
		t.Error(err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	return files
}

// answer puts an answer into the folder.
func answer(t *testing.T, desk, key, text string) {
	t.Helper()
	value, err := json.Marshal(map[string]string{"text": text})
	if err == nil {
		err = os.WriteFile(filepath.Join(desk, "answers", key+".json"), value, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// samples are those of the example, whose driver asks in a folder of the test.
func samples(t *testing.T, e example) string {
	t.Helper()
	content := readFile(t, filepath.Join(e.folder, "samples.json"))
	file := filepath.Join(t.TempDir(), "samples.json")
	writeFile(t, file, bytes.ReplaceAll(content, []byte("/tmp/kairos-ask-folder"), []byte(t.TempDir())))
	return file
}

func eachExample(t *testing.T, test func(t *testing.T, e example)) {
	for _, e := range examples {
		t.Run(e.folder, func(t *testing.T) {
			requireBuilt(t, e)
			test(t, e)
		})
	}
}

func TestDriversPassTheKit(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		out, err := kairos(t, "driver", "test", filepath.Join(folder(t), "kairos-driver-"+e.driver),
			"--sample", samples(t, e))
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestProtocolsArePlayed(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		out, err := play(t, e, "answers.yaml", e.prepare)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range append(e.says, "\nverified: ") {
			if !strings.Contains(out, want) {
				t.Errorf("it prints no %q:\n%s", want, out)
			}
		}
	})
}

func TestWrongEvidenceIsRejected(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		script, prepare := "answers-rejected.yaml", e.prepare
		if e.unlike != nil {
			script, prepare = "answers.yaml", e.unlike
		}
		out, err := play(t, e, script, prepare)
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("error = %v, want one of the run\n%s", err, out)
		}
		ends := e.ends
		if ends == "" {
			ends = "MAX_RETRIES_EXCEEDED"
		}
		for _, want := range []string{e.refusal, ends, "not verified: "} {
			if !strings.Contains(out, want) {
				t.Errorf("it prints no %q:\n%s", want, out)
			}
		}
	})
}

func TestRulesFitIntoTheShippedTree(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		if out, err := kairos(t, "tree", "check", withRule(t, e.folder)); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// withRule is the shipped tree with the rule of an example on top.
func withRule(t *testing.T, folder string) string {
	t.Helper()
	shipped := readFile(t, filepath.Join("..", "..", "core", "decision", "default.yaml"))
	rule := readFile(t, filepath.Join(folder, "tree.yaml"))
	head, rest, _ := bytes.Cut(shipped, []byte("\nchallenges:\n"))
	tree := filepath.Join(t.TempDir(), "tree.yaml")
	writeFile(t, tree, slices.Concat(head, []byte("\n"), rule, rest))
	return tree
}

func TestREADMEsShowTheLockEntry(t *testing.T) {
	eachExample(t, wantLockEntry)
}

func wantLockEntry(t *testing.T, e example) {
	t.Helper()
	locked, shown := lockedEntry(t, e.driver), shownEntry(t, e)
	shown["sha256"] = locked["sha256"] // that of another build
	described, _ := shown["descriptor"].(map[string]any)
	for _, schema := range []string{"params_schema", "output_schema"} {
		if of, ok := locked["descriptor"].(map[string]any); ok && described[schema] == "..." && of[schema] != nil {
			described[schema] = of[schema] // `kairos driver docs` shows it
		}
	}
	if diff := cmp.Diff(locked, shown); diff != "" {
		t.Errorf("the README of %s shows another lock entry (-lock +README):\n%s", e.folder, diff)
	}
}

// lockedEntry is what drivers.lock says of a driver.
func lockedEntry(t *testing.T, driver string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder(t), "drivers.lock"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct{ Drivers []map[string]any }
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(lock.Drivers, func(d map[string]any) bool { return d["name"] == driver })
	if at < 0 {
		t.Fatalf("drivers.lock has no driver %s", driver)
	}
	return lock.Drivers[at]
}

// shownEntry is the lock entry that the README of an example shows.
func shownEntry(t *testing.T, e example) map[string]any {
	t.Helper()
	text := readFile(t, filepath.Join(e.folder, "README.md"))
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1) {
		var entry map[string]any
		if json.Unmarshal(block[1], &entry) == nil && entry["descriptor"] != nil {
			return entry
		}
	}
	t.Fatalf("the README of %s shows no lock entry", e.folder)
	return nil
}

func play(t *testing.T, e example, script string, prepare func(*testing.T) []string) (string, error) {
	t.Helper()
	args := []string{"run", filepath.Join(e.folder, "protocol.md"), "--script", filepath.Join(e.folder, script)}
	if prepare != nil {
		args = append(args, prepare(t)...)
	}
	return kairos(t, args...)
}

// kairos runs the program with the built drivers and returns all it printed.
func kairos(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), args...)
	cmd.Env = environment(t)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func environment(t *testing.T) []string {
	return append(os.Environ(), "KAIROS_DRIVERS_DIR="+folder(t), "XDG_DATA_HOME="+t.TempDir())
}

// folder is the folder of drivers that make examples filled.
func folder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KAIROS_EXAMPLES")
	if dir == "" {
		t.Skip("the example drivers are not built: run make examples")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func program(t *testing.T) string {
	return filepath.Join(folder(t), "..", "..", "kairos")
}

// requireBuilt skips an example whose language is missing, except where CI promises it.
func requireBuilt(t *testing.T, e example) {
	t.Helper()
	_, err := os.Stat(filepath.Join(folder(t), "kairos-driver-"+e.driver))
	if err == nil {
		return
	}
	text := fmt.Sprintf("EXAMPLE %s DID NOT RUN: %v", e.folder, err)
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatal(text)
	}
	fmt.Fprintln(os.Stderr, text)
	t.Skip(text)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
