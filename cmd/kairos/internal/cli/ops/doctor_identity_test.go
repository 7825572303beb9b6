package ops

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
)

// writeCertificate writes a certificate of kairos.example.org that ends at the time, and its key.
func writeCertificate(t *testing.T, dir string, ends time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: ends.AddDate(-1, 0, 0), NotAfter: ends, DNSNames: []string{"kairos.example.org"}}
	public, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTheAddressOfPeopleAndClientsIsExamined(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	year, week := now.AddDate(1, 0, 0), now.AddDate(0, 0, 7)
	const public = "https://kairos.example.org"
	for name, tc := range map[string]struct {
		listen, url, proxy string
		ends               time.Time // of the certificate; zero: there is none
		problem, warning   string
	}{
		"loopback":              {listen: "127.0.0.1:3300"},
		"no address":            {listen: "0.0.0.0:3300", warning: "http.public_url"},
		"in the clear":          {listen: "0.0.0.0:3300", url: "http://kairos.example.org", problem: "in the clear"},
		"http on loopback":      {listen: "127.0.0.1:3300", url: "http://localhost:3300"},
		"nobody ends TLS":       {listen: "127.0.0.1:3300", url: public, problem: "no certificate and believes no proxy"},
		"a proxy":               {listen: "127.0.0.1:3300", url: public, proxy: "127.0.0.1/32"},
		"a certificate":         {listen: "0.0.0.0:3300", url: public, ends: year},
		"one that expires soon": {listen: "0.0.0.0:3300", url: public, ends: week, warning: "expires on"},
		"one that has expired":  {listen: "0.0.0.0:3300", url: public, ends: now.AddDate(0, 0, -1), problem: "it expired on"},
		"one of another name":   {listen: "0.0.0.0:3300", url: "https://other.example.org", ends: year, problem: "other.example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			var c config.Config
			c.HTTP.Listen, c.HTTP.PublicURL = tc.listen, tc.url
			if tc.proxy != "" {
				c.HTTP.TrustedProxies = []string{tc.proxy}
			}
			if !tc.ends.IsZero() {
				c.HTTP.TLS.Cert, c.HTTP.TLS.Key = writeCertificate(t, t.TempDir(), tc.ends)
			}
			r := newReport()
			examineAddress(&r, c, now)
			if len(r.Checks) != 1 {
				t.Fatalf("%d checks, want 1", len(r.Checks))
			}
			says := func(all []finding, want string) bool {
				return want == "" && len(all) == 0 || want != "" && len(all) == 1 && strings.Contains(all[0].Problem+all[0].Fix, want) && all[0].Fix != ""
			}
			if got := r.Checks[0]; !says(got.Problems, tc.problem) || !says(got.Warnings, tc.warning) || got.OK != (tc.problem == "") {
				t.Errorf("%+v, want problem %q and warning %q", got, tc.problem, tc.warning)
			}
		})
	}
}
