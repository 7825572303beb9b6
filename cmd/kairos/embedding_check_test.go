package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
)

// A query finds a protocol with none of its words, without any server for vectors.
func TestAModelInAFolderFindsMeanings(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	document := s.path("restart.md")
	if err := os.WriteFile(document, []byte("# Restart a server\n\n## Restart\n\nrestart the server\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.program("mint", document).CombinedOutput(); err != nil {
		t.Fatalf("mint = %s, %v", out, err)
	}
	find := func() string {
		t.Helper()
		out, err := s.program("search", "reboot machine").CombinedOutput()
		if err != nil {
			t.Fatalf("search = %s, %v", out, err)
		}
		return string(out)
	}
	const match = `"role": "match"`
	if out := find(); strings.Contains(out, match) {
		t.Fatalf("search by words = %s, want no match", out)
	}
	embedtest.WriteModel(t, s.path("model"), embedtest.Meanings)
	s.configure("embedding: {model: ./model}\n")
	if out, err := s.program("mint", "--force", document).CombinedOutput(); err != nil || strings.Contains(string(out), "cannot be compared") {
		t.Fatalf("mint = %s, %v", out, err)
	}
	if out := find(); !strings.Contains(out, match) {
		t.Errorf("search by meaning = %s, want the protocol", out)
	}
	// Those of the built-in protocols, which a running server embeds.
	if out := s.doctor("passages have no vector yet"); !strings.Contains(out, s.path("model")) {
		t.Errorf("doctor = %s, want the folder", out)
	}
}

func TestEmbeddingCheckTellsAModelThatWorks(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	check := func(args ...string) (string, error) {
		out, err := s.program(append([]string{"db", "embedding", "check"}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := check(); err == nil || !strings.Contains(out, "no embedding is configured") {
		t.Errorf("check without a model = %s, %v", out, err)
	}
	embedtest.WriteModel(t, s.path("model"), embedtest.Meanings)
	s.configure("embedding: {model: ./model}\n")
	out, err := check()
	for _, want := range []string{"static/", s.path("model"), "14 tokens", "dimension   5", "0.866", "ok: "} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("check = %s, %v, want %q", out, err, want)
		}
	}
	var r struct {
		OK           bool  `json:"ok"`
		Similarities []any `json:"similarities"`
	}
	if out, err := check("-o", "json"); err != nil || json.Unmarshal([]byte(out), &r) != nil || !r.OK || len(r.Similarities) != 2 {
		t.Errorf("check as JSON = %s, %v", out, err)
	}

	embedtest.WriteModel(t, s.path("model"), [][]string{{"restart", "cake"}, {"reboot"}})
	if out, err := check(); err == nil || !strings.Contains(out, "use another model") {
		t.Errorf("check of a model that compares badly = %s, %v", out, err)
	}
	embedtest.WriteModel(t, s.path("model"), [][]string{{"nothing"}, {"else"}})
	if out, err := check(); err == nil || !strings.Contains(out, "does not take the English texts") {
		t.Errorf("check of a model without the words = %s, %v", out, err)
	}
	if err := os.WriteFile(s.path("model/tokenizer.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil || !strings.Contains(out, "only WordPiece is supported") {
		t.Errorf("check of another tokenizer = %s, %v", out, err)
	}
}
