package oidc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/oidc"
)

// ahead is the address of the issuer behind a machine whose clock is wrong.
func (i *issuer) ahead(by time.Duration) string {
	i.t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
		i.ServeHTTP(w, r)
	}))
	i.t.Cleanup(s.Close)
	i.server.SetIssuer(s.URL)
	return s.URL
}

func TestAProviderIsExamined(t *testing.T) {
	i := newIssuer(t)
	i.publish("one", "two")
	found, err := oidc.Examine(t.Context(), i.url)
	if err != nil || found.Keys != 2 || !found.Dated || found.Apart() {
		t.Errorf("Examine = %+v, %v, want 2 keys and the same time", found, err)
	}
	if _, err := oidc.Examine(t.Context(), i.url+"/"); err == nil || !strings.Contains(err.Error(), "did not match") {
		t.Errorf("Examine with a slash: %v, want that the issuers differ", err)
	}
	i.set(true)
	if _, err := oidc.Examine(t.Context(), i.url); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("Examine while the provider is down: %v, want its reply", err)
	}
}

func TestTheClockOfAProviderIsCompared(t *testing.T) {
	for by, apart := range map[time.Duration]bool{5 * time.Minute: true, -5 * time.Minute: true, 10 * time.Second: false} {
		found, err := oidc.Examine(t.Context(), newIssuer(t).ahead(by))
		if off := found.Skew - by; err != nil || found.Apart() != apart || off.Abs() > 30*time.Second {
			t.Errorf("a clock that is %s ahead: %+v, %v, want apart %t", by, found, err, apart)
		}
	}
}
