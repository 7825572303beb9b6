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
	s.write("kairos.yaml", fmt.Sprintf("database: %q\ntree: tree.yaml\nadmin: {socket: run/admin.sock}\ndrivers: {dir: .}\nkeys_dir: .\n",
		address)+strings.Join(more, ""))
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
		out, err := one.program("db", "index", "check").CombinedOutput()
		return err == nil && strings.Contains(string(out), "4 protocols") && strings.Contains(string(out), "0 missing, 0 wrong, 0 stray")
	})
	eventually(t, "status has the address of both", func() bool {
		out, err := one.program("status").CombinedOutput()
		return err == nil && strings.Contains(string(out), strings.TrimPrefix(one.url, "http://")) && strings.Contains(string(out), strings.TrimPrefix(other.url, "http://"))
	})
	if out, err := one.program("doctor", "--url", one.url).CombinedOutput(); !strings.Contains(string(out), "PostgreSQL") {
		t.Errorf("doctor says %s, %v, want PostgreSQL", out, err)
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
	const moved = "with 0 older versions, and 1 run\n"
	for _, want := range []string{moved, "has protocols or runs already"} {
		out, err := s.program("db", "migrate", "--to", address).CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != (want == moved) {
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
