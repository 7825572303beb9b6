package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

const backupProtocol = `# Restore a database backup

## Find the newest dump

Look at the list of dumps.

## Load it

Load it into an empty database.
`

func TestTheProgramKeepsAnIndexInQdrant(t *testing.T) {
	db := qdranttest.New(t, qdranttest.Options{APIKey: "open-sesame"})
	t.Setenv("QDRANT_API_KEY", "open-sesame")
	s := newServed(t)
	s.lock()
	s.configure("qdrant: {url: 'http://" + db.Address() + "', collection: e2e}\n")
	if out, err := s.program("config", "check").CombinedOutput(); err != nil || !strings.Contains(string(out), "collection e2e") {
		t.Errorf("config check = %s, %v, want the collection", out, err)
	}
	s.start()
	s.client.opens(backupProtocol)
	found := s.client.search("restoring backups")
	if !strings.Contains(found, `"label":"Find the newest dump"`) {
		t.Fatalf("kairos_search = %s, want the protocol", found)
	}
	head := headOf(t, found)
	s.solve(func() {
		db.Kill(t)
		db.Restart(t)
	})
	if out, err := s.program("db", "index", "check").CombinedOutput(); err != nil || !strings.Contains(string(out), "0 missing, 0 wrong, 0 stray") || !strings.Contains(string(out), "4 protocols") {
		t.Errorf("index check after a restart of Qdrant = %s, %v, want the protocol and the built-in ones", out, err)
	}
	if out, err := s.program("db", "index", "rebuild").CombinedOutput(); err != nil || !strings.Contains(string(out), "4 protocols") {
		t.Errorf("index rebuild = %s, %v, want all protocols", out, err)
	}
	if found := s.client.search("database backup"); !strings.Contains(found, head) {
		t.Errorf("kairos_search = %s, want %s", found, head)
	}
	if log := s.stderr.String(); strings.Contains(log, "open-sesame") {
		t.Errorf("the log has the API key:\n%s", log)
	}
}

// A running server brings vectors into the index.
func TestTheIndexHasTheVectors(t *testing.T) {
	t.Parallel()
	address := qdranttest.Start(t)
	name, raw := qdranttest.Collection(t, address), qdranttest.Dial(t, address)
	endpoint := embedtest.Start(embedtest.Options{})
	defer endpoint.Close()
	s := newServed(t)
	s.lock()
	s.configure("qdrant: {url: 'http://" + address + "', collection: " + name + "}\nembedding: {url: '" + endpoint.URL() + "', model: fake}\n")
	s.start()
	s.client.opens(backupProtocol)
	if found := s.client.search("restoring backups"); !strings.Contains(found, `"label":"Find the newest dump"`) {
		t.Errorf("kairos_search = %s, want the protocol", found)
	}
	embedded := &pb.Filter{Must: []*pb.Condition{pb.NewHasVector("dense")}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		n, err := raw.Count(t.Context(), &pb.CountPoints{CollectionName: name, Exact: pb.PtrOf(true), Filter: embedded})
		if err == nil && n >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d steps have a vector, %v, want those of the protocol", n, err)
		}
	}
	if out, err := s.program("db", "index", "check").CombinedOutput(); err != nil {
		t.Errorf("index check = %s, %v, want nil", out, err)
	}
}

// headOf is the URI of the first match.
func headOf(t *testing.T, found string) string {
	t.Helper()
	var reply struct {
		Choices []struct {
			URI  string `json:"uri"`
			Role string `json:"role"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(found), &reply); err != nil || len(reply.Choices) == 0 || reply.Choices[0].Role != "match" {
		t.Fatalf("choices %s, %v, want a match first", found, err)
	}
	return reply.Choices[0].URI
}

func TestAServerWorksWithoutItsIndexAndCatchesUp(t *testing.T) {
	long(t)
	t.Parallel()
	db := qdranttest.New(t, qdranttest.Options{})
	db.Kill(t)
	s := newServed(t)
	s.lock()
	s.configure("qdrant: {url: 'http://" + db.Address() + "'}\n")
	l := s.startHTTP()
	if status, reply := l.request("POST", "/api/kairos_mint/raw", "text/markdown", backupProtocol); status != 200 {
		t.Fatalf("kairos_mint without Qdrant = %d %v, want 200", status, reply)
	}
	if status, reply := l.request("POST", "/api/kairos_search", "application/json", `{"query":"restore database backup"}`); status != 200 || !strings.Contains(fmt.Sprint(reply["choices"]), "Find the newest dump") {
		t.Errorf("kairos_search without Qdrant = %d %v, want the protocol", status, reply)
	}
	if status, reply := l.request("GET", "/readyz", "", ""); status != 200 {
		t.Errorf("/readyz without Qdrant = %d %v, want 200", status, reply)
	}
	wantHealth := func(word, qdrant string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			status, reply := l.request("GET", "/health", "", "")
			parts, _ := reply["dependencies"].(map[string]any)
			if status == 200 && reply["status"] == word && parts["qdrant"] == qdrant {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("/health = %d %v, want 200 and %s", status, reply, word)
			}
		}
	}
	wantHealth("degraded", "unhealthy")
	out, err := s.program("doctor").CombinedOutput()
	if err == nil || !strings.Contains(string(out), db.Address()) {
		t.Errorf("doctor = %s, %v, want the address of what cannot be reached", out, err)
	}
	db.Restart(t)
	wantHealth("healthy", "healthy")
	if out, err := s.program("db", "index", "check").CombinedOutput(); err != nil || !strings.Contains(string(out), "0 missing, 0 wrong, 0 stray") {
		t.Errorf("index check once Qdrant is up = %s, %v, want everything", out, err)
	}
}

func TestProtocolsOfTheEarlierServerAreImported(t *testing.T) {
	t.Parallel()
	db := qdranttest.New(t, qdranttest.Options{})
	fillLegacy(t, db.Address())
	s := newServed(t)
	s.lock()
	for _, want := range []string{"2 stored", "2 unchanged"} {
		out, err := s.program("import", "--from-qdrant", "http://"+db.Address(), "--collection", "old").CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("import --from-qdrant = %s, %v, want %q", out, err, want)
		}
		if !strings.Contains(string(out), "it has no text") {
			t.Errorf("import --from-qdrant = %s, want the broken point told", out)
		}
	}
	dir := filepath.Join(t.TempDir(), "out")
	if out, err := s.program("protocols", "export", dir).CombinedOutput(); err != nil {
		t.Fatalf("export = %s, %v", out, err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "kairos-export.jsonl"))
	if err != nil || !strings.Contains(string(index), `"successCount":2`) || !strings.Contains(string(index), `"step_quality":"excellent"`) {
		t.Errorf("after import the ratings are %s, %v, want those of the earlier server", index, err)
	}
	s.start()
	if found := s.client.search("sourdough starter"); !strings.Contains(found, "00000000-0000-4000-8000-000000000001") {
		t.Errorf("kairos_search = %s, want the imported protocol with its UUIDs", found)
	}
}

// fillLegacy makes a collection of the earlier server: a protocol of two
// steps, a single memory and a broken point.
func fillLegacy(t *testing.T, address string) {
	t.Helper()
	step := func(n int, label, body string, chain map[string]any) map[string]any {
		p := map[string]any{
			"memory_uuid": fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", n), "label": label, "text": body, "tags": []any{"bread"},
			"llm_model_id": "model", "created_at": "2026-01-15T10:00:00.000Z", "space_id": "user:kairos:abc",
		}
		if chain != nil {
			p["chain"] = chain
			p["quality_metadata"] = map[string]any{"step_quality_score": 6, "step_quality": "excellent"}
			p["quality_metrics"] = map[string]any{"retrievalCount": 3, "successCount": 2, "failureCount": 1, "qualityBonus": 1.8, "lastRater": "kairos_next"}
		}
		return p
	}
	bread := func(i int) map[string]any {
		return map[string]any{"id": protocol.ChainID("Sourdough starter"), "label": "Sourdough starter", "step_index": i, "step_count": 2}
	}
	qdranttest.Fill(t, address, "old", []map[string]any{
		step(1, "Mix", "## Mix\n\nFlour and water.", bread(1)), step(2, "Wait", "## Wait\n\nA day.", bread(2)),
		step(3, "Remember", "Salt comes last.", nil), step(4, "Broken", "", nil),
	})
}
