package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A query finds a protocol with none of its words, without any configuration; a
// configuration turns that off.
func TestMeaningIsComparedUnlessItIsTurnedOff(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	document := s.path("refund.md")
	if err := os.WriteFile(document, []byte("# Refund a customer\n\n## Refund\n\nPay the money back to the customer.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.program("mint", document).CombinedOutput(); err != nil || strings.Contains(string(out), "cannot be compared") {
		t.Fatalf("mint = %s, %v", out, err)
	}
	explained := func() string {
		t.Helper()
		out, err := s.program("search", "--explain", "reimburse the buyer").CombinedOutput()
		if err != nil {
			t.Fatalf("search = %s, %v", out, err)
		}
		return string(out)
	}
	if out := explained(); !strings.Contains(out, "Refund a customer") {
		t.Errorf("search = %s, want the protocol", out)
	}
	s.doctor("built-in English word vectors")
	s.configure("embedding: {provider: none}\n")
	if out := explained(); strings.Contains(out, `"role": "match"`) {
		t.Errorf("search by words = %s, want no match", out)
	}
	s.doctor("none: texts are compared by words alone")
}

func TestEmbeddingCheckDescribesTheTable(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	run := func(args ...string) (string, error) {
		out, err := s.program(append([]string{"db", "embedding"}, args...)...).CombinedOutput()
		return string(out), err
	}
	out, err := run("check")
	for _, want := range []string{"built-in English word vectors", "60000 words", "dimension   64", "ok: "} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("check = %s, %v, want %q", out, err, want)
		}
	}
	var r struct {
		OK           bool  `json:"ok"`
		Similarities []any `json:"similarities"`
	}
	if out, err := run("check", "-o", "json"); err != nil || json.Unmarshal([]byte(out), &r) != nil || !r.OK || len(r.Similarities) != 2 {
		t.Errorf("check as JSON = %s, %v", out, err)
	}
	if out, err := run("check", "bake a cake", "restart the server", "bake bread"); err == nil || !strings.Contains(out, "use another model or table") {
		t.Errorf("check of texts that are not alike = %s, %v", out, err)
	}

	vectors := `{"dimensions":3,"words":["Сервер","сервис","Löschen","торт"],"vectors":{"Сервер":[1,0.1,0],"сервис":[0.9,0.2,0],"Löschen":[-1,0.1,1],"торт":[-1,0.2,-1]}}`
	if err := os.WriteFile(s.path("vectors.json"), []byte(vectors), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run("table", s.path("vectors.json"), s.path("other.table")); err != nil || !strings.Contains(out, "4 words") {
		t.Fatalf("table = %s, %v", out, err)
	}
	s.configure("embedding: {table: ./other.table}\n")
	if out, err := run("check", "СЕРВЕР", "сервис!", "löschen"); err != nil || !strings.Contains(out, "word vectors of "+s.path("other.table")) {
		t.Errorf("check of another table = %s, %v", out, err)
	}
	if out, err := run("check"); err == nil || !strings.Contains(out, "give three texts in its language") {
		t.Errorf("check of English texts = %s, %v", out, err)
	}
	if out, err := s.program("config", "check").CombinedOutput(); err != nil || !strings.Contains(string(out), "embedding word vectors of "+s.path("other.table")) {
		t.Errorf("config check = %s, %v", out, err)
	}
	if out, err := run("table", s.path("other.table"), s.path("new.table")); err == nil || !strings.Contains(out, "read word vectors") {
		t.Errorf("a table of what is not JSON = %s, %v", out, err)
	}
	s.configure("embedding: {provider: none}\n")
	if out, err := run("check"); err == nil || !strings.Contains(out, "embedding.provider is none") {
		t.Errorf("check without a table = %s, %v", out, err)
	}
}
