package clients_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	find "github.com/kairos-mcp/kairos/e2e/programs"
)

// world is a database with the protocols that are played.
type world struct {
	kairos   string // the folder with KAIROS and the calendar
	database string
	url      string // of the server, if it serves HTTP
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{kairos: findPrograms(t), database: filepath.Join(t.TempDir(), "kairos.db")}
	w.run(t, "mint", "../protocols/shell.md", "../protocols/calendar-appointment.md", "../protocols/user-input.md", "testdata/files.md", "testdata/release.md")
	return w
}

func (w world) command(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(w.kairos, "kairos"), append([]string{"--db", w.database}, args...)...)
}

func (w world) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kairos %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// serve starts a server over HTTP on the database.
func (w *world) serve(t *testing.T) *find.Server {
	t.Helper()
	s := find.NewServer(t, t.TempDir())
	s.Command = w.command
	s.Start()
	t.Cleanup(func() { _ = s.Stop() }) // it may have been killed
	s.AwaitReady()
	w.url = s.URL() + "/mcp"
	return s
}
