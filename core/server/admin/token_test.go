package admin_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/admin"
)

// status sends a request with an Authorization header and returns the status.
func status(t *testing.T, socket, authorization string) int {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kairos/v1/server", nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestRequestsNeedTheTokenOfTheSocket(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "1.sock")
	file := admin.TokenFile(socket)
	c := serve(t, socket, newFakeDrivers(), fakeSetup{})
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("the token file is %v, %v, want mode 0600", info, err)
	}
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer wrong"} {
		if got := status(t, socket, authorization); got != http.StatusUnauthorized {
			t.Errorf("with %q the status is %d, want 401", authorization, got)
		}
	}
	if _, err := c.Server(t.Context()); err != nil {
		t.Errorf("the client, which reads the token: %v", err)
	}
	if err := os.WriteFile(file, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *admin.Refused
	if _, err := c.Server(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		t.Errorf("the client with a wrong token: %v, want 401", err)
	}
}

func TestEachServerHasATokenOfItsOwnThatEndsWithIt(t *testing.T) {
	socket := filepath.Join(shortDir(t), "1.sock")
	var last string
	for range 2 {
		s := newServer(socket)
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(admin.TokenFile(socket))
		if err != nil || string(b) == last {
			t.Errorf("the token is %q, %v, want a new one", b, err)
		}
		last = string(b)
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if _, err := os.Stat(admin.TokenFile(socket)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after Close the token file: %v", err)
		}
	}
}
