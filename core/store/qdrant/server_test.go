package qdrant_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func save(t testing.TB, s *qdrant.Store, chains ...protocol.Chain) {
	t.Helper()
	var changes []library.Change
	for _, c := range chains {
		changes = append(changes, library.Change{Chain: c})
	}
	if _, err := s.SaveChains(t.Context(), changes); err != nil {
		t.Fatalf("SaveChains = %v, want nil", err)
	}
}

func wantFault(t *testing.T, call string, err error, code fault.Code, says string) {
	t.Helper()
	if fault.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%s = %v, want %s saying %q", call, err, code, says)
	}
}

func TestAServerThatIsDownIsNamedAndLaterFound(t *testing.T) {
	server := qdranttest.New(t, qdranttest.Options{})
	server.Kill(t)
	s := open(t, qdrant.Options{URL: server.Address(), Timeout: time.Second})
	_, err := s.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain(space, "Down", "One")}})
	wantFault(t, "SaveChains(server down)", err, fault.StoreUnavailable, server.Address())
	wantFault(t, "SaveChains(server down)", err, fault.StoreUnavailable, "nothing was stored")
	var told *fault.Error
	if !errors.As(err, &told) || !strings.Contains(told.NextAction, "repeat the call") || !strings.Contains(told.NextAction, "QDRANT_URL") {
		t.Errorf("SaveChains(server down) = %v, whose next action does not say what to do", err)
	}
	_, err = s.Search(t.Context(), library.Query{Text: "down", Spaces: []string{space}, Limit: 1})
	wantFault(t, "Search(server down)", err, fault.StoreUnavailable, server.Address())
	server.Restart(t)
	eventually(t, func() string { // its second may be over before a busy machine has answered
		if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain(space, "Down", "One")}}); err != nil {
			return fmt.Sprintf("SaveChains(server back) = %v, want nil", err)
		}
		return ""
	})
}

func TestACallWaitsForAServerThatIsBeingStarted(t *testing.T) {
	server := qdranttest.New(t, qdranttest.Options{})
	server.Kill(t)
	s := open(t, qdrant.Options{URL: server.Address(), Timeout: 2 * time.Minute})
	done := make(chan error, 1)
	go func() {
		_, err := s.Count(t.Context(), space)
		done <- err
	}()
	server.Restart(t)
	if err := <-done; err != nil {
		t.Errorf("Count while the server starts = %v, want nil", err)
	}
}

func TestOpeningAsksNothing(t *testing.T) {
	s, err := qdrant.Open(qdrant.Options{URL: "http://127.0.0.1:1"}, nil)
	if err != nil {
		t.Fatalf("Open(nobody there) = %v, want nil", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	if _, err := s.Count(t.Context(), space); err == nil {
		t.Error("Count after Close = nil, want an error")
	}
}

func TestTheAPIKeyIsNeededAndNeverLogged(t *testing.T) {
	server := qdranttest.New(t, qdranttest.Options{APIKey: "right-key"})
	for _, key := range []qdrant.Secret{"", "wrong-key"} {
		s := open(t, qdrant.Options{URL: server.Address(), APIKey: key, Timeout: time.Minute})
		_, err := s.Count(t.Context(), space)
		wantFault(t, "Count(key "+string(key)+")", err, fault.StoreFailed, "QDRANT_API_KEY")
		if key != "" && strings.Contains(err.Error(), string(key)) {
			t.Errorf("Count(wrong key) = %v, which has the key", err)
		}
	}
	var log strings.Builder
	o := qdrant.Options{URL: server.Address(), APIKey: "right-key"}
	s, err := qdrant.Open(o, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	save(t, s, storetest.NewChain(space, "Keyed", "One"))
	slog.New(slog.NewTextHandler(&log, nil)).Info("options", "options", o)
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
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
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &serverKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	return write("ca.pem", "CERTIFICATE", rootDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "PRIVATE KEY", keyDER)
}

func TestTLSTrustsTheGivenAuthorityAlone(t *testing.T) {
	ca, certificate, key := authority(t)
	server := qdranttest.New(t, qdranttest.Options{Certificate: certificate, Key: key, APIKey: "k"})
	url := "https://" + server.Address()
	save(t, open(t, qdrant.Options{URL: url, CACert: ca, APIKey: "k"}), storetest.NewChain(space, "Over TLS", "One"))
	other, _, _ := authority(t)
	for name, o := range map[string]qdrant.Options{
		"system's authorities": {URL: url}, "another authority": {URL: url, CACert: other}, "no TLS": {URL: "http://" + server.Address()},
	} {
		o.APIKey, o.Timeout = "k", time.Second
		_, err := open(t, o).Count(t.Context(), space)
		if fault.CodeOf(err) != fault.StoreUnavailable {
			t.Errorf("Count(%s) = %v, want %s", name, err, fault.StoreUnavailable)
		}
	}
	if _, err := qdrant.Open(qdrant.Options{URL: url, CACert: filepath.Join(t.TempDir(), "none")}, nil); err == nil {
		t.Error("Open(no such authority file) = nil, want an error")
	}
}

// proxy passes bytes on to a server until it is told to stall.
type proxy struct {
	listener net.Listener
	to       string

	mu      sync.Mutex // guards the fields below
	stalled bool
	changed *sync.Cond
	conns   []net.Conn
	work    sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to}
	p.changed = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.stall(false)
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	})
	return p
}

func (p *proxy) stall(on bool) {
	p.mu.Lock()
	p.stalled = on
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.work.Go(func() { p.pipe(in, out) })
		p.work.Go(func() { p.pipe(out, in) })
	}
}

func (p *proxy) pipe(from, to net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		for p.stalled {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

func TestASlowServerDoesNotHoldCallsUp(t *testing.T) {
	p := newProxy(t, qdranttest.Start(t))
	o := qdrant.Options{URL: p.listener.Addr().String(), Collection: collection(t, p.to), Timeout: time.Hour}
	s := open(t, o)
	save(t, s, storetest.NewChain(space, "Before", "One"))
	p.stall(true)
	o.Timeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	_, err := open(t, o).Count(ctx, space)
	wantFault(t, "Count(stalled)", err, fault.StoreUnavailable, "did not answer")
	if ctx.Err() != nil {
		t.Error("Count(stalled) ends with its caller, want it to end by its own timeout")
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = s.Count(ctx, space)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Count(stalled, deadline) = %v, want %v", err, context.DeadlineExceeded)
	}
	wantFault(t, "Count(stalled, deadline)", err, fault.StoreUnavailable, "did not answer in time")
	p.stall(false)
	if n, err := s.Count(t.Context(), space); err != nil || n != 1 {
		t.Errorf("Count once the server answers = %d, %v, want 1", n, err)
	}
}

func TestASchemaThatIsNotOursIsRefused(t *testing.T) {
	address := qdranttest.Start(t)
	c := dialed(t, address)
	make := func(collection, alias string) {
		t.Helper()
		if err := c.CreateCollection(t.Context(), &pb.CreateCollection{CollectionName: collection, VectorsConfig: pb.NewVectorsConfigMap(nil)}); err != nil {
			t.Fatal(err)
		}
		if alias != "" {
			if err := c.CreateAlias(t.Context(), alias, collection); err != nil {
				t.Fatal(err)
			}
		}
	}
	newer, foreign, taken := collection(t, address), collection(t, address), collection(t, address)
	make(newer+"_v2", newer)
	make(foreign+"-of-others", foreign)
	make(taken, "")
	for name, says := range map[string]string{newer: "newer version", foreign: "did not make", taken: "did not make"} {
		s := open(t, qdrant.Options{URL: address, Collection: name})
		_, err := s.Count(t.Context(), space)
		wantFault(t, "Count("+says+")", err, fault.StoreFailed, says)
		wantFault(t, "Check("+says+")", s.Check(t.Context()), fault.StoreFailed, says)
	}
	all, err := c.ListCollections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range all {
		if strings.HasPrefix(found, newer) && found != newer+"_v2" {
			t.Errorf("collection %s was made beside one of a newer version", found)
		}
	}
}

func TestTwoProcessesMakeTheCollectionsTogether(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	done := make(chan error, 3)
	for i := range cap(done) {
		s := open(t, qdrant.Options{URL: address, Collection: name})
		go func() {
			_, err := s.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain(space, string(rune('A'+i)), "One")}})
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Errorf("SaveChains in a new collection = %v, want nil", err)
		}
	}
	if n, err := open(t, qdrant.Options{URL: address, Collection: name}).Count(t.Context(), space); err != nil || n != cap(done) {
		t.Errorf("Count = %d, %v, want %d", n, err, cap(done))
	}
}

func TestLargeProtocolsAreStoredWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: writes 10 MB and 10,000 steps")
	}
	address := qdranttest.Start(t)
	s := open(t, qdrant.Options{URL: address, Collection: collection(t, address), Timeout: 2 * time.Minute})
	long := storetest.NewChain(space, "Ten megabytes", "One", "Two")
	long.Steps[1].Text = "## Two\n\n" + strings.Repeat("All work and no play makes a long protocol. ", 10<<20/44)
	many := storetest.NewChain(space, "Ten thousand steps", make([]string, 10_000)...)
	for _, c := range []protocol.Chain{long, many} {
		save(t, s, c)
		got, i, err := s.StepChain(t.Context(), []string{space}, c.Steps[len(c.Steps)-1].UUID)
		if err != nil || i != len(c.Steps)-1 || got.Steps[i].Text != c.Steps[i].Text {
			t.Errorf("StepChain(last of %s) = step %d, %v, want it as it was stored", c.Title, i, err)
		}
		hits, err := s.Search(t.Context(), library.Query{Text: c.Title, Spaces: []string{space}, Limit: 5})
		if err != nil || len(hits) == 0 || hits[0].Chain.Title != c.Title {
			t.Errorf("Search(%s) = %d hits, %v, want it first", c.Title, len(hits), err)
		}
		if err := s.DeleteChain(t.Context(), space, c.ID, 1); err != nil {
			t.Errorf("DeleteChain(%s) = %v", c.Title, err)
		}
	}
}

func TestAnotherModelMakesTheIndexAnewAndLosesNothing(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	s, other := open(t, qdrant.Options{URL: address, Collection: name}), open(t, qdrant.Options{URL: address, Collection: name})
	c := storetest.NewChain(space, "Walrus care", "Feed", "Wash")
	save(t, s, c)
	if _, err := other.Count(t.Context(), space); err != nil { // has seen the index without vectors
		t.Fatal(err)
	}
	for _, dimension := range []int{4, 8} {
		model := "test/model/" + string(rune('0'+dimension))
		vectors := map[string][]float32{}
		for i := range c.Steps {
			v := make([]float32, dimension)
			v[i] = 1
			vectors[protocol.PassageHash(c.Passage(i))] = v
		}
		if err := s.SaveVectors(t.Context(), model, vectors); err != nil {
			t.Fatalf("SaveVectors(%s) = %v, want nil", model, err)
		}
		v := make([]float32, dimension)
		v[1] = 1
		hits, err := s.Search(t.Context(), library.Query{Text: "xyzzy", Spaces: []string{space}, Limit: 5, Embedding: &library.Embedding{Model: model, Vector: v}, Explain: true})
		if err != nil || len(hits) != 1 || hits[0].Step != 1 || len(hits[0].Why) != 1 || hits[0].Why[0].Ranker != "vector" {
			t.Errorf("Search by a vector of %s = %v, %v, want the second step", model, hits, err)
		}
		// The other process writes to the new index although it knew the old one.
		title := "Otter care " + model
		save(t, other, storetest.NewChain(space, title, "Feed"))
		if hits, err := s.Search(t.Context(), library.Query{Text: title, Spaces: []string{space}, Limit: 5}); err != nil || len(hits) == 0 || hits[0].Chain.Title != title {
			t.Errorf("Search(%s) = %v, %v, want what the other process stored", title, hits, err)
		}
	}
	all, err := dialed(t, address).ListCollections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, found := range all {
		if strings.HasPrefix(found, name+"_v1_index_") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d search indexes are left, want 1", n)
	}
}
