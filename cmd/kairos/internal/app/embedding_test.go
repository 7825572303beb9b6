package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
)

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
