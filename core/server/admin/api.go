package admin

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/setup"
)

// Info says which server answers.
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
	// Degraded says what the server does less well than it should; empty: nothing.
	Degraded string `json:"degraded,omitempty"`
}

// Drivers shows the drivers of the server. Implemented by *driverhost.Host;
// the methods are called concurrently and return at once, except FollowLogs.
type Drivers interface {
	// Status lists all drivers, by name.
	Status() []driverhost.Status
	StatusOf(name string) (driverhost.Status, bool)
	// Logs returns at most the last n lines of the driver, oldest first.
	Logs(name string, n int) []driverhost.Line
	// FollowLogs emits the last n lines and then every new one, until ctx ends
	// or emit fails.
	FollowLogs(ctx context.Context, name string, n int, emit func(driverhost.Line) error) error
}

// Setup changes what the server runs with. Implemented by *setup.Current; an
// error means that nothing was changed.
type Setup interface {
	// Reload takes up what configuration, tree and lock say now. The drivers
	// named get a fresh process although they are the same.
	Reload(ctx context.Context, again ...string) (setup.Report, error)
	// Rollback goes back to what was before the last change.
	Rollback(ctx context.Context) (setup.Report, error)
}

// Subject is the server that the interface shows and changes.
type Subject struct {
	Info    Info
	Drivers Drivers
	Setup   Setup
	// Log is what the server logged lately; nil: nothing is kept.
	Log *Log
	// HTTP and Degraded return those of Info; nil: they are always empty.
	HTTP, Degraded func() string
	// Tokens returns the tokens that authorize, at least one, of which the first is written
	// into the file; nil: a random one.
	Tokens func() ([]string, error)
}

// reloadRequest is the body of POST /v1/reload; it may be empty.
type reloadRequest struct {
	Drivers []string `json:"drivers"`
}

// driversReply is the body of GET /v1/drivers.
type driversReply struct {
	Drivers []driverhost.Status `json:"drivers"`
}

// failure is the body of every reply that is not a success.
type failure struct {
	Error string `json:"error"`
}
