package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

// onPostgres makes a folder whose configuration names the database.
func onPostgres(t *testing.T, address string, more ...string) *served {
	t.Helper()
	s := newServed(t)
	s.lock()
	s.configureDatabase(address, more...)
	return s
}

func (s *served) configureDatabase(address string, more ...string) {
	s.t.Helper()
	s.write("kairos.yaml", fmt.Sprintf("database: %q\ntree: tree.yaml\nadmin: {socket: run/admin.sock}\ndrivers: {dir: .}\nmcp: {state_key_file: %q}\nsigning: {key_file: signing.key}\ntools_file: tools.json\n",
		address, s.path("state.key"))+strings.Join(more, ""))
}

// TestTwoServersPlayOneRunOnPostgreSQL begins at one server, solves the steps in turn
// at both, repeats a call at the other, and attests at the first, while PostgreSQL is
// killed in between.
func TestTwoServersPlayOneRunOnPostgreSQL(t *testing.T) {
	long(t)
	t.Parallel()
	server := postgrestest.Start(t)
	address := server.Database(t)
	if server.Owned() {
		address = server.OverTCP(address, postgrestest.Password)
	}
	one, other := onPostgres(t, address).startHTTP(), onPostgres(t, address).startHTTP()
	for _, l := range []*listening{one, other} {
		if status, ready := l.request("GET", "/readyz", "", ""); status != 200 {
			t.Fatalf("readyz = %d %v", status, ready)
		}
	}
	doc := "# Move a heron\n\n" + strings.Repeat("## Step\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n\n", 4)
	if status, minted := one.request("POST", "/api/kairos_mint/raw?llm_model_id=test", "text/markdown", doc); status != 200 {
		t.Fatalf("mint = %d %v", status, minted)
	}
	// The next call on the other server finds the protocol.
	choice := other.rest("kairos_search", map[string]any{"query": "move heron"})["choices"].([]any)[0].(map[string]any)
	uri := choice["uri"].(string)
	if choice["role"] != "match" {
		t.Fatalf("search at the other server = %v, want a match", choice)
	}
	reply := one.rest("kairos_begin", map[string]any{"uri": uri})
	for step := range 4 {
		challenge := reply["challenge"].(map[string]any)
		arguments := map[string]any{"uri": uri, "solution": map[string]any{
			"type": "shell", "nonce": challenge["nonce"], "proof_hash": challenge["proof_hash"],
			"shell": map[string]any{"exit_code": 0, "stdout": fmt.Sprint("step ", step)},
		}}
		at, repeats := one, other
		if step%2 == 0 {
			at, repeats = other, one
		}
		reply = at.rest("kairos_next", arguments)
		// A retry gets the recorded reply wherever it arrives, and solves nothing twice.
		again := repeats.rest("kairos_next", arguments)
		delete(again, "metadata") // how long it took
		delete(reply, "metadata")
		if fmt.Sprint(again) != fmt.Sprint(reply) {
			t.Errorf("step %d again at the other server = %v, want %v", step+1, again, reply)
		}
		if step == 1 && server.Owned() {
			server.Kill()
			eventually(t, "readyz says that PostgreSQL cannot be reached", func() bool {
				status, ready := one.request("GET", "/readyz", "", "")
				return status == 503 && strings.Contains(fmt.Sprint(ready), "cannot be reached")
			})
			if err := server.Run(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a := one.rest("kairos_attest", map[string]any{"uri": uri, "outcome": "success", "message": "done"}); a["verified"] != true {
		t.Errorf("attest: %v\n%s", a, one.stderr.String())
	}
	wantQuiet(t, one, other)
	// It complains of the drivers that are not installed here.
	out, _ := other.program("doctor", "--deep").CombinedOutput()
	if !strings.Contains(string(out), "nothing is damaged") || strings.Contains(string(out), postgrestest.Password) {
		t.Errorf("doctor --deep = %s, want no damage and no password", out)
	}
}

// TestTwoServersOnPostgreSQLFeedOneIndex stores a protocol at each of two servers that
// share a database and its index in Qdrant, and finds both at the other.
func TestTwoServersOnPostgreSQLFeedOneIndex(t *testing.T) {
	t.Parallel()
	qdrant := qdranttest.Start(t)
	index := fmt.Sprintf("qdrant: {url: 'http://%s', collection: %s}\n", qdrant, qdranttest.Collection(t, qdrant))
	address := postgrestest.Start(t).Database(t)
	one, other := onPostgres(t, address, index).startHTTP(), onPostgres(t, address, index).startHTTP()
	for _, stored := range []struct {
		at, search *listening
		title      string
	}{{one, other, "Move a heron"}, {other, one, "Wash a walrus"}} {
		doc := strings.Replace(backupProtocol, "Restore a database backup", stored.title, 1)
		if status, minted := stored.at.request("POST", "/api/kairos_mint/raw?llm_model_id=test", "text/markdown", doc); status != 200 {
			t.Fatalf("mint %q = %d %v", stored.title, status, minted)
		}
		choice := stored.search.rest("kairos_search", map[string]any{"query": stored.title})["choices"].([]any)[0].(map[string]any)
		if choice["role"] != "match" {
			t.Errorf("search for %q at the other server = %v, want a match", stored.title, choice)
		}
	}
	eventually(t, "the index has both and the built-in ones", func() bool {
		out, err := one.program("index", "check").CombinedOutput()
		return err == nil && strings.Contains(string(out), "4 protocols") && strings.Contains(string(out), "0 missing, 0 wrong, 0 stray")
	})
}

// wantQuiet wants that nothing the servers say has the password of the database.
func wantQuiet(t *testing.T, all ...*listening) {
	t.Helper()
	for _, l := range all {
		for _, secret := range []string{postgrestest.Password, "wal%2Frus%3F1", "wal/rus"} {
			if log := l.stderr.String(); strings.Contains(log, secret) {
				t.Errorf("the log has the password of the database:\n%s", log)
			}
		}
	}
}

// TestARunMovesToPostgreSQL begins a run on SQLite, moves the database and finishes the
// run on PostgreSQL.
func TestARunMovesToPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	address := server.Database(t)
	s := newServed(t)
	s.lock()
	before := s.startHTTP()
	if status, minted := before.request("POST", "/api/kairos_mint/raw?llm_model_id=test", "text/markdown", oneCommand); status != 200 {
		t.Fatalf("mint = %d %v", status, minted)
	}
	choice := before.rest("kairos_search", map[string]any{"query": "one"})["choices"].([]any)[0].(map[string]any)
	begun := before.rest("kairos_begin", map[string]any{"uri": choice["uri"]})
	if err := before.stop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 runs", "has protocols or runs already"} {
		out, err := s.program("migrate", "--to", address).CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != (want == "1 runs") {
			t.Errorf("migrate = %s, %v, want %q", out, err, want)
		}
	}
	s.configureDatabase(address)
	after := (&served{t: t, dir: s.dir}).startHTTP()
	challenge := begun["challenge"].(map[string]any)
	after.rest("kairos_next", map[string]any{"uri": choice["uri"], "solution": map[string]any{
		"type": "shell", "nonce": challenge["nonce"], "proof_hash": challenge["proof_hash"], "shell": map[string]any{"exit_code": 0},
	}})
	if a := after.rest("kairos_attest", map[string]any{"uri": choice["uri"], "outcome": "success", "message": "done"}); a["verified"] != true || a["run_id"] != begun["run_id"] {
		t.Errorf("attest = %v, want run %v verified", a, begun["run_id"])
	}
}

func TestAServerSaysWhyItCannotUsePostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("needs a server that the test has set up")
	}
	s := onPostgres(t, server.OverTCP(server.Named("nowhere"), postgrestest.Password))
	for _, command := range [][]string{{"serve"}, {"config", "check"}, {"doctor"}, {"search", "anything"}} {
		out, err := s.program(command...).CombinedOutput()
		if err == nil || !strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("kairos %s ended with %v, want exit status 1", command, err)
		}
		for _, want := range []string{`has no database "nowhere"`, "createdb --owner kairos nowhere"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("kairos %s says %s, want %q", command, out, want)
			}
		}
		if strings.Contains(string(out), "wal/rus") || strings.Contains(string(out), "wal%2Frus") {
			t.Errorf("kairos %s shows the password: %s", command, out)
		}
	}
}
