package ops

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// commands runs a command, where the operator lets KAIROS run some: through the driver,
// which is started as a server starts it, so that what works here works there.
func (r *doctorReport) commands(ctx context.Context, a *app.App) {
	const name, via = "commands", "command"
	own := a.Config.Drivers.Settings[via]
	settings, err := own.JSON()
	var with struct {
		Workspace string   `json:"workspace"`
		Wrapper   []string `json:"wrapper"`
	}
	if err == nil && len(settings) > 0 {
		err = json.Unmarshal(settings, &with)
	}
	if err != nil || with.Workspace == "" {
		return // the driver itself refuses unsound settings
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	value, status, err := a.Act(ctx, via, driver.Input{
		ID: driver.KindEvidence, Kind: driver.KindEvidence, Type: "shell", Display: json.RawMessage(`{"cmd":"echo works","timeout_seconds":60}`),
	})
	var said struct {
		Code   int    `json:"exit_code"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
	}
	if err == nil {
		err = json.Unmarshal(value, &said)
	}
	if err == nil && (said.Code != 0 || said.Stdout != "works\n") {
		err = errors.New("a command fails in the sandbox: " + strings.TrimSpace(said.Stderr))
	}
	if err != nil {
		r.check(name, "", "until this is fixed, steps wait that only KAIROS can observe", err)
		return
	}
	r.note(name, "the driver ran one, on a copy of "+with.Workspace)
	for _, warning := range status.Warnings {
		r.warn(warning, "")
	}
	if len(with.Wrapper) > 0 {
		return
	}
	if slices.ContainsFunc(status.Protection, func(words string) bool { return strings.Contains(words, "no cgroup") }) {
		r.warn("the memory of all processes of a command together is not limited: memory_mb is for each process",
			"delegate a cgroup to the server (systemd: Delegate=yes), or lower memory_mb and processes")
	}
}
