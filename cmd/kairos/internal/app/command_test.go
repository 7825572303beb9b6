package app

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
)

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
