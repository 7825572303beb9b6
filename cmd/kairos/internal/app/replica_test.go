package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/statement"
)

// A replica that could not read its keys at the start tells their names once it can.
func TestKeysThatCouldNotBeReadAreReadLater(t *testing.T) {
	folder := t.TempDir()
	c := config.Config{}
	c.MCP.StateKeyFile, c.Signing.KeyFile = filepath.Join(folder, "state.key"), filepath.Join(folder, "signing.key")
	write := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(c.MCP.StateKeyFile, []byte("half of a"))
	a := &App{Config: c, stateKeys: cache.Once(c.StateKeys)}
	names := cache.Once(func() (keyNames, error) { return namesOfKeys(a) })
	if got, err := names(); err == nil || len(got.state) > 0 || got.signing != "" {
		t.Errorf("names without keys = %+v, %v, want none and why", got, err)
	}
	write(c.MCP.StateKeyFile, []byte(strings.Repeat("ab", 32)+"\n"))
	if got, err := names(); err == nil || len(got.state) != 1 || got.signing != "" {
		t.Errorf("names without a signing key = %+v, %v, want one and what is missing", got, err)
	}
	write(c.Signing.KeyFile, statement.NewKey().Encode())
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
