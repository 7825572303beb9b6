package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// composeDir has what docs/how-to/run-with-compose.md uses.
const composeDir = "../../packaging/compose"

// composed is compose.yaml, as far as the test compares it with the other files.
type composed struct {
	Services map[string]struct {
		Build       struct{ Context, Dockerfile string }
		Environment map[string]string
		Volumes     []string
		Networks    any
		DependsOn   any `yaml:"depends_on"`
		Healthcheck struct{ Test []string }
	}
	Networks, Volumes map[string]any
}

// ownConfig is the configuration of the server that compose.yaml starts.
type ownConfig struct {
	Database string
	HTTP     struct {
		PublicURL      string   `yaml:"public_url"`
		TrustedProxies []string `yaml:"trusted_proxies"`
	}
	OIDC struct {
		Issuer, Audience string
		ClientID         string `yaml:"client_id"`
	}
}

func composeFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(composeDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readCompose(t *testing.T) (c composed, own ownConfig) {
	t.Helper()
	for name, to := range map[string]any{"compose.yaml": &c, "kairos.yaml": &own} {
		if err := yaml.Unmarshal(composeFile(t, name), to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return c, own
}

// keysOf are the names in a list, or the keys of a table.
func keysOf(v any) (names []string) {
	switch v := v.(type) {
	case []any:
		for _, name := range v {
			names = append(names, name.(string))
		}
	case map[string]any:
		names = slices.Collect(maps.Keys(v))
	}
	return names
}

func TestTheComposeFileNamesWhatExists(t *testing.T) {
	t.Parallel()
	c, own := readCompose(t)
	used := map[string]bool{}
	for name, s := range c.Services {
		if s.Build.Context != "" {
			if _, err := os.Stat(filepath.Join(composeDir, s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			used[source] = true
			if _, declared := c.Volumes[source]; strings.HasPrefix(source, ".") {
				composeFile(t, source)
			} else if !declared {
				t.Errorf("%s mounts %s, which is not a volume", name, source)
			}
		}
		for _, other := range keysOf(s.DependsOn) {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not a service", name, other)
			}
		}
		for _, network := range keysOf(s.Networks) {
			if _, ok := c.Networks[network]; !ok {
				t.Errorf("%s is in %s, which is not a network", name, network)
			}
		}
	}
	for volume := range c.Volumes {
		if !used[volume] {
			t.Errorf("no service mounts the volume %s", volume)
		}
	}
	proxy := c.Services["proxy"].Networks.(map[string]any)["front"].(map[string]any)
	if want := []string{proxy["ipv4_address"].(string) + "/32"}; !slices.Equal(own.HTTP.TrustedProxies, want) {
		t.Errorf("kairos.yaml trusts %v, and the proxy is %v", own.HTTP.TrustedProxies, want)
	}
	for _, address := range []string{own.HTTP.PublicURL, own.OIDC.Issuer} {
		u, err := url.Parse(address)
		if err != nil || !slices.Contains(keysOf(proxy["aliases"]), u.Host) || !strings.Contains(string(composeFile(t, "Caddyfile")), "\n"+u.Host+" {") {
			t.Errorf("the proxy does not serve %s (%v)", address, err)
		}
	}
	if at, err := url.Parse(own.Database); err != nil || c.Services[at.Hostname()].Healthcheck.Test == nil {
		t.Errorf("the database is at %s, which is not a service with a health check (%v)", own.Database, err)
	}
}

// A variable beats the file: one that the image or compose.yaml sets would undo a line of kairos.yaml.
func TestTheVariablesOfComposeLeaveTheSettingsToTheFile(t *testing.T) {
	t.Parallel()
	c, _ := readCompose(t)
	set := slices.Collect(maps.Keys(c.Services["kairos"].Environment))
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(string(composeFile(t, "Dockerfile")), -1) {
		for _, pair := range strings.Fields(line[1]) {
			name, _, _ := strings.Cut(pair, "=")
			set = append(set, name)
		}
	}
	others := []string{"SSL_CERT_DIR", "HOME", "PATH", "XDG_DATA_HOME"}
	if len(set) < 2 {
		t.Fatalf("only %v is set; the test looks in the wrong place", set)
	}
	for _, name := range set {
		switch {
		case slices.Contains(config.Variables(), name):
			t.Errorf("%s is set, which beats the configuration file", name)
		case !slices.Contains(others, name):
			t.Errorf("%s is set, which KAIROS does not read", name)
		}
	}
}

// TestTheIssuerIsTheOneThingToEdit: it occurs once, and everything else fits the bundled provider.
func TestTheIssuerIsTheOneThingToEdit(t *testing.T) {
	t.Parallel()
	_, own := readCompose(t)
	var realm struct {
		Realm   string
		Clients []struct {
			ClientID        string
			RedirectURIs    []string
			ProtocolMappers []struct{ Config map[string]string }
		}
	}
	if err := json.Unmarshal(composeFile(t, "realm.json"), &realm); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(own.OIDC.Issuer, "/realms/"+realm.Realm) || own.OIDC.Audience != own.HTTP.PublicURL {
		t.Errorf("the issuer is %s and the audience %s, want the realm %s and %s", own.OIDC.Issuer, own.OIDC.Audience, realm.Realm, own.HTTP.PublicURL)
	}
	audience, callback := false, false
	for _, client := range realm.Clients {
		callback = callback || client.ClientID == own.OIDC.ClientID && slices.Equal(client.RedirectURIs, []string{own.HTTP.PublicURL + "/auth/callback"})
		for _, m := range client.ProtocolMappers {
			audience = audience || m.Config["included.custom.audience"] == own.OIDC.Audience
		}
	}
	if !audience || !callback {
		t.Errorf("the realm has the audience %t and the client with its address %t, want both", audience, callback)
	}
	files, err := os.ReadDir(composeDir)
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, f := range files {
		if bytes.Contains(composeFile(t, f.Name()), []byte(own.OIDC.Issuer)) {
			has = append(has, f.Name())
		}
	}
	if want := []string{"kairos.yaml"}; !cmp.Equal(has, want) {
		t.Errorf("the issuer is in %v, want %v", has, want)
	}
}

func TestTheSecretsOfComposeAreMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, folder := range []string{"database", "kairos", "provider", "provider-data"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	made := func() (all [3]string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "bash", filepath.Join(composeDir, "secrets.sh"), dir).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("secrets.sh: %v\n%s", err, out)
		}
		for i, name := range []string{"database/password", "kairos/pgpass", "provider/admin"} {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s has the mode %v (%v), want 0600", name, info.Mode(), err)
			}
			all[i] = string(b)
		}
		return all
	}
	first := made()
	if again := made(); again != first {
		t.Error("a second start changes the secrets")
	}
	if len(first[0]) < 32 || first[1] != "database:5432:kairos:kairos:"+first[0]+"\n" || first[2] == first[0] {
		t.Error("want a long password, the same for the server, and another one for the provider")
	}
}

func TestTheAuthorityOfTheProxyIsCopied(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	root := filepath.Join(from, "caddy/pki/authorities/local")
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "root.crt"), []byte("authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(composeDir, "trust.sh"), from, to).CombinedOutput(); err != nil {
		t.Fatalf("trust.sh: %v\n%s", err, out)
	}
	if info, err := os.Stat(filepath.Join(to, "proxy.crt")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the copy: %v, %v, want one that every account reads", info, err)
	}
}

// TestTheServerOfComposeStarts with its own configuration and PostgreSQL, for others than this
// machine, and its health check sees whether it answers.
func TestTheServerOfComposeStarts(t *testing.T) {
	t.Parallel()
	c, own := readCompose(t)
	s := &served{t: t, dir: t.TempDir()}
	text := string(composeFile(t, "kairos.yaml"))
	for old, here := range map[string]string{own.Database: postgrestest.Start(t).Database(t), "/data/keys": s.path("keys"), "/data/audit.jsonl": s.path("audit.jsonl")} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("kairos.yaml has %s %d times, want once", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, here, 1)
	}
	s.write("kairos.yaml", text+"drivers: {dir: "+buildDrivers(t)+"}\nadmin: {socket: run/admin.sock}\n")
	if out, err := s.program("config", "check").CombinedOutput(); err != nil {
		t.Fatalf("config check: %v\n%s", err, out)
	}
	l := s.startAt("0.0.0.0:0")
	if lines := s.audit("audit.jsonl"); len(lines) == 0 || lines[0].Action != "server.run" {
		t.Errorf("the audit log begins with %+v", lines)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(l.url, "http://"), ":")
	healthy := func(port string) error {
		check := slices.Clone(c.Services["kairos"].Healthcheck.Test[2:])
		check[len(check)-1] = strings.Replace(check[len(check)-1], "3300", port, 1)
		cmd := s.program(check...)
		cmd.Dir = t.TempDir()
		return cmd.Run()
	}
	if err := healthy(port[strings.LastIndex(port, ":")+1:]); err != nil {
		t.Errorf("the health check of a server at %s fails: %v", l.url, err)
	}
	if err := healthy("1"); err == nil {
		t.Error("the health check passes where nothing listens")
	}
}
