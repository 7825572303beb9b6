package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tools"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// database reports whether there is a database to look at. doctor makes none: before the
// first start of a server there need not be one, unless all of it was to be read.
func (r *doctorReport) database(d config.Database, deep bool) bool {
	if app.DatabaseExists(d) {
		return true
	}
	absent := app.NoDatabase(d)
	if deep {
		r.note("database", d.String(), finding{Problem: absent.Message, Fix: absent.Hint})
		return false
	}
	r.note("database", "")
	r.warn(absent.Message, absent.Hint)
	return false
}

// engine looks at the database and asks the drivers.
func (r *doctorReport) engine(ctx context.Context, s session.Session, deep bool) {
	err := s.With(ctx, func(ctx context.Context, a *app.App) error {
		if err := a.Store.Check(); err != nil {
			r.check("database", a.Config.Database.String(), "", err)
			return nil
		}
		if !r.sound(ctx, a) || deep && !r.integrity(ctx, a) {
			return nil // whatever else reads or writes a damaged database may do more harm
		}
		examineAudit(ctx, r, a)
		r.index(ctx, a)
		r.acts(ctx, a)
		r.redactions(ctx, a)
		examineTokens(ctx, r, a, time.Now())
		r.embedding(ctx, a)
		u, err := a.Engine.Archive.Unserved(ctx, a.RunCaller())
		if err != nil {
			return fmt.Errorf("ask the drivers about what is stored: %w", err)
		}
		r.unserved(u)
		return nil
	})
	if err != nil && !slices.ContainsFunc(r.Checks, func(c doctorCheck) bool {
		return slices.ContainsFunc(c.Problems, func(f finding) bool { return f.Problem == err.Error() })
	}) {
		r.check("protocols", "", "", err)
	}
}

// examineAudit writes a line to the audit log, if there is one.
func examineAudit(ctx context.Context, r *doctorReport, a *app.App) {
	if where, _ := a.Audit.State(); where != "" {
		r.check("audit log", where, "look at the disk and at audit of the configuration", a.Audit.Check(ctx, a.Caller()))
	}
}

// machine looks at what needs no database: a server is not to fail at its first run.
func (r *doctorReport) machine(ctx context.Context, s session.Session) {
	err := s.Options.With(ctx, func(ctx context.Context, a *app.App) error {
		r.acts(ctx, a)
		return nil
	})
	if err != nil {
		r.check("drivers", "", "", err)
	}
}

// acts looks at what KAIROS does on this machine: it runs commands, and hands files over.
func (r *doctorReport) acts(ctx context.Context, a *app.App) {
	r.commands(ctx, a)
	r.handover(a.Config.Handover.Dir)
}

// redactions finishes what an interrupted redaction left in the files.
func (r *doctorReport) redactions(ctx context.Context, a *app.App) {
	left, err := a.Store.Runs.Unscrubbed(ctx)
	if err == nil && len(left) > 0 {
		err = a.Store.Runs.Scrub(ctx)
	}
	if err != nil {
		r.check("redactions", "", "stop the processes that read the database and run `kairos doctor` again", err)
	}
}

// Fixes of a damaged database.
const (
	damagedPostgres = "stop every server that uses it and restore the last backup; the log of PostgreSQL and its extension amcheck say whether pages are damaged, too"
	damagedFile     = "stop every server that uses it, keep a copy of it with its -wal and -shm, and restore the last backup; " +
		"without a backup, `sqlite3 FILE .recover | sqlite3 NEW` saves what can still be read"
)

// sound looks for damage of the database that shows in little time.
func (r *doctorReport) sound(ctx context.Context, a *app.App) bool {
	damages, err := a.Store.QuickCheck(ctx)
	return r.damage(a, "database", a.Config.Database.String(), damages, err)
}

// integrity reads the whole database and compares what belongs together.
func (r *doctorReport) integrity(ctx context.Context, a *app.App) bool {
	damages, err := a.Store.Integrity(ctx)
	return r.damage(a, "integrity", "the whole database was read, nothing is damaged", damages, err)
}

// damage notes a check of the database, and reports whether it is sound.
func (r *doctorReport) damage(a *app.App, check, sound string, damages []string, err error) bool {
	var problems []finding
	for _, d := range damages {
		problems = append(problems, finding{Problem: d})
	}
	if err != nil {
		problems = append(problems, finding{Problem: err.Error()})
	}
	if len(problems) == 0 {
		r.note(check, sound)
		return true
	}
	fix := damagedFile
	if a.Config.Database.Postgres() {
		fix = damagedPostgres
	}
	problems[len(problems)-1].Fix = fix
	r.note(check, a.Config.Database.String(), problems...)
	return false
}

// embedding says how texts are compared, whether an endpoint answers, and what is not embedded yet.
// Missing vectors are not an error: a running server adds them.
func (r *doctorReport) embedding(ctx context.Context, a *app.App) {
	c := a.Config.Embedding
	if !c.Endpoint() {
		r.note("embedding", c.String())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	state, err := a.Engine.Library.Embeddings(ctx)
	if err != nil {
		r.check("embedding", c.URL, config.EmbeddingFix, err)
		return
	}
	switch n := state.Missing; n {
	case 0:
		r.note("embedding", state.Model+" at "+c.URL+"; every passage has a vector")
	case library.MaxMissing:
		r.note("embedding", fmt.Sprintf("%s at %s; %d passages or more have no vector yet, a running server adds them", state.Model, c.URL, n))
	default:
		r.note("embedding", fmt.Sprintf("%s at %s; %d passages have no vector yet, a running server adds them", state.Model, c.URL, n))
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

// examineServer asks a server how it is. Fixes that are commands are for the
// machine that it runs on.
func examineServer(ctx context.Context, s session.Session) doctorReport {
	r := newReport()
	var found operations.Report
	err := s.WithTools(ctx, func(ctx context.Context, t api.Transport) (err error) {
		found, err = operations.Doctor.Call(ctx, t, operations.DoctorRequest{})
		return err
	})
	if err != nil {
		fix := ""
		var f *fault.Error
		if errors.As(err, &f) {
			fix = f.ForPeople()
		}
		r.check("server", s.Server(), fix, err)
		return r.concluded()
	}
	r.note("server", fmt.Sprintf("kairos %s at %s", found.Version, s.Server()))
	if found.Version != s.Version {
		r.warn(fmt.Sprintf("this program is kairos %s", s.Version), "use the version of the server if a command is refused")
	}
	r.part("store", found.Store, "run `kairos doctor`")
	if found.Index != nil {
		r.part("index", *found.Index, app.IndexFix)
	}
	r.part("embedding", found.Embedding, "run `kairos db embedding check`")
	if found.Audit != nil {
		r.part("audit log", *found.Audit, "look at the disk of its audit log")
	}
	r.part("readiness", found.Readiness, "run `kairos doctor`")
	var failing []finding
	for _, d := range found.Drivers {
		if d.Failing {
			failing = append(failing, finding{
				Problem: fmt.Sprintf("driver %s %s is in state %s", d.Name, d.Version, d.State),
				Fix:     fmt.Sprintf("see `kairos driver info %s`; `kairos reload %s` once it is fixed", d.Name, d.Name),
			})
		}
	}
	r.note("drivers", output.Count(len(found.Drivers), "driver"), failing...)
	r.unserved(found.Unserved)
	r = r.concluded()
	if !r.OK {
		r.Checks[0].Detail += "; the commands below are for the machine that it runs on"
	}
	return r
}

// part notes one thing that a server depends on.
func (r *doctorReport) part(name string, p operations.Part, fix string) {
	if p.Problem == "" {
		r.note(name, cmp.Or(p.Detail, "calls can be served"))
		return
	}
	r.note(name, p.Detail, finding{Problem: p.Problem, Fix: fix})
}
