package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
)

func TestTheDriverThatCallsToolsIsGivenItsServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tools.json")
	config := func(call, own time.Duration) driverhost.DriverConfig {
		t.Helper()
		c := driverhost.Config{Call: call, Drivers: map[string]driverhost.DriverConfig{
			mcpclient.DriverName: {Config: json.RawMessage(`{"idle":"1m"}`), EnvFrom: []string{"MINE"}, Call: own},
		}}
		if err := addTools(file, nil, &c); err != nil {
			t.Fatal(err)
		}
		return c.Drivers[mcpclient.DriverName]
	}
	if c := config(0, 0); string(c.Config) != `{"idle":"1m"}` || c.Call != 0 {
		t.Errorf("without a file: %+v", c)
	}
	text := `{"mcpServers":{"calendar":{"command":"/bin/calendar","env_from":{"TOKEN":"CALENDAR_TOKEN"}}}}`
	writeFile(t, file, []byte(text))
	c := config(0, 0)
	var given struct{ Idle, Servers string }
	if err := json.Unmarshal(c.Config, &given); err != nil || given.Idle != "1m" || given.Servers != text {
		t.Errorf("config = %s, %v", c.Config, err)
	}
	for _, name := range []string{"MINE", "CALENDAR_TOKEN", "PATH"} {
		if !slices.Contains(c.EnvFrom, name) {
			t.Errorf("env_from = %q, want %s in it", c.EnvFrom, name)
		}
	}
	for _, tc := range []struct{ all, own, want time.Duration }{
		{0, 0, callOfTools}, {5 * time.Second, 0, 5 * time.Second}, {5 * time.Second, time.Second, time.Second},
	} {
		if c := config(tc.all, tc.own); c.Call != tc.want {
			t.Errorf("call_timeout %s, own %s: %s, want %s", tc.all, tc.own, c.Call, tc.want)
		}
	}
	writeFile(t, file, []byte(`{"mcpServers":{"calendar":{}}}`))
	if err := addTools(file, nil, &driverhost.Config{}); err == nil {
		t.Error("a server that cannot be started was taken")
	}
}

// For a file that a server names it gets the folder: it makes the file there, or puts a new one in its place.
func TestToolServersGetTheFoldersOfFilesThatTheyName(t *testing.T) {
	dir := t.TempDir()
	state, kept := filepath.Join(dir, "state"), filepath.Join(dir, "kept")
	for _, d := range []string{state, kept} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	there := filepath.Join(kept, "there.json")
	writeFile(t, there, nil)
	own := []string{filepath.Join(kept, "kairos.db")}
	for name, tc := range map[string]struct{ named, want string }{
		"a file that is not there yet":        {filepath.Join(state, "calendar.json"), state},
		"a folder":                            {state, state},
		"beside the database":                 {there, there},
		"beside the database, not there yet":  {filepath.Join(kept, "new.json"), ""},
		"in the folder for temporary files":   {filepath.Join(os.TempDir(), "kairos-not-there.json"), ""},
		"in the folder of the root":           {"/not-there.json", ""},
		"in a folder of the system":           {"/usr/not-there.json", ""},
		"in a folder that does not exist yet": {filepath.Join(state, "later/calendar.json"), ""},
	} {
		want := []string(nil)
		if tc.want != "" {
			want = []string{tc.want}
		}
		if got := places([]string{tc.named}, own); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// The driver starts elsewhere and later, so that config check finds a relative path here.
func TestARelativePathOfTheCommandDriverIsRefused(t *testing.T) {
	for settings, want := range map[string]string{
		`{"workspace":"project"}`:                              `drivers.settings.command.config.workspace: "project" must be an absolute path`,
		`{"workspace":"/project","read":["/etc/x","./tools"]}`: `drivers.settings.command.config.read: "./tools" must be`,
		`{"workspace":"/project","mask":[".env"]}`:             `config.mask: ".env" must be`,
		`{"workspace":"/project","read":["/etc/x"]}`:           "",
	} {
		to := driverhost.Config{Drivers: map[string]driverhost.DriverConfig{"command": {Config: json.RawMessage(settings)}}}
		err := addCommand(config.Config{}, "", &to)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", settings, err, want)
		}
	}
}

func TestAFolderOfADriverThatDoesNotExistIsNamed(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	for level, refused := range map[string]bool{config.IsolationAuto: true, string(driverhost.LevelNone): false} {
		var c config.Config
		c.Drivers.Isolation = level
		err := there(c, "ask", []string{dir, gone})
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), gone) {
			t.Errorf("%s: %v, refused = %t", level, err, refused)
		}
	}
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
