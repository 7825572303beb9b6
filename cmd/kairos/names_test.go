package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Runs and statements name a person by principal, and by display name where the operator lets them.
// A redaction erases both, and what was made before it still verifies.
func TestARecordNamesPeopleAsTheOperatorLetsIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ config, named string }{
		"by principal": {"auth: {enabled: true}\n", "by user:acme:bob"},
		"by name":      {"auth: {enabled: true, names: true}\n", `by user:acme:bob "Bob Wolf"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := withShippedDrivers(t, tc.config)
			names := strings.Contains(tc.named, "Wolf")
			_, ada := b.tokenOf("user:acme:ada", "--space", "group:acme:sre")
			page, id, again := b.gatedBy(ada, "", gatedCommand)
			bob := b.browser(t)
			bob.wants("GET", page, "", 401, "This page needs a login")
			link, _ := b.loginLink("--as", "user:acme:bob", "--name", "Bob Wolf", "--group", "sre")
			_, shown := bob.opens("POST", link, "")
			bob.approves(page, shown, "user:acme:bob")
			b.ships(ada, again().body)
			records := func(when string) (all string) {
				statement := b.path(when + ".json")
				b.prints("", "runs", "export", id, "--file", statement)
				b.prints("signed by", "runs", "verify", statement)
				return b.command("", "runs", "show", id, "-o", "json") + b.command("", "runs", "verify", statement) + stated(t, statement) + b.stderr.String()
			}
			before := records("before")
			b.prints(tc.named, "runs", "show", id)
			if strings.Contains(before, "Wolf") != names || !strings.Contains(before, "user:acme:bob") {
				t.Errorf("the records say %s, want the principal, and the name: %t", before, names)
			}
			b.prints("is abandoned", "runs", "end", id)
			b.prints("is erased", "runs", "redact", id)
			line := b.command("", "runs", "show", id, "-o", "json") + records("after")
			for _, who := range []string{"Wolf", "user:acme:bob"} {
				if line = strings.ReplaceAll(line, b.stderr.String(), ""); strings.Contains(line, who) {
					t.Errorf("after the redaction the records have %q: %s", who, line)
				}
			}
			b.prints("signed by", "runs", "verify", b.path("before.json")) // what was exported stays as it was
		})
	}
}

// ships submits the evidence of the step that a reply shows approved.
func (b *program) ships(token, reply string) {
	b.t.Helper()
	var r struct {
		CurrentStep struct{ URI string } `json:"current_step"`
		Challenge   struct {
			Nonce string
			Hash  string `json:"proof_hash"`
		}
	}
	if err := json.Unmarshal([]byte(reply), &r); err != nil {
		b.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell","nonce":%q,"proof_hash":%q,"shell":{"exit_code":0,"stdout":"shipped"}}}`, r.CurrentStep.URI, r.Challenge.Nonce, r.Challenge.Hash)
	if a := b.do("POST", "/api/kairos_next", body, with(token)); a.status != http.StatusOK || !strings.Contains(a.body, "kairos_attest") {
		b.t.Fatalf("the evidence = %d %s", a.status, a.body)
	}
}

// stated is what a file with a statement says, signed and beside it.
func stated(t *testing.T, path string) string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	payload := regexp.MustCompile(`"payload": ?"([^"]+)"`).FindSubmatch(file)
	if payload == nil {
		t.Fatalf("%s has no payload: %s", path, file)
	}
	signed, err := base64.StdEncoding.DecodeString(string(payload[1]))
	if err != nil {
		t.Fatal(err)
	}
	return string(file) + string(signed)
}
