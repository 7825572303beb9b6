package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

const backupProtocol = `# Restore a database backup

## Find the newest dump

Look at the list of dumps.

## Load it

Load it into an empty database.
`

// tool calls a tool and returns its reply as JSON.
func (s *served) tool(name string, args map[string]any) json.RawMessage {
	s.t.Helper()
	var result struct {
		Structured json.RawMessage `json:"structuredContent"`
	}
	raw := s.request("tools/call", map[string]any{"name": name, "arguments": args})
	if err := json.Unmarshal(raw, &result); err != nil {
		s.t.Fatalf("%s = %s: %v", name, raw, err)
	}
	if result.Structured == nil {
		return raw
	}
	return result.Structured
}

func (s *served) search(query string) string {
	s.t.Helper()
	return string(s.tool("kairos_search", map[string]any{"query": query}))
}

func TestTheProgramPlaysProtocolsThatAreKeptInQdrant(t *testing.T) {
	db := qdranttest.New(t, qdranttest.Options{APIKey: "open-sesame"})
	t.Setenv("QDRANT_API_KEY", "open-sesame")
	s := newServed(t)
	s.lock()
	s.configure("qdrant: {url: 'http://" + db.Address() + "', collection: e2e, timeout: 20s}\n")
	if out, err := s.program("config", "check").CombinedOutput(); err != nil || !strings.Contains(string(out), "collection e2e") {
		t.Errorf("config check = %s, %v, want the collection", out, err)
	}
	s.start()
	s.tool("kairos_mint", map[string]any{"markdown_doc": backupProtocol, "llm_model_id": "model"})
	found := s.search("restoring backups")
	if !strings.Contains(found, `"label":"Find the newest dump"`) {
		t.Fatalf("kairos_search = %s, want the protocol", found)
	}
	head := headOf(t, found)
	s.solve(func() {
		db.Kill(t)
		db.Restart(t)
	})

	if found := s.search("database backup"); !strings.Contains(found, head) {
		t.Errorf("kairos_search after a restart of Qdrant = %s, want %s", found, head)
	}
	if log := s.stderr.String(); strings.Contains(log, "open-sesame") {
		t.Errorf("the log has the API key:\n%s", log)
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

func TestAServerStartsWithoutQdrantAndSaysWhatIsMissing(t *testing.T) {
	long(t)
	t.Parallel()
	db := qdranttest.New(t, qdranttest.Options{})
	db.Kill(t)
	s := newServed(t)
	s.lock()
	s.configure("qdrant: {url: 'http://" + db.Address() + "', timeout: 1s}\n")
	s.start()
	reply := s.search("anything")
	if !strings.Contains(reply, "STORE_UNAVAILABLE") || !strings.Contains(reply, db.Address()) {
		t.Errorf("kairos_search without Qdrant = %s, want STORE_UNAVAILABLE with the address", reply)
	}
	out, err := s.program("doctor").CombinedOutput()
	if err == nil || !strings.Contains(string(out), db.Address()) {
		t.Errorf("doctor = %s, %v, want the address of what cannot be reached", out, err)
	}
	db.Restart(t)
	// Within its second of patience a busy machine may not get through at once.
	for deadline := time.Now().Add(time.Minute); ; {
		reply := s.search("anything")
		if strings.Contains(reply, `"role":"create"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("kairos_search once Qdrant is up = %s, want choices", reply)
		}
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
	if out, err := s.program("export", dir).CombinedOutput(); err != nil {
		t.Fatalf("export = %s, %v", out, err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "kairos-export.jsonl"))
	if err != nil || !strings.Contains(string(index), `"successCount":2`) || !strings.Contains(string(index), `"step_quality":"excellent"`) {
		t.Errorf("after import the ratings are %s, %v, want those of the earlier server", index, err)
	}
	s.start()
	if found := s.search("sourdough starter"); !strings.Contains(found, "00000000-0000-4000-8000-000000000001") {
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
