package programs

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Provider is the OpenID Connect provider of e2e/provider, a program of its own. The comment of
// that program lists its people, its clients, and what tests can make it do.
type Provider struct {
	Issuer string // http://127.0.0.1:PORT/realms/acme

	t testing.TB
}

// StartProvider starts a provider that ends with the test. The first start builds it.
func StartProvider(t testing.TB) *Provider {
	t.Helper()
	mod, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "e2e", "provider")
	cmd := exec.Command("go", "-C", dir, "run", ".") //nolint:noctx // it ends with its standard input
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the provider: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // nothing depends on how it ends
	})
	p := &Provider{t: t}
	if err := json.NewDecoder(out).Decode(p); err != nil {
		t.Fatalf("start the provider: %v", err)
	}
	return p
}

// Token returns a token with these claims, over those of ada for an hour. A claim that is nil is
// left out. how is a query such as "alg=none".
func (p *Provider) Token(claims map[string]any, how string) string {
	p.t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.post("token?"+how, string(body))
}

// Do makes the provider do something that only tests want, such as "rotate?keep=false".
func (p *Provider) Do(what string) string {
	p.t.Helper()
	return p.post(what, "")
}

func (p *Provider) post(what, body string) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.Issuer+"/test/"+what, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatalf("ask the provider for %s: %v", what, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("ask the provider for %s: %s %s %v", what, res.Status, text, err)
	}
	return string(text)
}
