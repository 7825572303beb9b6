package app

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/statement"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

func TestAServerStopsInTimeWhateverStillWorks(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration // to end after the signal
		want  error
	}{
		"a job that ends":        {time.Second, nil},
		"a job that never ends":  {24 * time.Hour, errStillWorking},
		"a call that takes long": {11 * time.Second, errStillWorking},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, signal := context.WithCancel(t.Context())
				var w working
				stopping, done := make(chan time.Duration, 1), make(chan error, 1)
				go func() {
					done <- together(ctx, func() { stopping <- 10 * time.Second }, func(ctx context.Context) error {
						return w.during("drivers", func() error {
							<-ctx.Done()
							time.Sleep(tc.takes)
							return nil
						})
					})
				}()
				time.Sleep(time.Hour) // a server takes its time as long as it serves
				began := time.Now()
				signal()
				err := inTime(done, stopping, &w)
				if !errors.Is(err, tc.want) || time.Since(began) > 10*time.Second {
					t.Errorf("stopping took %s: %v, want %v within 10 s", time.Since(began), err, tc.want)
				}
				if err != nil && !strings.HasSuffix(err.Error(), "(still working: drivers)") {
					t.Errorf("the error is %q, want what still works", err)
				}
				time.Sleep(tc.takes) // for the bubble, which ends with its goroutines
			})
		})
	}
}

func TestDevModeStaysOnThisMachine(t *testing.T) {
	for address, allowed := range map[string]bool{
		"": true, "127.0.0.1:3300": true, "[::1]:3300": true, "localhost:3300": true, "unix:/run/kairos.sock": true,
		":3300": false, "0.0.0.0:3300": false, "192.0.2.7:3300": false, "example.org:3300": false, "nonsense": false,
	} {
		if err := checkDev(address); (err == nil) != allowed {
			t.Errorf("checkDev(%q) = %v, want allowed = %v", address, err, allowed)
		}
	}
}

func TestWhatIsWrongWithTheSectionOfQdrantIsNamed(t *testing.T) {
	t.Setenv("QDRANT_URL", "")
	key := filepath.Join(t.TempDir(), "key")
	writeFile(t, key, []byte("secret\n"))
	for name, tc := range map[string]struct{ yaml, want string }{
		"no host":         {"qdrant: {url: 'http://'}", "URL of Qdrant"},
		"password in url": {"qdrant: {url: 'http://me:pw@host'}", "a host and a port"},
		"bad collection":  {"qdrant: {url: localhost, collection: 'a b'}", "collection"},
		"another key":     {"qdrant: {url: localhost, api_key_env: K}", `unknown key "qdrant.api_key_env"; the keys here are url, api_key_file`},
		"no authorities":  {"qdrant: {url: localhost, ca_cert: /dev/null}", "no certificate"},
		"key from a file": {"qdrant: {url: localhost, api_key_file: '" + key + "'}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kairos.yaml")
			writeFile(t, file, []byte(tc.yaml+"\ndatabase: k.db\ndrivers: {dir: .}\n"))
			c, err := config.Source{File: file}.Load()
			if err == nil {
				_, x, e := openStores(c, tables.Missing{}, nil)
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

func TestAKeyInTheClearIsWarnedOf(t *testing.T) {
	t.Setenv("MY_KEY", "sk-4711")
	for url, warns := range map[string]bool{"http://127.0.0.1:1": false, "https://example.org": false, "http://192.0.2.1": true} {
		var log strings.Builder
		c := config.EmbeddingConfig{Provider: "openai", URL: url, Model: "m", APIKeyEnv: "MY_KEY"}
		if _, err := Embedder(c, nil, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "in the clear"); got != warns || strings.Contains(log.String(), "sk-4711") {
			t.Errorf("the log for %s is %q, want a warning = %v and no key", url, log.String(), warns)
		}
	}
}

func TestAServerIsFoundByTheAddressAtWhichItListens(t *testing.T) {
	for name, tc := range map[string]struct {
		url, listens string
		want         bool
	}{
		"the same":                        {"http://127.0.0.1:3300", "127.0.0.1:3300", true},
		"localhost":                       {"http://localhost:3300/", "127.0.0.1:3300", true},
		"localhost, IPv6":                 {"http://localhost:3300", "[::1]:3300", true},
		"all addresses, from here":        {"http://localhost:3300", "[::]:3300", true},
		"the usual port":                  {"https://127.0.0.1", "127.0.0.1:443", true},
		"an address of the machine":       {"http://10.0.0.5:3300", "10.0.0.5:3300", true},
		"another port":                    {"http://127.0.0.1:3301", "127.0.0.1:3300", false},
		"another loopback address":        {"http://127.0.0.2:3300", "127.0.0.1:3300", false},
		"the other loopback":              {"http://[::1]:3300", "127.0.0.1:3300", false},
		"another machine":                 {"http://10.0.0.6:3300", "10.0.0.5:3300", false},
		"another machine, all addresses":  {"http://10.0.0.6:3300", "0.0.0.0:3300", false},
		"a name":                          {"http://kairos.example.org:3300", "127.0.0.1:3300", false},
		"a name that begins so":           {"http://127.0.0.1.example.org:3300", "127.0.0.1:3300", false},
		"a server that listens nowhere":   {"http://127.0.0.1:3300", "", false},
		"no port, and not the usual one":  {"http://127.0.0.1", "127.0.0.1:3300", false},
		"a user that looks like the host": {"http://127.0.0.1:3300@example.org", "127.0.0.1:3300", false},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := url.Parse(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			if got := reaches(at, tc.listens); got != tc.want {
				t.Errorf("reaches(%s, %s) = %t, want %t", tc.url, tc.listens, got, tc.want)
			}
		})
	}
}

func TestADiagnosisWaitsForTheOneBeforeIt(t *testing.T) {
	o := operator{turn: make(chan struct{}, 1)}
	o.turn <- struct{}{} // another one is made
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Diagnose(ctx, access.Caller{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Diagnose = %v, want it to wait until its caller leaves", err)
	}
}

// A replica that could not read its keys at the start tells their names once it can.
func TestKeysThatCouldNotBeReadAreReadLater(t *testing.T) {
	folder := t.TempDir()
	c := config.Config{}
	c.KeysDir = folder
	write := func(path string, text []byte) {
		t.Helper()
		writeFile(t, path, text)
	}
	write(c.Keys().StateFile(), []byte("half of a"))
	a := &App{Config: c, stateKeys: cache.Once(c.Keys().State)}
	names := cache.Once(func() (keyFingerprints, error) { return fingerprintsOf(a) })
	if got, err := names(); err == nil || len(got.state) > 0 || got.signing != "" {
		t.Errorf("names without keys = %+v, %v, want none and why", got, err)
	}
	write(c.Keys().StateFile(), []byte(strings.Repeat("ab", 32)+"\n"))
	if got, err := names(); err == nil || len(got.state) != 1 || got.signing != "" {
		t.Errorf("names without a signing key = %+v, %v, want one and what is missing", got, err)
	}
	write(c.Keys().SigningFile(), statement.NewKey().Encode())
	got, err := names()
	if err != nil || len(got.state) != 1 || got.signing == "" {
		t.Errorf("names = %+v, %v, want both", got, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if again, err := names(); err != nil || again.signing != got.signing {
		t.Errorf("names later = %+v, %v, want the same without another read", again, err)
	}
}
