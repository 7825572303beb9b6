package rest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/server/rest"
)

// listening serves h until the returned function is called, which gives what Serve returned.
func listening(t *testing.T, l rest.Listen, h http.Handler) (address string, stop func() error) {
	t.Helper()
	started := make(chan string, 1)
	if l.Address == "" {
		l.Address = "127.0.0.1:0"
	}
	l.Started = func(at net.Addr) { started <- at.String() }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rest.Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	var last error
	done := false
	stop = func() error {
		cancel()
		if !done {
			last, done = <-ended, true
		}
		return last
	}
	t.Cleanup(func() { _ = stop() })
	select {
	case address = <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	return address, stop
}

func fetch(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

func TestCallsInFlightEndBeforeTheServerDoes(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	address, stop := listening(t, rest.Listen{Draining: func() { close(release) }}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release // the end has come
		if r.Context().Err() != nil {
			t.Error("the context of a call in flight ended with the server")
		}
		fmt.Fprint(w, "done")
	}))
	got := make(chan string, 1)
	go func() {
		body, err := fetch(t, http.DefaultClient, "http://"+address)
		got <- fmt.Sprint(body, err)
	}()
	<-entered
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	if reply := <-got; reply != "done<nil>" {
		t.Errorf("the call in flight got %s", reply)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the port is still open")
	}
}

func TestCallsThatDoNotEndAreCutOff(t *testing.T) {
	entered := make(chan struct{})
	address, stop := listening(t, rest.Listen{Shutdown: 50 * time.Millisecond}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	go func() { _, _ = fetch(t, http.DefaultClient, "http://"+address) }()
	<-entered
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
}

func TestAHandlerThatNeverEndsDoesNotKeepTheServer(t *testing.T) {
	entered, end := make(chan struct{}), make(chan struct{})
	address, stop := listening(t, rest.Listen{Shutdown: 50 * time.Millisecond}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-end // whatever becomes of its context
	}))
	defer close(end)
	go func() { _, _ = fetch(t, http.DefaultClient, "http://"+address) }()
	<-entered
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "did not end") {
			t.Errorf("Serve = %v, want an error that says so", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Serve waits for a handler that never ends")
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	address, _ := listening(t, rest.Listen{}, http.NotFoundHandler())
	_, port, _ := net.SplitHostPort(address)
	err := rest.Serve(t.Context(), rest.Listen{Address: address, Busy: time.Millisecond}, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "port "+port) || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("Serve = %v", err)
	}
	if err := rest.Serve(t.Context(), rest.Listen{Address: "3300"}, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("an address without a host: %v", err)
	}
}

// onMessage calls do with each log message.
type onMessage func(string)

func (f onMessage) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestAPortThatIsInUseIsTriedAgain(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(func() { _ = taken.Close() }) // once the first attempt has failed
	log := slog.New(slog.NewTextHandler(onMessage(func(line string) {
		if strings.Contains(line, "address is in use") {
			release()
		}
	}), nil))
	ctx, stop := context.WithCancel(t.Context())
	l := rest.Listen{Address: taken.Addr().String(), Busy: time.Minute, Started: func(net.Addr) { stop() }}
	if err := rest.Serve(ctx, l, http.NotFoundHandler(), log); err != nil {
		t.Errorf("Serve = %v, want that it listens once the port is free", err)
	}
}

// A connection that says nothing takes a place until it is closed; the next one waits.
func TestOpenConnectionsAreBounded(t *testing.T) {
	address, _ := listening(t, rest.Listen{Connections: 2}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	var idle []net.Conn
	for range 2 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	third, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	fmt.Fprint(third, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	_ = third.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third connection is served: %v", err)
	}
	idle[0].Close()
	_ = third.SetReadDeadline(time.Now().Add(time.Minute))
	if reply, err := io.ReadAll(third); err != nil || !strings.Contains(string(reply), "hello") {
		t.Errorf("once there is a place: %q %v", reply, err)
	}
}

// certify writes a certificate of this name and its key.
func certify(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLSTakesUpNewCertificates(t *testing.T) {
	dir := t.TempDir()
	cert, key := certify(t, dir, "first")
	address, _ := listening(t, rest.Listen{CertFile: cert, KeyFile: key}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	shown := func(config *tls.Config) (string, error) {
		config.InsecureSkipVerify = true // the test made the certificate
		conn, err := tls.Dial("tcp", address, config)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
	}
	if name, err := shown(&tls.Config{}); name != "first" {
		t.Errorf("certificate %q, %v", name, err)
	}
	if _, err := shown(&tls.Config{MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is served")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	if body, err := fetch(t, client, "https://"+address); body != "hello" {
		t.Errorf("over TLS: %q %v", body, err)
	}
	if err := os.WriteFile(key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if name, err := shown(&tls.Config{}); name != "first" {
		t.Errorf("with a broken key the certificate is %q, %v", name, err)
	}
	certify(t, dir, "second")
	until(t, "the new certificate", func() bool {
		name, err := shown(&tls.Config{})
		return err == nil && name == "second"
	})
	err := rest.Serve(t.Context(), rest.Listen{Address: "127.0.0.1:0", CertFile: cert, KeyFile: filepath.Join(dir, "none.pem")}, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "none.pem") {
		t.Errorf("without its key: %v", err)
	}
}
