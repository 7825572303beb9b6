package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/server/admin"
	"github.com/kairos-mcp/kairos/core/setup"
)

// callerMode makes this test binary call the server at a socket, as a process
// that a driver starts would.
const callerMode = "KAIROS_TEST_ADMIN_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(callerMode); socket != "" {
		_, err := admin.NewClient(socket).Server(context.Background())
		fmt.Println(err)
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeDrivers holds lines of one driver and gives new ones to who follows.
type fakeDrivers struct {
	mu    sync.Mutex // guards the fields below
	lines []driverhost.Line
	more  chan struct{} // closed and replaced when a line is added
}

func newFakeDrivers(texts ...string) *fakeDrivers {
	f := &fakeDrivers{more: make(chan struct{})}
	for _, text := range texts {
		f.say(text)
	}
	return f
}

func (f *fakeDrivers) say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, driverhost.Line{Stream: "stderr", Text: text, Generation: 1})
	close(f.more)
	f.more = make(chan struct{})
}

func (f *fakeDrivers) after(n int) ([]driverhost.Line, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines[n:], f.more
}

func (f *fakeDrivers) Status() []driverhost.Status {
	return []driverhost.Status{{Name: "shell", Version: "1.2.3", Generation: 4}}
}

func (f *fakeDrivers) StatusOf(name string) (driverhost.Status, bool) {
	return f.Status()[0], name == "shell"
}

func (f *fakeDrivers) Logs(_ string, n int) []driverhost.Line {
	all, _ := f.after(0)
	return all[max(0, len(all)-n):]
}

func (f *fakeDrivers) FollowLogs(ctx context.Context, name string, n int, emit func(driverhost.Line) error) error {
	all, _ := f.after(0)
	for at := max(0, len(all)-n); ; {
		fresh, more := f.after(at)
		for _, line := range fresh {
			if err := emit(line); err != nil {
				return err
			}
		}
		at += len(fresh)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

// fakeSetup changes nothing and says what it was asked.
type fakeSetup struct {
	refuses bool          // knob: every change is refused
	hangs   chan struct{} // knob: closed when a reload began that ends only with its context
}

func (f fakeSetup) Reload(ctx context.Context, again ...string) (setup.Report, error) {
	if f.hangs != nil {
		close(f.hangs)
		<-ctx.Done()
		return setup.Report{}, ctx.Err()
	}
	if f.refuses {
		return setup.Report{}, errors.New("driver shell: its binary is not the locked one")
	}
	return setup.Report{Warnings: []string{fmt.Sprint("again ", again)}}, nil
}

func (f fakeSetup) Rollback(context.Context) (setup.Report, error) {
	if f.refuses {
		return setup.Report{}, errors.New("there is nothing to go back to")
	}
	return setup.Report{Warnings: []string{"went back"}}, nil
}

// shortDir is a private folder whose path leaves room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "kairos-admin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "private")
}

// serve listens on the socket until the test ends.
func serve(t *testing.T, socket string, drivers admin.Drivers, setup admin.Setup) *admin.Client {
	t.Helper()
	info := admin.Info{PID: os.Getpid(), Version: "v9", StartedAt: time.Unix(1, 0).UTC(), DriversDir: "/drivers"}
	s := admin.NewServer(socket, admin.Subject{Info: info, Drivers: drivers, Setup: setup}, slog.New(slog.DiscardHandler))
	if err := s.Listen(); err != nil {
		t.Fatalf("Listen: %v", err)
	}
	c := admin.NewClient(socket)
	t.Cleanup(func() {
		c.Close()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// newServer is a server that does not listen yet.
func newServer(socket string) *admin.Server {
	return admin.NewServer(socket, admin.Subject{Drivers: newFakeDrivers(), Setup: fakeSetup{}}, slog.New(slog.DiscardHandler))
}
