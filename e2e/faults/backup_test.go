//go:build linux

package faults_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/e2e/play"
)

// A backup that is made while clients play has everything that was acknowledged before
// it began. A server on the copy finishes every run.
func TestARestoredBackupHasWhatWasAcknowledged(t *testing.T) {
	s := play.NewServer(t, bin)
	g := begin(t, s, s.Prepare(), 8)
	g.awaitRuns(10)
	older := rest(t, s, "kairos_begin", map[string]any{"uri": g.uri, "input": map[string]any{"who": "older"}})
	before := g.ledger.Copy()
	file := filepath.Join(t.TempDir(), "backup.db")
	var made struct {
		AlsoKeep []string `json:"also_keep"`
	}
	if err := json.Unmarshal([]byte(s.Must("db", "backup", file, "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	later := rest(t, s, "kairos_next", solved(older))
	g.awaitRuns(5)
	g.finish()
	g.ledger.Check(t, s)
	s.Kill()

	restored := play.NewServer(t, bin)
	copyFile(t, file, restored.Path("data/kairos.db"))
	key := s.Path("data/state.key")
	if !strings.Contains(strings.Join(made.AlsoKeep, "\n"), key) {
		t.Errorf("kairos db backup names %q, and not %s", made.AlsoKeep, key)
	}
	copyFile(t, key, restored.Path("data/state.key"))
	uri := restored.PrepareCopy()
	// The copy does not know later steps, nor their nonces.
	if again := rest(t, restored, "kairos_next", solved(later)); again["error_code"] != "NONCE_MISMATCH" {
		t.Errorf("a nonce from after the backup = %v, want NONCE_MISMATCH", again)
	}
	playOn(t, restored, before, uri)
}

// The same with pg_dump and pg_restore.
func TestARestoredPostgreSQLHasWhatWasAcknowledged(t *testing.T) {
	onlyInSoak(t)
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("THE BACKUP OF POSTGRESQL IS NOT TESTED: its programs are not on this machine")
	}
	address := server.Database(t)
	s := play.NewServerOn(t, bin, address)
	g := begin(t, s, s.Prepare(), 4)
	g.awaitRuns(8)
	before := g.ledger.Copy()
	if out, err := s.Kairos("db", "backup", s.Path("copy")); err == nil || !strings.Contains(err.Error(), "pg_dump --format custom") {
		t.Errorf("kairos db backup = %s, %v, want the command of PostgreSQL", out, err)
	}
	dump := filepath.Join(t.TempDir(), "kairos.dump")
	run(t, server.Program("pg_dump"), "--format", "custom", "--file", dump, address)
	g.awaitRuns(4)
	g.finish()
	g.ledger.Check(t, s)
	s.Kill()
	fresh := server.Database(t)
	run(t, server.Program("pg_restore"), "--no-owner", "--dbname", fresh, dump)
	restored := play.NewServerOn(t, bin, fresh)
	playOn(t, restored, before, restored.PrepareCopy())
}

// playOn finishes the runs of a ledger on a server that has a copy, and checks it.
func playOn(t *testing.T, s *play.Server, before *play.Ledger, uri string) {
	t.Helper()
	play.NewPlayer(t, s, before, play.NewPoints(), 0, uri).PlayOn()
	if !t.Failed() {
		before.Check(t, s)
	}
}

// rest calls a tool over REST.
func rest(t *testing.T, s *play.Server, tool string, arguments map[string]any) map[string]any {
	t.Helper()
	body, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(fmt.Sprintf("http://%s/api/%s", s.Address, tool), "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var reply map[string]any
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

// solved is the solution of the first or second step that a reply shows.
func solved(reply map[string]any) map[string]any {
	challenge, _ := reply["challenge"].(map[string]any)
	solution := map[string]any{"type": challenge["type"], "nonce": challenge["nonce"], "proof_hash": challenge["proof_hash"]}
	if challenge["type"] == "shell" {
		solution["shell"] = map[string]any{"exit_code": 0, "stdout": "built"}
	} else {
		solution["comment"] = map[string]any{"text": "The program was built without a warning and starts."}
	}
	return map[string]any{"uri": reply["current_step"].(map[string]any)["uri"], "run_id": reply["run_id"], "solution": solution}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	began := time.Now()
	if out, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
	t.Logf("%s took %v", filepath.Base(name), time.Since(began).Round(time.Millisecond))
}
