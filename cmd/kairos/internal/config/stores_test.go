package config

import (
	"encoding/json"
	"fmt"
	"os"
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
	if want := filepath.Join("kairos", "state.key"); !strings.HasSuffix(c.Keys().StateFile(), want) || strings.Contains(c.Keys().StateFile(), "postgres") {
		t.Errorf("StateFile = %s, want %s in the user's data folder", c.Keys().StateFile(), want)
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

// A replica with a key that it has made itself could not continue what others ask.
func TestAReplicaMakesNoKeys(t *testing.T) {
	dir := t.TempDir()
	var c Config
	c.KeysDir = dir
	c.Replica.Address = "http://10.0.0.5:3300"
	_, stateErr := c.Keys().State()
	_, signingErr := c.Keys().Signing()
	_, checkErr := c.Keys().CheckSigning()
	for _, err := range []error{stateErr, signingErr, checkErr} {
		if err == nil || !strings.Contains(err.Error(), "replicas share one: make it once with `openssl ") {
			t.Errorf("a missing key: %v, want how to make one", err)
		}
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("files were made: %v, %v", made, err)
	}
	c.Replica.Address = ""
	if _, err := c.Keys().State(); err != nil {
		t.Errorf("a server alone: %v, want that it makes a key", err)
	}
}

func TestAKeyFileHoldsOneKeyInEachLine(t *testing.T) {
	one, two := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	for name, tc := range map[string]struct {
		text string
		want int // keys; 0: an error
	}{
		"one": {one + "\n", 1}, "two": {one + "\n" + two + "\n", 2}, "without a last line end": {one + "\n" + two, 2},
		"empty": {"\n", 0}, "short": {one[:62] + "\n", 0}, "a comment": {one + "\n# old\n", 0}, "the second is wrong": {one + "\nx\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := parseKeys("state.key", tc.text)
			if len(keys) != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("keys of %q = %d, %v, want %d", tc.text, len(keys), err, tc.want)
			}
			if tc.want > 0 && keys[0][0] != 0xa1 {
				t.Error("the first key is not that of the first line")
			}
			if err != nil && (strings.Contains(err.Error(), "a1a1") || strings.Contains(err.Error(), "#")) {
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
}
