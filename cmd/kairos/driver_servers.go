package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/admin"
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

// with finds the servers, maybe none, and lets go of them afterwards.
func (s *serverChoice) with(ctx context.Context, c config, do func([]admin.Found) error) error {
	servers, err := s.find(ctx, c)
	defer func() {
		for _, f := range servers {
			f.Client.Close()
		}
	}()
	if err != nil {
		return err
	}
	return do(servers)
}

// find returns the servers of the choice. A server that was named and is not
// there is an error.
func (s *serverChoice) find(ctx context.Context, c config) ([]admin.Found, error) {
	places := []string{s.socket}
	if s.socket == "" {
		places = append(admin.DefaultFolders(), c.adminPlaces()...)
	}
	all, refused := admin.Find(ctx, places...)
	var fit []admin.Found
	for _, f := range all {
		if (s.pid != 0 && f.PID != s.pid) || (s.pid == 0 && s.socket == "" && !sameFolder(f.DriversDir, c.Drivers.Dir)) {
			f.Client.Close()
			continue
		}
		fit = append(fit, f)
	}
	switch {
	case len(fit) > 0:
		return fit, nil
	case s.socket != "":
		return nil, errors.Join(fmt.Errorf("no server answers at %s", s.socket), refused)
	case s.pid != 0:
		return nil, errors.Join(fmt.Errorf("no server with process id %d has an admin socket of yours", s.pid), refused)
	}
	return nil, refused
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
func needServer(servers []admin.Found, c config, instead string) error {
	if len(servers) > 0 {
		return nil
	}
	return fmt.Errorf("no server runs with the drivers of %s (or none that has answered a call yet, or its admin socket is off): %s",
		c.Drivers.Dir, instead)
}

// process names a server where there are several.
func process(f admin.Found) string { return fmt.Sprintf("server %d", f.PID) }
