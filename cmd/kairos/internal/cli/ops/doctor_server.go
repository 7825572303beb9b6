package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tools"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/library"
)

// embedding says whether the endpoint answers and what is not embedded yet.
// Missing vectors are not an error: a running server adds them.
func (r *doctorReport) embedding(ctx context.Context, a *app.App) {
	c := a.Config.Embedding
	if !c.On() {
		r.note("embedding", "none: searches and comparisons go by words")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	state, err := a.Engine.Library.Embeddings(ctx)
	if err != nil {
		r.check("embedding", c.At(), c.Fix(), err)
		return
	}
	switch n := state.Missing; n {
	case 0:
		r.note("embedding", state.Model+" at "+c.At()+"; every passage has a vector")
	case library.MaxMissing:
		r.note("embedding", fmt.Sprintf("%s at %s; %d passages or more have no vector yet, a running server adds them", state.Model, c.At(), n))
	default:
		r.note("embedding", fmt.Sprintf("%s at %s; %d passages have no vector yet, a running server adds them", state.Model, c.At(), n))
	}
}

// handover looks at the folder in which the file is kept.
func (r *doctorReport) handover(dir string) {
	if dir == "" {
		return
	}
	r.check("handover file", dir, "let the server write there, or change handover.dir in the configuration", handover.Check(dir))
}

// toolServers looks whether the servers whose tools KAIROS calls could start.
// `kairos tools check` starts them.
func (r *doctorReport) toolServers(s session.Session) {
	added, broken, err := tools.Unready(&s)
	var problems []finding
	for _, b := range broken {
		problems = append(problems, finding{Problem: b.Error(), Fix: "put it back, or add the server again with `kairos tools add --replace`; until then steps wait that need its tools"})
	}
	switch {
	case err != nil:
		r.check("tool servers", "", "", err)
	case added > 0:
		r.note("tool servers", fmt.Sprintf("%d added; `kairos tools check` starts them", added), problems...)
	}
}

// isolation looks at how drivers are kept from the files of the server.
func (r *doctorReport) isolation(c config.Config, file string) {
	const name = "driver isolation"
	h := driverhost.New(slog.New(slog.DiscardHandler), driverhost.Options{Confinement: app.Confinement(c, file)})
	level, words, err := h.Isolation()
	if err = errors.Join(err, h.Close()); err != nil {
		r.check(name, "", demandFix[c.Drivers.Isolation], err)
		return
	}
	r.note(name, words)
	if level == driverhost.LevelNone && c.Drivers.Isolation != string(driverhost.LevelNone) {
		r.warn("drivers are not isolated: each of them can read and change the database, the keys and drivers.lock",
			"install only drivers that you trust with them; "+demandFix[string(driverhost.LevelNamespace)])
	}
}

// demandFix says what to do where a level is demanded that the machine lacks.
var demandFix = map[string]string{
	string(driverhost.LevelNamespace): "let this account make user namespaces (Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0; Docker: a seccomp profile that allows them), " +
		"or set drivers.isolation to landlock or auto",
	string(driverhost.LevelLandlock): "use Linux 5.13 or later with Landlock among its security modules (see /sys/kernel/security/lsm), or set drivers.isolation to namespace or auto",
}
