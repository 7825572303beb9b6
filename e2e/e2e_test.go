// Package e2e_test plays protocols with the two official TypeScript clients
// over stdio and over HTTP, against the real program with its real driver
// processes. The scenarios are in tests/*.test.mjs; this file builds, fetches
// and reports.
package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

const (
	buildTimeout = 3 * time.Minute
	fetchTimeout = 5 * time.Minute
	playTimeout  = 18 * time.Minute
	oldestNode   = 20
)

// programsOnce are built by the first test that needs them.
var programsOnce struct {
	sync.Once
	dir   string
	isNew bool
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if programsOnce.isNew {
		_ = os.RemoveAll(programsOnce.dir)
	}
	os.Exit(code)
}

func TestOfficialClients(t *testing.T) {
	requireNode(t)
	bin := built(t)
	fetchClients(t)
	play(t, bin)
}

// requireNode skips without Node and npm, except where CI promises them.
func requireNode(t *testing.T) {
	t.Helper()
	why := nodeProblem(t.Context())
	if why == "" {
		return
	}
	text := fmt.Sprintf("%s DID NOT RUN: %s; install Node %d or newer with npm", t.Name(), why, oldestNode)
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatal(text)
	}
	fmt.Fprintln(os.Stderr, text)
	t.Skip(text)
}

func nodeProblem(ctx context.Context) string {
	if _, err := exec.LookPath("npm"); err != nil {
		return "npm is missing"
	}
	version, major, _ := nodeVersion(ctx)
	switch {
	case version == "":
		return "node is missing"
	case major < oldestNode:
		return "node " + version + " is too old"
	}
	return ""
}

// nodeVersion is that of the installed node; empty: there is none.
func nodeVersion(ctx context.Context) (version string, major, minor int) {
	out, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return "", 0, 0
	}
	version = strings.TrimSpace(string(out))
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil {
		return version, 0, 0
	}
	return version, major, minor
}

// The conformance suite and the Inspector need a newer Node than the clients:
// 22.19. Where the installed one is older, this one comes from npm.
const (
	newerMajor, newerMinor = 22, 19
	newerNode              = "node@22.23.3"
)

var newerNodeOnce sync.Once

// newNode is a Node that runs the conformance suite and the Inspector.
func newNode(t *testing.T) string {
	t.Helper()
	version, major, minor := nodeVersion(t.Context())
	if major > newerMajor || major == newerMajor && minor >= newerMinor {
		return "node"
	}
	cache, err := filepath.Abs(".cache/node")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(cache, "node_modules", "node", "bin", "node")
	newerNodeOnce.Do(func() {
		out, err := exec.CommandContext(t.Context(), bin, "--version").Output()
		if err == nil && "node@"+strings.TrimPrefix(strings.TrimSpace(string(out)), "v") == newerNode {
			return
		}
		fmt.Fprintf(os.Stderr, "e2e: node %s is too old for the conformance suite and the Inspector, fetching %s from npm\n", version, newerNode)
		if err := os.MkdirAll(cache, 0o755); err != nil {
			t.Fatal(err)
		}
		install := exec.Command("npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", cache, newerNode)
		if out, err := output(t.Context(), fetchTimeout, install); err != nil {
			t.Fatalf("npm could not fetch %s: %v\n%s", newerNode, err, out)
		}
	})
	return bin
}

// built is the folder with kairos, calendar-server and drivers: the one that
// KAIROS_BIN names, else one that is built for these tests.
func built(t *testing.T) string {
	t.Helper()
	programsOnce.Do(func() {
		ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
		defer cancel()
		programsOnce.dir, programsOnce.isNew, programsOnce.err = programs.Find(ctx)
	})
	if programsOnce.err != nil {
		t.Fatalf("the programs could not be built: %v", programsOnce.err)
	}
	return programsOnce.dir
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := output(t.Context(), buildTimeout, cmd); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}

// output runs a command to its end, however long its children hold its output.
func output(ctx context.Context, limit time.Duration, cmd *exec.Cmd) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	bounded.Env, bounded.Err, bounded.WaitDelay = cmd.Env, cmd.Err, 5*time.Second
	out, err := bounded.CombinedOutput()
	return out, errors.Join(err, ctx.Err())
}

// fetchClients installs the packages of package-lock.json unless that was done.
func fetchClients(t *testing.T) {
	t.Helper()
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	stamp := filepath.Join("node_modules", ".kairos-lock-sha256")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return
	}
	fmt.Fprintln(os.Stderr, "e2e: fetching the official TypeScript clients, the conformance suite and the Inspector: npm ci in e2e")
	out, err := output(t.Context(), fetchTimeout, exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"))
	if err != nil {
		t.Fatalf("npm ci could not fetch the clients that e2e/package-lock.json names: %v\n%s", err, out)
	}
	if err := os.WriteFile(stamp, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// event is what lib/reporter.mjs says of a finished test.
type event struct {
	Name         string  `json:"name"`
	Nesting      int     `json:"nesting"`
	Passed       bool    `json:"passed"`
	Skipped      bool    `json:"skipped"`
	Milliseconds float64 `json:"milliseconds"`
	Error        string  `json:"error"`
}

// play runs all scenarios in one go and shows each as a subtest.
func play(t *testing.T, bin string) {
	t.Helper()
	files, err := filepath.Glob("tests/*.test.mjs")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	report := filepath.Join(t.TempDir(), "report.jsonl")
	args := []string{
		"--test", fmt.Sprintf("--test-concurrency=%d", max(2, runtime.NumCPU())),
		"--test-reporter=./lib/reporter.mjs", "--test-reporter-destination=" + report,
	}
	cmd := exec.Command("node", append(args, files...)...)
	cmd.Env = append(os.Environ(), "KAIROS_BIN="+bin)
	out, runErr := output(t.Context(), playTimeout, cmd)
	events := read(t, report)
	for _, e := range events {
		if e.Nesting == 0 {
			t.Run(e.Name, e.check)
		}
	}
	if runErr != nil {
		t.Errorf("node --test: %v\n%s", runErr, out)
	}
}

func (e event) check(t *testing.T) {
	t.Logf("%.0f ms", e.Milliseconds)
	if strings.HasSuffix(e.Name, ".mjs") {
		t.Error("is a file that defines no test") // Node then takes the file itself for one
	}
	if e.Skipped {
		t.Error("scenarios must not be skipped")
	}
	if !e.Passed {
		t.Error(e.Error)
	}
}

func read(t *testing.T, report string) []event {
	t.Helper()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Errorf("node --test wrote no report: %v", err)
	}
	var events []event
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var e event
		if err := d.Decode(&e); err != nil {
			t.Fatalf("report: %v", err)
		}
		events = append(events, e)
	}
	return events
}
