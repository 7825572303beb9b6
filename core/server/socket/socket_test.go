package socket_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/server/socket"
)

func TestCloseEndsOpenRequests(t *testing.T) {
	at := filepath.Join(shortDir(t), "1.sock")
	hangs := make(chan struct{})
	s := socket.NewServer(at, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(hangs)
		<-r.Context().Done()
	}), nil, slog.New(slog.DiscardHandler))
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	c, err := socket.NewClient(at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	called := make(chan error, 1)
	go func() {
		_, err := show(context.Background(), c)
		called <- err
	}()
	<-hangs
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-called; err == nil {
		t.Error("a call that was cut off reports success")
	}
	if _, err := os.Lstat(at); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := s.Listen(); err == nil {
		t.Error("Listen after Close works")
	}
	if err := newServer(at).Close(); err != nil {
		t.Errorf("Close before Listen: %v", err)
	}
	if _, err := show(t.Context(), c); err == nil || !strings.Contains(err.Error(), at) {
		t.Errorf("a call without a server = %v, want an error with %s", err, at)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	dir := shortDir(t)
	at := filepath.Join(dir, "1.sock")
	serve(t, at)
	for path, want := range map[string]os.FileMode{dir: 0o700, at: 0o600} {
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
			s := newServer(tc.socket)
			if err := s.Listen(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Listen = %v, want something about %q", err, tc.want)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	if found, err := socket.Find(t.Context(), open, link); err == nil || len(found) > 0 {
		t.Errorf("Find in folders of that kind = %v, %v, want a refusal", found, err)
	}
}

func TestDeadServersSocketsAreRemovedAndLivingOnesKept(t *testing.T) {
	dir := shortDir(t)
	living := filepath.Join(dir, "77.sock")
	c := serve(t, living)
	leave(t, filepath.Join(dir, "4194305.sock")) // of no process: larger than Linux counts
	leave(t, filepath.Join(dir, strconv.Itoa(os.Getppid())+".sock"))
	leave(t, filepath.Join(dir, "somebody-elses.sock"))
	if found, err := socket.Find(t.Context(), dir); err != nil || len(found) != 1 || found[0].Socket != living {
		t.Errorf("Find = %+v, %v, want the living one", found, err)
	} else {
		found[0].Close()
	}

	serve(t, filepath.Join(dir, "2.sock"))
	var left []string
	sockets, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, s := range sockets {
		left = append(left, filepath.Base(s))
	}
	want := []string{"2.sock", "77.sock", strconv.Itoa(os.Getppid()) + ".sock", "somebody-elses.sock"}
	slices.Sort(want)
	slices.Sort(left)
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("sockets left (-want +got):\n%s", diff)
	}
	if _, err := show(t.Context(), c); err != nil {
		t.Errorf("the living server is cut off: %v", err)
	}

	second := newServer(living)
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "another server listens there") {
		t.Errorf("Listen on a living server's socket = %v", err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := show(t.Context(), c); err != nil {
		t.Errorf("the living server is cut off: %v", err)
	}
}

// leave makes a socket as a server leaves it that was killed.
func leave(t *testing.T, at string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
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
	at := filepath.Join(dir, "1.sock")
	serve(t, at)
	found, err := socket.Find(t.Context(), dir, at, filepath.Join(dir, "nothing"))
	if err != nil || len(found) != 1 || found[0].PID != os.Getpid() {
		t.Fatalf("Find = %+v, %v, want this process once", found, err)
	}
	found[0].Close()
}

func TestDefaultSocketIsOneOfThoseThatAreLookedAt(t *testing.T) {
	for name, dir := range map[string]string{"set": t.TempDir(), "unset": "", "gone": "/nowhere/at/all", "too long": "/" + strings.Repeat("x", 120)} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", dir)
			at := socket.DefaultSocket()
			if filepath.Base(at) != strconv.Itoa(os.Getpid())+".sock" {
				t.Errorf("DefaultSocket() = %s, want the process in its name", at)
			}
			folders := socket.DefaultFolders()
			for _, f := range folders {
				if f == filepath.Dir(at) {
					return
				}
			}
			t.Errorf("DefaultSocket() = %s, but the folders are %v", at, folders)
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
		if got := socket.In(in); got != want {
			t.Errorf("In(%s) = %s, want %s", in, got, want)
		}
	}
}

// Programs that tidy the temporary folder remove what is old in it.
func TestASocketThatWasRemovedIsPutBack(t *testing.T) {
	around := shortDir(t)
	at := filepath.Join(around, "kairos", "1.sock")
	s := newServer(at)
	s.LooksEvery(time.Millisecond)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	for _, away := range []string{"first", "second"} {
		// The folder goes at once: the server puts files back into one that is being emptied.
		if err := os.Rename(filepath.Dir(at), filepath.Join(around, away)); err != nil {
			t.Fatal(err)
		}
		for {
			if conn, err := new(net.Dialer).DialContext(t.Context(), "unix", at); err == nil {
				_ = conn.Close()
				break
			}
			if t.Context().Err() != nil {
				t.Fatal("the socket is not put back")
			}
			time.Sleep(time.Millisecond)
		}
	}
	c, err := socket.NewClient(at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if info, err := show(t.Context(), c); err != nil || info.PID != os.Getpid() {
		t.Errorf("the server at the new socket: %+v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(at), "1.*")); err != nil || len(left) > 0 {
		t.Errorf("Close leaves %v, %v", left, err)
	}
}
