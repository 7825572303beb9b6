package ops

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/plugins/command/sandbox"
)

// commands runs a command in the sandbox, where the operator lets KAIROS run some.
func (r *doctorReport) commands(ctx context.Context, c config.Config) {
	const name = "commands"
	own := c.Drivers.Settings["command"]
	settings, err := own.JSON()
	var with struct {
		Workspace string   `json:"workspace"`
		Wrapper   []string `json:"wrapper"`
		UID       int      `json:"uid"`
	}
	if err == nil && len(settings) > 0 {
		err = json.Unmarshal(settings, &with)
	}
	if err != nil || with.Workspace == "" {
		return // the driver itself refuses unsound settings
	}
	if _, err := os.Stat(with.Workspace); err != nil {
		r.check(name, "", "create the folder, or correct drivers.settings.command.config.workspace", err)
		return
	}
	s := sandbox.Sandbox{Wrapper: with.Wrapper, UID: with.UID}
	if err := s.Check(ctx, with.Workspace); err != nil {
		r.check(name, "", "until this is fixed, steps wait that only KAIROS can observe", err)
		return
	}
	r.note(name, "run in a sandbox, on a copy of "+with.Workspace)
	if missing := sandbox.Unenforced(); len(missing) > 0 && len(with.Wrapper) == 0 {
		r.warn("commands are not limited in: "+strings.Join(missing, "; "), "")
	}
}
