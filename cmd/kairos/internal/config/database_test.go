package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

const secretAddress = "postgres://kairos:swordfish@db.example/kairos?sslmode=require"

func TestTheAddressOfADatabaseIsNotAPath(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	c, err := configured(t, "database: "+secretAddress+"\n").Load()
	if err != nil {
		t.Fatalf("Load = %v, want nil", err)
	}
	if c.Database.Address() != secretAddress || !c.Database.Postgres() || c.Database.Files() != nil {
		t.Errorf("Database = %q, a file: %v; want the address as it was written", c.Database.Address(), c.Database.Files())
	}
	if want := filepath.Join("kairos", "state.key"); !strings.HasSuffix(c.MCP.StateKeyFile, want) || strings.Contains(c.MCP.StateKeyFile, "postgres") {
		t.Errorf("StateKeyFile = %s, want %s in the user's data folder", c.MCP.StateKeyFile, want)
	}
	t.Setenv("KAIROS_DB", "postgresql://other/kairos")
	if c, err = configured(t, "database: "+secretAddress+"\n").Load(); err != nil || c.Database.Address() != "postgresql://other/kairos" {
		t.Errorf("Load with KAIROS_DB = %s, %v, want that of the environment", c.Database.Address(), err)
	}
}

func TestThePasswordOfADatabaseIsNotPrinted(t *testing.T) {
	s := configured(t, "database: "+secretAddress+"\n")
	c, err := s.Load()
	if err != nil {
		t.Fatalf("Load = %v, want nil", err)
	}
	document, err := json.Marshal(map[string]any{"database": c.Database})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := s.Settings()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"%v": fmt.Sprint(c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c.Database), "%s": c.Database.String(),
		"JSON": string(document), "config show": fmt.Sprint(settings), "log": c.Database.LogValue().String(),
	} {
		if strings.Contains(text, "swordfish") {
			t.Errorf("%s shows the password: %s", name, text)
		}
		if !strings.Contains(text, "db.example") {
			t.Errorf("%s does not show the server: %s", name, text)
		}
	}
}
