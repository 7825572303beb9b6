package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
)

func TestWhatIsWrongWithTheSectionOfQdrantIsNamed(t *testing.T) {
	t.Setenv("QDRANT_URL", "")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ yaml, want string }{
		"withdrawn key":    {"store: qdrant", "not used any more"},
		"no host":          {"qdrant: {url: 'http://'}", "URL of Qdrant"},
		"password in url":  {"qdrant: {url: 'http://me:pw@host'}", "a host and a port"},
		"bad collection":   {"qdrant: {url: localhost, collection: 'a b'}", "collection"},
		"negative timeout": {"qdrant: {url: localhost, timeout: -1s}", "qdrant.timeout"},
		"key not set":      {"qdrant: {url: localhost, api_key_env: NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE"},
		"no authorities":   {"qdrant: {url: localhost, ca_cert: /dev/null}", "no certificate"},
		"key from a file":  {"qdrant: {url: localhost, api_key_file: '" + key + "'}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kairos.yaml")
			if err := os.WriteFile(file, []byte(tc.yaml+"\ndatabase: k.db\ndrivers: {dir: .}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Source{File: file}.Load()
			if err == nil {
				_, x, e := openStores(c, nil)
				if err = e; x != nil {
					_ = x.server.Close()
				}
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("load = %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "pw") {
				t.Errorf("load = %v, which has the password", err)
			}
		})
	}
}
