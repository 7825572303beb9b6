package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/statement"
)

func TestAStatementCannotDrawOnTheTerminal(t *testing.T) {
	title := "Release\x1b[2J\nsigned by the key you gave, 00\nverified: \u202eall"
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s, _, err := statement.Of(statement.Record{
		Run: run.Run{
			ID: "0196f0a0-0000-7000-8000-000000000001", Principal: "local", ChainID: "chain", Title: title, Pin: strings.Repeat("ab", 32),
			StepCount: 1, State: run.Closed, Outcome: "success", CreatedAt: now, UpdatedAt: now,
		},
		Version: "1", At: now, Labels: []string{title},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := statement.Sign(t.Context(), statement.NewKey(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := Root("1")
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"runs", "verify", file})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("a run without proofs is verified")
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Contains(out.String(), "\nsigned by the key you gave") ||
		!strings.Contains(out.String(), "Release⟨U+001B⟩[2J signed by") || !strings.Contains(out.String(), "\nsigned by the key in the file") {
		t.Errorf("it prints\n%q", out.String())
	}
}
