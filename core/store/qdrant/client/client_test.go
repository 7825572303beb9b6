package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o client.Options, log *slog.Logger) *client.Client {
	t.Helper()
	c, err := client.New(o, log)
	if err != nil {
		t.Fatalf("New(%s) = %v, want nil", o.URL, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func wantFault(t *testing.T, call string, err error, code fault.Code, says string) {
	t.Helper()
	if fault.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%s = %v, want %s saying %q", call, err, code, says)
	}
}

func TestAServerThatIsDownIsNamed(t *testing.T) {
	c := open(t, client.Options{URL: "http://127.0.0.1:1", Timeout: 200 * time.Millisecond}, nil)
	_, err := c.Exists(t.Context(), "any")
	wantFault(t, "Exists(server down)", err, fault.StoreUnavailable, "127.0.0.1:1")
	var e *fault.Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "QDRANT_URL") {
		t.Errorf("Exists(server down) = %v, whose hint does not say what to do", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Exists(cancelled, "any"); !errors.Is(err, context.Canceled) {
		t.Errorf("Exists(cancelled) = %v, want %v", err, context.Canceled)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	if _, err := c.Exists(t.Context(), "any"); err == nil {
		t.Error("Exists after Close = nil, want an error")
	}
}

func TestACallWaitsForAServerThatIsBeingStarted(t *testing.T) {
	server := qdranttest.New(t, qdranttest.Options{})
	server.Kill(t)
	c := open(t, client.Options{URL: server.Address(), Timeout: 2 * time.Minute}, nil)
	done := make(chan error, 1)
	go func() { done <- c.CheckVersion(t.Context()) }()
	server.Restart(t)
	if err := <-done; err != nil {
		t.Errorf("CheckVersion while the server starts = %v, want nil", err)
	}
}

func TestTheAPIKeyIsNeededAndNeverLogged(t *testing.T) {
	server := qdranttest.New(t, qdranttest.Options{APIKey: "right-key"})
	for _, key := range []client.Secret{"", "wrong-key"} {
		_, err := open(t, client.Options{URL: server.Address(), APIKey: key, Timeout: time.Minute}, nil).Exists(t.Context(), "any")
		wantFault(t, "Exists with a key that is not right", err, fault.StoreFailed, "QDRANT_API_KEY")
		if key != "" && strings.Contains(err.Error(), "wrong-key") {
			t.Errorf("Exists(wrong key) = %v, which has the key", err)
		}
	}
	var log strings.Builder
	o := client.Options{URL: server.Address(), APIKey: "right-key"}
	if _, err := open(t, o, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))).Exists(t.Context(), "any"); err != nil {
		t.Errorf("Exists = %v, want nil", err)
	}
	slog.New(slog.NewTextHandler(&log, nil)).Info("options", "options", o)
	if strings.Contains(log.String(), "right-key") {
		t.Errorf("the log has the key:\n%s", log.String())
	}
}

// authority makes a certificate authority and a certificate of it for loopback.
func authority(t *testing.T) (ca, certificate, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		return k
	}
	caKey, serverKey := newKey(), newKey()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &caKey.PublicKey, caKey)
	must(t, err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &serverKey.PublicKey, caKey)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	must(t, err)
	return write("ca.pem", "CERTIFICATE", rootDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "PRIVATE KEY", keyDER)
}

func TestTLSTrustsTheGivenAuthorityAlone(t *testing.T) {
	ca, certificate, key := authority(t)
	server := qdranttest.New(t, qdranttest.Options{Certificate: certificate, Key: key, APIKey: "k"})
	url := "https://" + server.Address()
	if _, err := open(t, client.Options{URL: url, CACert: ca, APIKey: "k"}, nil).Exists(t.Context(), "any"); err != nil {
		t.Errorf("Exists over TLS = %v, want nil", err)
	}
	other, _, _ := authority(t)
	for name, o := range map[string]client.Options{
		"system's authorities": {URL: url}, "another authority": {URL: url, CACert: other}, "no TLS": {URL: "http://" + server.Address()},
	} {
		o.APIKey, o.Timeout = "k", time.Second
		if _, err := open(t, o, nil).Exists(t.Context(), "any"); fault.CodeOf(err) != fault.StoreUnavailable {
			t.Errorf("Exists(%s) = %v, want %s", name, err, fault.StoreUnavailable)
		}
	}
	if _, err := client.New(client.Options{URL: url, CACert: filepath.Join(t.TempDir(), "none")}, nil); err == nil {
		t.Error("New(no such authority file) = nil, want an error")
	}
}

func TestURLsAreChecked(t *testing.T) {
	for url, ok := range map[string]bool{
		"localhost": true, "http://localhost:6333": true, "https://[::1]:6334": true,
		"": false, "http://": false, "http://me:pw@host": false, "http://host/path": false, "http://host?api_key=pw": false, "ftp://host": false, "http://host:99999": false,
	} {
		err := client.Options{URL: url}.Validate()
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("Validate(%q) = %v, want ok = %v and no password", url, err, ok)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
