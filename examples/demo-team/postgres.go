package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// startDatabase starts PostgreSQL where it is installed. Elsewhere the server keeps its SQLite
// file.
func (s *stage) startDatabase() error {
	programs := installed()
	if s.sqlite || programs == "" {
		say("database: SQLite, since PostgreSQL is %s", map[bool]string{true: "not wanted", false: "not installed"}[s.sqlite])
		return nil
	}
	folder, err := os.MkdirTemp("/tmp", "kairos-team-pg-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() { _ = os.RemoveAll(folder) })
	owner, err := ownerOf(folder)
	if errors.As(err, new(user.UnknownUserError)) {
		say("database: SQLite, since PostgreSQL does not run as root, and there is no user postgres")
		return nil
	}
	if err != nil {
		return err
	}
	run := func(ctx context.Context, program string, args ...string) error {
		cmd := exec.CommandContext(ctx, filepath.Join(programs, program), append(args, "-D", filepath.Join(folder, "data"))...)
		cmd.Dir, cmd.Env = folder, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
		if out, err := cmd.Output(); err != nil {
			log, _ := os.ReadFile(filepath.Join(folder, "log"))
			return fmt.Errorf("%s: %w: %s%s", program, err, out, log)
		}
		return nil
	}
	if err := run(s.ctx, "initdb", "-U", "kairos", "-E", "UTF8", "--no-locale", "--no-sync", "--auth=trust"); err != nil {
		return err
	}
	s.ends = append(s.ends, func() { _ = run(context.WithoutCancel(s.ctx), "pg_ctl", "stop", "-m", "immediate") })
	if err := run(s.ctx, "pg_ctl", "start", "-w", "-t", "120", "-l", filepath.Join(folder, "log"), "-o", "-k "+folder+" -c listen_addresses="); err != nil {
		return err
	}
	at := url.URL{Scheme: "postgres", User: url.User("kairos"), Path: "/postgres", RawQuery: url.Values{"host": {folder}}.Encode()}
	s.database = at.String()
	say("database: PostgreSQL, started from %s", programs)
	return nil
}

// installed is the folder of the newest installed server of PostgreSQL; empty: there is none.
// Debian has them outside of PATH.
func installed() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return ""
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) }))
}

// ownerOf gives the folder to the user as whom PostgreSQL runs, which refuses to run as root;
// nil: the one who runs the demo.
func ownerOf(folder string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(folder, int(uid), int(gid))
}
