package driverhost

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
)

// tryThread finds out whether a thread can hide the files: then no start takes
// longer than without.
func (c *confinement) tryThread(s *starter) error {
	for _, bounded := range []bool{true, false} {
		thread, err := s.thread(traits{hidden: true, bounded: bounded})
		if err != nil {
			return err
		}
		if err := thread.do(func() error { return sandbox.Hide(c.covers(nil)) }); err != nil {
			return err
		}
	}
	return nil
}

// tryLauncher finds out whether a launcher can hide the files in a user
// namespace. Some systems let users make one and forbid mounts in it.
func (c *confinement) tryLauncher(s *starter) error {
	cmd := sandbox.ProbeLauncher(c.covers(nil), processAttributes())
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := s.do(cmd.Start); err != nil {
		return fmt.Errorf("make a user namespace: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("mount in a user namespace: %w: %s", err, cleanLine(said.Bytes()))
	}
	return nil
}

func tryLandlock() error {
	_, err := sandbox.LandlockVersion()
	return err
}

// confine prepares a command for the level in force and returns the thread that
// has to start it and what that thread does before. It needs the guard's lock.
func (g *guard) confine(cmd *exec.Cmd, own []string) (thread *starter, before func() error, err error) {
	found := g.confined
	before = func() error { return nil }
	switch {
	case found.refused != nil:
		return nil, nil, found.refused
	case found.level == LevelNamespace && found.launcher:
		sandbox.Launcher(cmd, g.confinement.covers(own), g.config.launcher)
		thread, err = g.starter.thread(traits{noTCP: g.network == byLandlock})
	case found.level == LevelNamespace:
		covers := g.confinement.covers(own)
		before = func() error {
			if err := sandbox.RenewNamespace(); err != nil {
				return err
			}
			return sandbox.Hide(covers)
		}
		thread, err = g.starter.thread(traits{hidden: true, bounded: !g.config.launcher, noTCP: g.network == byLandlock})
	case g.level() == LevelLandlock:
		thread, err = g.landlocked(cmd, own)
	default:
		thread, err = g.starter.thread(traits{noTCP: g.network == byLandlock})
	}
	return thread, before, err
}

// landlocked returns a thread whose processes reach what Landlock grants to
// this binary. It needs the guard's lock.
func (g *guard) landlocked(cmd *exec.Cmd, own []string) (*starter, error) {
	if err := g.confinement.conflict(g.config.use); err != nil {
		return nil, err
	}
	var binary *os.File
	if len(cmd.ExtraFiles) > 0 {
		binary = cmd.ExtraFiles[0]
	}
	id, _ := identityOf(binary)
	if n := len(g.threads); n > 0 && g.grantedTo == id {
		return g.threads[n-1], nil
	}
	grants := sandbox.Grants{Use: slices.Concat(g.config.use, own), Execute: binary}
	// A root process with CAP_PERFMON would read the memory of the server all the same.
	rest := traits{bounded: os.Geteuid() == 0, noTCP: g.network == byLandlock}
	thread := startThread(func() error { return errors.Join(rest.setUp(), sandbox.GrantOnly(grants)) })
	if thread.setUp != nil {
		thread.close()
		return nil, thread.setUp
	}
	g.threads, g.grantedTo = append(g.threads, thread), id
	return thread, nil
}

// ProtectMemory keeps other processes of this user from reading the memory and
// the environment of this one, unless drivers are started in user namespaces:
// the kernel lets no process make one that is not dumpable.
func (h *Host) ProtectMemory() {
	if h.confinement.find().launcher || h.starter.network() == byUserNamespace {
		return // drivers are in another user namespace, from where they cannot read it
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		h.log.Warn("this process stays readable for others of its user", "error", err)
	}
}
