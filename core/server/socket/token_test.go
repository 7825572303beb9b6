package socket_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/socket"
)

func TestOnlyRequestsWithTheTokenOfTheFileAreAuthorized(t *testing.T) {
	at := filepath.Join(shortDir(t), "1.sock")
	var last string
	for range 2 { // each server has a token of its own, which ends with it
		s := newServer(at)
		authorize := func(authorization string) error {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set("Authorization", authorization)
			return s.Authorize(r)
		}
		if err := authorize("Bearer "); err == nil || !strings.Contains(err.Error(), "is not there yet") {
			t.Errorf("before Listen: Authorize = %v", err)
		}
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(socket.TokenFile(at))
		token := strings.TrimSpace(string(written))
		if err != nil || token == last {
			t.Errorf("the token is %q, %v, want a new one", token, err)
		}
		last = token
		if info, err := os.Stat(socket.TokenFile(at)); err != nil || info.Mode() != 0o600 {
			t.Fatalf("the token file is %v, %v, want mode 0600", info, err)
		}
		for authorization, want := range map[string]bool{"": false, "Bearer": false, "Bearer ": false, "Bearer wrong": false, token: false, "Bearer " + token: true} {
			if err := authorize(authorization); (err == nil) != want {
				t.Errorf("Authorize(%q) = %v", authorization, err)
			}
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if _, err := os.Stat(socket.TokenFile(at)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after Close the token file: %v", err)
		}
	}
}
