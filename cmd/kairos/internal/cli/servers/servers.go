// Package servers finds the running servers that a command talks to.
package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// Info is a server that was found.
type Info struct {
	operations.Info
	Socket string `json:"socket"`
}

// InfoOf is what is known of a server that was found.
func InfoOf(f socket.Found) Info { return Info{f.Info, f.Socket} }

// Choice says which running servers a command talks to. The zero value
// is every server that uses the same drivers folder.
type Choice struct {
	// Own leaves out those of another configuration file and, where there is no file, those
	// of another database.
	Own bool

	pid    int
	socket string
}

// AddTo gives a command the flags that choose a server.
func (s *Choice) AddTo(cmd *cobra.Command) {
	cmd.Flags().IntVar(&s.pid, "pid", 0, "talk only to the server with this process id")
	cmd.Flags().StringVar(&s.socket, "socket", "", "talk only to the server at this admin socket")
}

// errNoneUntilFixed is the error of commands that need a server when the
// configuration is wrong.
var errNoneUntilFixed = errors.New("no server runs with this configuration; fix the configuration first")

// Target is what is known of the configuration to a command that asks running
// servers: a wrong file does not keep a command from reaching a server.
type Target struct {
	Config config.Config
	broken error  // why the configuration is not that of a server; nil: it is
	file   string // the configuration file, absolute; empty: none
}

// Look reads the configuration, and warns where it cannot be read.
func Look(s session.Session, warn io.Writer) Target {
	c, err := s.Load()
	l := Target{Config: c, broken: err, file: strings.Join(files.Absolute(s.File), "")}
	if err != nil {
		l.Config = s.Salvage()
		output.Tell(warn, "warning: the configuration is wrong; servers that run are looked for all the same: %s\n", output.Lines(err.Error()))
	}
	return l
}

// concerns says whether a server runs with this configuration.
func (l Target) concerns(f socket.Found) bool {
	return samePath(f.DriversDir, l.Config.Drivers.Dir) || (l.broken != nil && l.file != "" && f.Config == l.file)
}

// owns says whether a server runs with this configuration and not only with its drivers.
func owns(l Target, f socket.Found) bool {
	if l.file != "" || f.Config != "" {
		return f.Config == l.file
	}
	return l.concerns(f) && samePath(f.Database, string(l.Config.Database))
}

// OfDatabase are those of the servers that use the database of this configuration. The
// database of one that is wrong is not known.
func (l Target) OfDatabase(found []socket.Found) []socket.Found {
	if l.broken != nil {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(f socket.Found) bool { return !l.Uses(f) })
}

// Uses reports whether a server uses the database of this configuration.
func (l Target) Uses(f socket.Found) bool {
	for _, file := range l.Config.Database.Files() {
		return samePath(f.Database, file)
	}
	return f.Database == l.Config.Database.String()
}

// LockOrServers reads the lock. Where servers run, as in dev mode without one,
// it is not needed.
func (l Target) LockOrServers(servers []socket.Found) (driverhost.Lock, error) {
	if l.broken != nil && len(servers) == 0 {
		return driverhost.Lock{}, errNoneUntilFixed
	}
	lock, err := l.Config.ReadLock()
	if err != nil && len(servers) > 0 {
		return driverhost.Lock{}, nil // the servers say what they run
	}
	return lock, err
}

// With finds the servers, maybe none, and closes the connections to them afterwards.
func (s *Choice) With(ctx context.Context, c config.Config, do func([]socket.Found) error) error {
	return s.with(ctx, Target{Config: c}, do)
}

// Running is With for commands that cannot do without a server: instead says what such a
// command is good for where none runs. The configuration may be wrong.
func (s *Choice) Running(cmd *cobra.Command, at *session.Session, instead string, do func([]socket.Found) error) error {
	c := Look(*at, cmd.ErrOrStderr())
	return s.with(cmd.Context(), c, func(servers []socket.Found) error {
		switch {
		case len(servers) > 0:
			return do(servers)
		case c.broken != nil:
			return errNoneUntilFixed
		}
		if others := s.others(cmd.Context(), c); others != "" {
			return fmt.Errorf("no server runs with this configuration, and %s uses its drivers with another one: name that with --config, or the server with --pid", others)
		}
		return fmt.Errorf("no server runs with the drivers of %s (or none that has answered a call yet, or its admin socket is off): %s",
			c.Config.Drivers.Dir, instead)
	})
}

// others names the servers that a choice of its own servers leaves out.
func (s *Choice) others(ctx context.Context, c Target) string {
	if !s.Own {
		return ""
	}
	found, _, err := new(Choice).find(ctx, c)
	if err != nil {
		return ""
	}
	defer closeAll(found)
	var names []string
	for _, f := range found {
		names = append(names, fmt.Sprintf("%s (%s)", Process(f), cmp.Or(f.Config, "no configuration file, database "+f.Database)))
	}
	return strings.Join(names, ", ")
}

func (s *Choice) with(ctx context.Context, c Target, do func([]socket.Found) error) error {
	servers, refused, err := s.find(ctx, c)
	defer closeAll(servers)
	if err == nil && len(servers) == 0 {
		err = refused
	}
	if err != nil {
		return err
	}
	return do(servers)
}

// WithMaybe is for commands that have something to say without a server too:
// a place that was refused is a warning.
func (s *Choice) WithMaybe(cmd *cobra.Command, c Target, do func([]socket.Found) error) error {
	servers, refused, err := s.find(cmd.Context(), c)
	defer closeAll(servers)
	if err != nil {
		return err
	}
	if refused != nil && len(servers) == 0 {
		output.Tell(cmd.ErrOrStderr(), "warning: %s\n", output.Lines(refused.Error()))
	}
	return do(servers)
}

func closeAll(servers []socket.Found) {
	for _, f := range servers {
		f.Close()
	}
}

// find returns the servers of the choice and why places were refused. A server
// that was named and is not there is an error.
func (s *Choice) find(ctx context.Context, c Target) (fit []socket.Found, refused, err error) {
	places := []string{s.socket}
	if s.socket == "" {
		places = app.AdminPlaces(c.Config)
	}
	all, refused := socket.Find(ctx, places...)
	for _, f := range all {
		mine := c.concerns(f)
		if s.Own {
			mine = owns(c, f)
		}
		if (s.pid != 0 && f.PID != s.pid) || (s.pid == 0 && s.socket == "" && !mine) {
			f.Close()
			continue
		}
		fit = append(fit, f)
	}
	switch {
	case len(fit) > 0:
		return fit, refused, nil
	case s.socket != "":
		if refused == nil {
			refused = socket.CheckSocket(s.socket)
		}
		return nil, refused, errors.Join(fmt.Errorf("no server answers at %s", s.socket), refused)
	case s.pid != 0:
		return nil, refused, errors.Join(fmt.Errorf("no server with process id %d has an admin socket of yours", s.pid), refused)
	}
	if at := c.Config.Admin.Socket; refused == nil && at != "" && at != config.AdminOff {
		if err := socket.CheckSocket(at); err != nil { // why servers of this configuration have none
			refused = fmt.Errorf("no server can listen at admin.socket: %w", err)
		}
	}
	return nil, refused, nil
}

// samePath compares two files or folders as they are, links followed.
func samePath(a, b string) bool {
	real := func(dir string) string {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		if target, err := filepath.EvalSymlinks(dir); err == nil {
			dir = target
		}
		return dir
	}
	return real(a) == real(b)
}

// Drivers lists the drivers of a server, by name.
func Drivers(ctx context.Context, f socket.Found) ([]driverhost.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := operations.ListDrivers.Call(ctx, f, operations.NoRequest{})
	return r.Drivers, err
}

// Gone reports whether a server that was found has ended since.
func Gone(ctx context.Context, f socket.Found) bool {
	there, err := socket.Find(ctx, f.Socket)
	closeAll(there)
	return err == nil && len(there) == 0
}

// callTime bounds a call that only reads what is there.
const callTime = 10 * time.Second

// Process names a server where there are several.
func Process(f socket.Found) string { return fmt.Sprintf("server %d", f.PID) }

// followEvery is how often a log that is followed is read.
const followEvery = 250 * time.Millisecond

// Logs are the flags of a command that prints the logs of servers.
type Logs struct {
	Choice
	follow bool
	lines  int
}

// AddTo gives a command the flags.
func (l *Logs) AddTo(cmd *cobra.Command) {
	l.Choice.AddTo(cmd)
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "print new lines until interrupted")
	cmd.Flags().IntVar(&l.lines, "lines", operations.DefaultLines, "how many of the last lines")
}

// Printed prints a line of a log: for people its text, for programs the item.
type Printed func(item any, text string) error

// Read calls read for every server at a time: once, or with --follow again and again until
// the command ends. It asks for the lines of the request, and returns the position behind them.
func (l *Logs) Read(cmd *cobra.Command, at *session.Session, out *output.Format,
	read func(ctx context.Context, f socket.Found, in operations.LogRequest, line Printed) (next int, err error),
) error {
	return l.Running(cmd, at, "the lines live with the server, whose stderr has them too", func(found []socket.Found) error {
		errs := make([]error, len(found))
		var wg sync.WaitGroup
		var mu sync.Mutex // guards standard output
		for i, f := range found {
			line := func(item any, text string) error {
				mu.Lock()
				defer mu.Unlock()
				return out.Item(cmd.OutOrStdout(), item, func(p *output.Printer) {
					if len(found) > 1 {
						p.Printf("[%d] ", f.PID)
					}
					p.Printf("%s\n", text)
				})
			}
			wg.Go(func() {
				errs[i] = readLog(cmd.Context(), f, l.follow, func(ctx context.Context, after int) (int, error) {
					return read(ctx, f, operations.LogRequest{Lines: l.lines, After: after}, line)
				})
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

func readLog(ctx context.Context, f socket.Found, follow bool, read func(ctx context.Context, after int) (next int, err error)) error {
	pause := time.NewTicker(followEvery)
	defer pause.Stop()
	for after := 0; ; {
		call, cancel := context.WithTimeout(ctx, callTime)
		next, err := read(call, after)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // interrupted, which is how following ends
		case err != nil && after > 0 && fault.CodeOf(err) == fault.ServerUnreachable:
			return fmt.Errorf("%s ended", Process(f))
		case err != nil || !follow:
			return err
		}
		after = next
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}
