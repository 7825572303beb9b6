package play

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

func TestTheBrowserIsGivenTheAddressAndNotTheModelsKey(t *testing.T) {
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	for _, opener := range []string{"xdg-open", "open"} {
		script := "#!/bin/sh\n{ echo \"$1\"; env; } > '" + told + "'\n"
		if err := os.WriteFile(filepath.Join(dir, opener), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	t.Setenv(terminal.KeyEnv, "a-key-that-is-secret")
	if err := browser()(t.Context(), "http://127.0.0.1:1/approve/x"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); !strings.HasPrefix(got, "http://127.0.0.1:1/approve/x\n") || strings.Contains(got, "a-key-that-is-secret") {
		t.Errorf("the browser is told %s", got)
	}
}
