package operations

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/setup"
)

// Info says which server replies.
type Info struct {
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	// DriversDir, Database and Config are absolute paths; Config is empty for a
	// server without a configuration file.
	DriversDir string `json:"drivers_dir"`
	Database   string `json:"database"`
	Config     string `json:"config,omitempty"`
	// Watch: the server takes up changed files by itself.
	Watch bool `json:"watch"`
	// HTTP is the address of the main port; empty: it is not listened on.
	HTTP string `json:"http,omitempty"`
}

// Drivers shows the drivers of the server. Implemented by *driverhost.Host; the
// methods are called concurrently and return at once.
type Drivers interface {
	// Status lists all drivers, by name.
	Status() []driverhost.Status
	// Logs returns the lines of a driver behind a position, oldest first, and the
	// position behind them.
	Logs(name string, after int) (lines []driverhost.Line, next int)
}

// Setup changes what the server runs with. Implemented by *setup.Current; an
// error means that nothing was changed.
type Setup interface {
	// Reload takes up what configuration, tree and lock say now. The drivers
	// named get a new process even if they are the same.
	Reload(ctx context.Context, again ...string) (setup.Report, error)
	// Rollback goes back to what was before the last change.
	Rollback(ctx context.Context) (setup.Report, error)
}

// Machine is the server process, which the operator of its machine shows and changes.
type Machine struct {
	Info    func() Info
	Drivers Drivers
	Setup   Setup
	Log     *Log // what the server logged lately
	// LoginLink makes a link with which a person logs in with a browser.
	LoginLink func(context.Context, LoginLinkRequest) (LoginLinkReply, error)
}

// The operations about the process. They are served on the unix socket only: they
// name files and processes.
var (
	ShowServer      = api.Tool[NoRequest, Info]{Declaration: api.Declaration{Name: "server_show"}}
	ServerLogs      = api.Tool[ServerLogsRequest, ServerLogsReply]{Declaration: api.Declaration{Name: "server_logs"}}
	ListDrivers     = api.Tool[NoRequest, ListDriversReply]{Declaration: api.Declaration{Name: "drivers_list"}}
	DriverLogs      = api.Tool[DriverLogsRequest, DriverLogsReply]{Declaration: api.Declaration{Name: "drivers_logs"}}
	ReloadDrivers   = api.Tool[ReloadRequest, setup.Report]{Declaration: api.Declaration{Name: "drivers_reload"}}
	RollbackDrivers = api.Tool[NoRequest, setup.Report]{Declaration: api.Declaration{Name: "drivers_rollback"}}
	LoginLink       = api.Tool[LoginLinkRequest, LoginLinkReply]{Declaration: api.Declaration{Name: "login_link"}}
)

// LoginLinkRequest names a person.
type LoginLinkRequest struct {
	// As is a principal, user:<realm>:<name>, or the name of one whom only this server knows.
	As string `json:"as"`
	// Name is what people call the person. Default: the name in the principal.
	Name string `json:"name,omitempty"`
	// Groups are those that the person belongs to; without a realm they are of the person's.
	Groups []string `json:"groups,omitempty"`
}

// LoginLinkReply is a link that logs in once.
type LoginLinkReply struct {
	ID        string    `json:"id"` // of the login
	Principal string    `json:"principal"`
	Name      string    `json:"name"`
	Groups    []string  `json:"groups"`
	Expires   time.Time `json:"expires"`
	// URL has the secret. It is kept nowhere.
	URL string `json:"url"`
}

// NoRequest has no fields.
type NoRequest struct{}

// ListDriversReply lists the drivers by name.
type ListDriversReply struct {
	Drivers []driverhost.Status `json:"drivers"`
}

// ReloadRequest names the drivers that get a new process in any case.
type ReloadRequest struct {
	Drivers []string `json:"drivers,omitempty"`
}

// DefaultLines is how many lines of a log commands show unless told otherwise.
const DefaultLines = 200

// LogRequest selects the last lines of a log, or all lines behind a position.
type LogRequest struct {
	Lines int `json:"lines"`
	// After is Next of the reply before; 0: the last lines.
	After int `json:"after,omitempty"`
}

// selected selects from the lines behind the position.
func selected[L any](in LogRequest, lines []L) []L {
	if in.After == 0 {
		lines = lines[max(0, len(lines)-max(0, in.Lines)):]
	}
	return append([]L{}, lines...)
}

// DriverLogsRequest selects lines of a driver.
type DriverLogsRequest struct {
	LogRequest

	Driver string `json:"driver"`
}

// DriverLogsReply has lines of a driver, oldest first.
type DriverLogsReply struct {
	Lines []driverhost.Line `json:"lines"`
	Next  int               `json:"next"`
}

// ServerLogsRequest selects records of the level or a worse one.
type ServerLogsRequest struct {
	LogRequest

	Level slog.Level `json:"level"`
}

// ServerLogsReply has records as slog.JSONHandler writes them, oldest first.
type ServerLogsReply struct {
	Records []json.RawMessage `json:"records"`
	Next    int               `json:"next"`
}

func (m Machine) show(context.Context, NoRequest) (Info, error) { return m.Info(), nil }

func (m Machine) list(context.Context, NoRequest) (ListDriversReply, error) {
	return ListDriversReply{append([]driverhost.Status{}, m.Drivers.Status()...)}, nil
}

func (m Machine) driverLogs(_ context.Context, in DriverLogsRequest) (DriverLogsReply, error) {
	if !slices.ContainsFunc(m.Drivers.Status(), func(s driverhost.Status) bool { return s.Name == in.Driver }) {
		return DriverLogsReply{}, fault.New(fault.NotFound, "this server runs no driver %q", in.Driver)
	}
	lines, next := m.Drivers.Logs(in.Driver, in.After)
	return DriverLogsReply{selected(in.LogRequest, lines), next}, nil
}

func (m Machine) serverLogs(_ context.Context, in ServerLogsRequest) (ServerLogsReply, error) {
	records, next := m.Log.after(in.After, in.Level)
	return ServerLogsReply{selected(in.LogRequest, records), next}, nil
}

func (m Machine) reload(ctx context.Context, in ReloadRequest) (setup.Report, error) {
	return refused(m.Setup.Reload(ctx, in.Drivers...))
}

func (m Machine) rollback(ctx context.Context, _ NoRequest) (setup.Report, error) {
	return refused(m.Setup.Rollback(ctx))
}

// refused gives the operator the whole reason why nothing was changed.
func refused(r setup.Report, err error) (setup.Report, error) {
	if err != nil {
		return r, fault.New(fault.Conflict, "%s", err)
	}
	return r, nil
}
