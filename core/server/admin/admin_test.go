package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

func TestClientSeesWhatTheServerRuns(t *testing.T) {
	ctx := t.Context()
	c := serve(t, filepath.Join(shortDir(t), "1.sock"), newFakeDrivers("one", "two", "three"), fakeSetup{})
	info, err := c.Server(ctx)
	if err != nil || info.Version != "v9" || info.PID != os.Getpid() || info.DriversDir != "/drivers" {
		t.Errorf("Server() = %+v, %v", info, err)
	}
	all, err := c.Drivers(ctx)
	if err != nil || len(all) != 1 || all[0].Name != "shell" || all[0].Generation != 4 {
		t.Errorf("Drivers() = %+v, %v", all, err)
	}
	one, err := c.Driver(ctx, "shell")
	if err != nil || one.Version != "1.2.3" {
		t.Errorf("Driver(shell) = %+v, %v", one, err)
	}
	lines, err := c.Logs(ctx, "shell", 2)
	if err != nil || len(lines) != 2 || lines[0].Text != "two" || lines[1].Text != "three" {
		t.Errorf("Logs(shell, 2) = %+v, %v", lines, err)
	}
	var refused *admin.Refused
	if _, err := c.Driver(ctx, "odd/name"); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("Driver(odd/name) = %v, want not found", err)
	}
	if _, err := c.Logs(ctx, "nobody", 2); err == nil || !strings.Contains(err.Error(), `runs no driver "nobody"`) {
		t.Errorf("Logs(nobody) = %v", err)
	}
}

func TestChangesAreReportedAndRefusalsQuoted(t *testing.T) {
	c := serve(t, filepath.Join(shortDir(t), "1.sock"), newFakeDrivers(), fakeSetup{})
	r, err := c.Reload(t.Context(), "shell", "mcp")
	if err != nil || cmp.Diff([]string{"again [shell mcp]"}, r.Warnings) != "" {
		t.Errorf("Reload(shell, mcp) = %+v, %v", r, err)
	}
	if r, err = c.Rollback(t.Context()); err != nil || cmp.Diff([]string{"went back"}, r.Warnings) != "" {
		t.Errorf("Rollback() = %+v, %v", r, err)
	}
	c = serve(t, filepath.Join(shortDir(t), "1.sock"), newFakeDrivers(), fakeSetup{refuses: true})
	if _, err := c.Reload(t.Context()); err == nil || err.Error() != "driver shell: its binary is not the locked one" {
		t.Errorf("Reload() = %v, want the server's own words", err)
	}
	if _, err := c.Rollback(t.Context()); err == nil || err.Error() != "there is nothing to go back to" {
		t.Errorf("Rollback() = %v, want the server's own words", err)
	}
}

func TestFollowedLogsLastUntilTheReaderLeaves(t *testing.T) {
	drivers := newFakeDrivers("old")
	c := serve(t, filepath.Join(shortDir(t), "1.sock"), drivers, fakeSetup{})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var got []string
	err := c.FollowLogs(ctx, "shell", 10, func(l driverhost.Line) error {
		got = append(got, l.Text)
		switch l.Text {
		case "old":
			drivers.say("new")
		case "new":
			leave()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || cmp.Diff([]string{"old", "new"}, got) != "" {
		t.Errorf("FollowLogs = %v after %v, want canceled after old and new", err, got)
	}
	stop := errors.New("enough")
	if err := c.FollowLogs(t.Context(), "shell", 1, func(driverhost.Line) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("FollowLogs = %v, want the error of emit", err)
	}
}

func TestCloseEndsOpenRequests(t *testing.T) {
	socket := filepath.Join(shortDir(t), "1.sock")
	hangs := make(chan struct{})
	s := admin.NewServer(socket, admin.Subject{Drivers: newFakeDrivers("line"), Setup: fakeSetup{hangs: hangs}}, slog.New(slog.DiscardHandler))
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	c := admin.NewClient(socket)
	defer c.Close()
	reloaded, followed, reading := make(chan error, 1), make(chan error, 1), make(chan struct{}, 1)
	go func() {
		_, err := c.Reload(context.Background())
		reloaded <- err
	}()
	go func() {
		followed <- c.FollowLogs(context.Background(), "shell", 1, func(driverhost.Line) error {
			reading <- struct{}{}
			return nil
		})
	}()
	<-hangs
	<-reading
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-reloaded; err == nil {
		t.Error("a reload that was cut off reports success")
	}
	if err := <-followed; err != nil {
		t.Errorf("FollowLogs = %v, want nil when the server stops", err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := s.Listen(); err == nil {
		t.Error("Listen after Close works")
	}
}

func TestCloseBeforeListenIsFine(t *testing.T) {
	s := admin.NewServer(filepath.Join(shortDir(t), "1.sock"), admin.Subject{Drivers: newFakeDrivers(), Setup: fakeSetup{}}, slog.New(slog.DiscardHandler))
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "1.sock")
	serve(t, socket, newFakeDrivers(), fakeSetup{})
	for path, want := range map[string]os.FileMode{dir: 0o700, socket: 0o600} {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

func TestFoldersThatAreNotPrivateAreRefused(t *testing.T) {
	open := shortDir(t)
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	own := shortDir(t)
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(own), "link")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(own, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ socket, want string }{
		"open to others": {filepath.Join(open, "1.sock"), "chmod 700"},
		"a link":         {filepath.Join(link, "1.sock"), "is not a folder"},
		"a file":         {filepath.Join(file, "1.sock"), "is not a folder"},
		"relative":       {"1.sock", "not an absolute path"},
		"too long":       {filepath.Join(own, strings.Repeat("x", 100)), "shorter"},
	} {
		t.Run(name, func(t *testing.T) {
			s := admin.NewServer(tc.socket, admin.Subject{Drivers: newFakeDrivers(), Setup: fakeSetup{}}, slog.New(slog.DiscardHandler))
			if err := s.Listen(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Listen = %v, want something about %q", err, tc.want)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	if found, err := admin.Find(t.Context(), open, link); err == nil || len(found) > 0 {
		t.Errorf("Find in folders of that kind = %v, %v, want a refusal", found, err)
	}
}

func TestDeadServersSocketsAreRemovedAndLivingOnesKept(t *testing.T) {
	dir := shortDir(t)
	living := filepath.Join(dir, "77.sock")
	c := serve(t, living, newFakeDrivers(), fakeSetup{})
	leave(t, filepath.Join(dir, "1.sock"))
	leave(t, filepath.Join(dir, "somebody-elses.sock"))
	if found, err := admin.Find(t.Context(), dir); err != nil || len(found) != 1 || found[0].Socket != living {
		t.Errorf("Find = %+v, %v, want the living one", found, err)
	} else {
		found[0].Client.Close()
	}

	serve(t, filepath.Join(dir, "2.sock"), newFakeDrivers(), fakeSetup{})
	var left []string
	sockets, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, s := range sockets {
		left = append(left, filepath.Base(s))
	}
	if diff := cmp.Diff([]string{"2.sock", "77.sock", "somebody-elses.sock"}, left); diff != "" {
		t.Errorf("sockets left (-want +got):\n%s", diff)
	}
	if _, err := c.Server(t.Context()); err != nil {
		t.Errorf("the living server is cut off: %v", err)
	}

	second := admin.NewServer(living, admin.Subject{Drivers: newFakeDrivers(), Setup: fakeSetup{}}, slog.New(slog.DiscardHandler))
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "another server listens there") {
		t.Errorf("Listen on a living server's socket = %v", err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := c.Server(t.Context()); err != nil {
		t.Errorf("the living server is cut off: %v", err)
	}
}

// leave makes a socket as a server leaves it that was killed.
func leave(t *testing.T, socket string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestServersAreFoundOnceAndByProcess(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "1.sock")
	serve(t, socket, newFakeDrivers(), fakeSetup{})
	found, err := admin.Find(t.Context(), dir, socket, filepath.Join(dir, "nothing"))
	if err != nil || len(found) != 1 || found[0].PID != os.Getpid() {
		t.Fatalf("Find = %+v, %v, want this process once", found, err)
	}
	found[0].Client.Close()
}

func TestDefaultSocketIsOneOfThoseThatAreLookedAt(t *testing.T) {
	for name, dir := range map[string]string{"set": t.TempDir(), "unset": "", "gone": "/nowhere/at/all", "too long": "/" + strings.Repeat("x", 120)} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", dir)
			socket := admin.DefaultSocket()
			if filepath.Base(socket) != strconv.Itoa(os.Getpid())+".sock" {
				t.Errorf("DefaultSocket() = %s, want the process in its name", socket)
			}
			folders := admin.DefaultFolders()
			for _, f := range folders {
				if f == filepath.Dir(socket) {
					return
				}
			}
			t.Errorf("DefaultSocket() = %s, but the folders are %v", socket, folders)
		})
	}
}

func TestConfiguredFolderGivesEachServerItsSocket(t *testing.T) {
	dir, own := t.TempDir(), strconv.Itoa(os.Getpid())+".sock"
	for in, want := range map[string]string{
		dir:             filepath.Join(dir, own),
		dir + "/new/":   filepath.Join(dir, "new", own),
		dir + "/a.sock": dir + "/a.sock",
	} {
		if got := admin.SocketIn(in); got != want {
			t.Errorf("SocketIn(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestOddRequestsAreRefusedWithAReason(t *testing.T) {
	h := admin.NewHandler(admin.Subject{Drivers: newFakeDrivers(), Setup: fakeSetup{}})
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"no such thing":  {"GET", "/v2/server", "", 404, "no GET /v2/server"},
		"other method":   {"GET", "/v1/reload", "", 404, "no GET /v1/reload"},
		"unknown key":    {"POST", "/v1/reload", `{"driver": "x"}`, 400, "unknown field"},
		"not JSON":       {"POST", "/v1/reload", `reload!`, 400, "read the request"},
		"two documents":  {"POST", "/v1/rollback", `{} {}`, 400, "text after its end"},
		"huge":           {"POST", "/v1/reload", `{"drivers": ["` + strings.Repeat("x", 1<<20) + `"]}`, 400, "too large"},
		"negative lines": {"GET", "/v1/drivers/shell/logs?lines=-1", "", 400, `lines is \"-1\"`},
		"odd level":      {"GET", "/v1/logs?level=loud", "", 400, `level is \"loud\"`},
		"wordy lines":    {"GET", "/v1/drivers/shell/logs?lines=all", "", 400, `lines is \"all\"`},
		"empty body":     {"POST", "/v1/reload", "", 200, "again []"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
			b, _ := io.ReadAll(w.Result().Body)
			if w.Code != tc.status || !strings.Contains(string(b), tc.want) {
				t.Errorf("%s %s = %d %s, want %d and %q", tc.method, tc.path, w.Code, b, tc.status, tc.want)
			}
		})
	}
}

func TestNoAnswerIsAnErrorThatNamesTheSocket(t *testing.T) {
	socket := filepath.Join(shortDir(t), "1.sock")
	c := admin.NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Drivers(ctx); err == nil || !strings.Contains(err.Error(), socket) {
		t.Errorf("Drivers() = %v, want an error with %s", err, socket)
	}
}

func TestServersSayWhatTheyLogged(t *testing.T) {
	kept := new(admin.Log)
	log := slog.New(slog.NewJSONHandler(kept, nil))
	socket := filepath.Join(shortDir(t), "1.sock")
	s := admin.NewServer(socket, admin.Subject{Drivers: newFakeDrivers(), Setup: fakeSetup{}, Log: kept}, slog.New(slog.DiscardHandler))
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	c := admin.NewClient(socket)
	defer func() {
		c.Close()
		_ = s.Close()
	}()
	for i := range 1200 { // more than are kept
		log.Info("served", "n", i)
	}
	log.Warn("slow", "n", 1)

	read := func(n int, level slog.Level) (got []string) {
		t.Helper()
		err := c.ServerLogs(t.Context(), n, level, false, func(record json.RawMessage) error {
			got = append(got, messageOf(t, record))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got, want := read(3, slog.LevelInfo), []string{"served 1198", "served 1199", "slow 1"}; !slices.Equal(got, want) {
		t.Errorf("the last three are %q, want %q", got, want)
	}
	if got, want := read(3, slog.LevelWarn), []string{"slow 1"}; !slices.Equal(got, want) {
		t.Errorf("those from warn on are %q, want %q", got, want)
	}
	if got := read(5000, slog.LevelInfo); len(got) != 1000 || got[0] != "served 201" {
		t.Errorf("all that are kept are %d, the first %q, want 1000 from served 201", len(got), got[0])
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got []string
	err := c.ServerLogs(ctx, 1, slog.LevelWarn, true, func(record json.RawMessage) error {
		if got = append(got, messageOf(t, record)); len(got) == 1 {
			log.Info("served", "n", 2)
			log.Error("broken", "n", 3)
			return nil
		}
		stop()
		return nil
	})
	if want := []string{"slow 1", "broken 3"}; !errors.Is(err, context.Canceled) || !slices.Equal(got, want) {
		t.Errorf("following gives %q, %v, want %q until it is stopped", got, err, want)
	}
}

func messageOf(t *testing.T, record json.RawMessage) string {
	t.Helper()
	var r struct {
		Msg string `json:"msg"`
		N   int    `json:"n"`
	}
	if err := json.Unmarshal(record, &r); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(r.Msg, " ", r.N)
}
