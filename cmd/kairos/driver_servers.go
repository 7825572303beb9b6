package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// serverChoice says which running servers a command talks to. The zero value
// is every server that uses the same drivers folder.
type serverChoice struct {
	pid    int
	socket string
}

func (s *serverChoice) addTo(cmd *cobra.Command) {
	cmd.Flags().IntVar(&s.pid, "pid", 0, "talk only to the server with this process id")
	cmd.Flags().StringVar(&s.socket, "socket", "", "talk only to the server at this admin socket")
}

// errNoneToMend is what remains to say of a configuration that is wrong.
var errNoneToMend = errors.New("no server runs with this configuration, and it has to be mended before one can")

// looked is what is known of the configuration to a command that asks running
// servers: a file that is wrong is no reason to leave a server alone.
type looked struct {
	config
	broken error  // why the configuration is not that of a server; nil: it is
	file   string // the configuration file, absolute; empty: none
}

// look reads the configuration, and warns where it cannot be read.
func (s session) look(warn io.Writer) looked {
	c, err := s.load()
	l := looked{config: c, broken: err, file: strings.Join(absolute(s.file), "")}
	if err != nil {
		l.config = s.salvage()
		tell(warn, "warning: the configuration is wrong; servers that run are looked for all the same: %s\n", lines(err.Error()))
	}
	return l
}

// salvage is as much of a configuration that is wrong as finds servers.
func (s source) salvage() config {
	var part struct {
		Drivers struct {
			Dir string `yaml:"dir"`
		} `yaml:"drivers"`
		Admin struct {
			Socket string `yaml:"socket"`
		} `yaml:"admin"`
	}
	var c config
	if b, err := readFile(s.file); err == nil && yaml.Unmarshal(b, &part) == nil {
		c.Drivers.Dir, c.Admin.Socket = part.Drivers.Dir, part.Admin.Socket
	}
	c.relativeTo(filepath.Dir(s.file))
	_ = c.overlay(os.LookupEnv) // what is wrong is said already
	_ = c.defaults()
	return c
}

// concerns says whether a server runs with this configuration.
func (l looked) concerns(f admin.Found) bool {
	return sameFolder(f.DriversDir, l.Drivers.Dir) || (l.broken != nil && l.file != "" && f.Config == l.file)
}

// lockOrServers reads the lock. Where servers run, as in dev mode without one,
// it is not needed.
func (l looked) lockOrServers(servers []admin.Found) (driverhost.Lock, error) {
	if l.broken != nil && len(servers) == 0 {
		return driverhost.Lock{}, errNoneToMend
	}
	lock, err := l.readLock()
	if err != nil && len(servers) > 0 {
		return driverhost.Lock{}, nil // the servers say what they run
	}
	return lock, err
}

// with finds the servers, maybe none, and lets go of them afterwards.
func (s *serverChoice) with(ctx context.Context, c config, do func([]admin.Found) error) error {
	return s.withLooked(ctx, looked{config: c}, do)
}

func (s *serverChoice) withLooked(ctx context.Context, c looked, do func([]admin.Found) error) error {
	servers, refused, err := s.find(ctx, c)
	defer letGo(servers)
	if err == nil && len(servers) == 0 {
		err = refused
	}
	if err != nil {
		return err
	}
	return do(servers)
}

// withMaybe is for commands that have something to say without a server too:
// a place that was refused is a warning.
func (s *serverChoice) withMaybe(cmd *cobra.Command, c looked, do func([]admin.Found) error) error {
	servers, refused, err := s.find(cmd.Context(), c)
	defer letGo(servers)
	if err != nil {
		return err
	}
	if refused != nil && len(servers) == 0 {
		tell(cmd.ErrOrStderr(), "warning: %s\n", lines(refused.Error()))
	}
	return do(servers)
}

func letGo(servers []admin.Found) {
	for _, f := range servers {
		f.Client.Close()
	}
}

// find returns the servers of the choice and why places were refused. A server
// that was named and is not there is an error.
func (s *serverChoice) find(ctx context.Context, c looked) (fit []admin.Found, refused, err error) {
	places := []string{s.socket}
	if s.socket == "" {
		places = append(admin.DefaultFolders(), c.adminPlaces()...)
	}
	all, refused := admin.Find(ctx, places...)
	for _, f := range all {
		if (s.pid != 0 && f.PID != s.pid) || (s.pid == 0 && s.socket == "" && !c.concerns(f)) {
			f.Client.Close()
			continue
		}
		fit = append(fit, f)
	}
	switch {
	case len(fit) > 0:
		return fit, refused, nil
	case s.socket != "":
		if refused == nil {
			refused = admin.CheckSocket(s.socket)
		}
		return nil, refused, errors.Join(fmt.Errorf("no server answers at %s", s.socket), refused)
	case s.pid != 0:
		return nil, refused, errors.Join(fmt.Errorf("no server with process id %d has an admin socket of yours", s.pid), refused)
	}
	if refused == nil {
		refused = c.adminRefused()
	}
	return nil, refused, nil
}

// adminRefused is why servers of this configuration have no admin socket.
func (c config) adminRefused() error {
	if len(c.adminPlaces()) == 0 {
		return nil
	}
	if err := admin.CheckSocket(c.Admin.Socket); err != nil {
		return fmt.Errorf("no server can listen at admin.socket: %w", err)
	}
	return nil
}

// adminPlaces is where servers of this configuration listen besides the usual places.
func (c config) adminPlaces() []string {
	if c.Admin.Socket == "" || c.Admin.Socket == adminOff {
		return nil
	}
	return []string{filepath.Clean(c.Admin.Socket)}
}

// sameFolder compares two folders as they are, links followed.
func sameFolder(a, b string) bool {
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

// needServer is what a command says that cannot do without one.
func needServer(servers []admin.Found, c looked, instead string) error {
	if len(servers) > 0 {
		return nil
	}
	if c.broken != nil {
		return errNoneToMend
	}
	return fmt.Errorf("no server runs with the drivers of %s (or none that has answered a call yet, or its admin socket is off): %s",
		c.Drivers.Dir, instead)
}

// process names a server where there are several.
func process(f admin.Found) string { return fmt.Sprintf("server %d", f.PID) }
