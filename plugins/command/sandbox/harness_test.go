package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is in everything that no command may read.
const canary = "canary-7f3a91"

// outside is a machine around a sandbox: secrets, files of others, a program of
// the server's account, and listeners. It tells what a command did to it.
type outside struct {
	t       *testing.T
	dir     string // may be read, except what is masked
	sandbox Sandbox
	command Command

	tcp, abstract net.Listener
	udp           net.PacketConn
	heard, marks  atomic.Int64 // what was said to them by others, and by hearAll
	victim        *exec.Cmd
	before        map[string]string
}

// works is why commands cannot be run here, or nil.
var works = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "kairos-sandbox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err = (Sandbox{}).Hand(dir); err == nil {
		_, err = Sandbox{}.Run(context.Background(), Command{Line: "true", Files: dir, Workspace: "/workspace"})
	}
	return err
})

// needsSandbox says loudly why nothing can be tested.
func needsSandbox(t testing.TB) {
	t.Helper()
	err := works()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("THE SANDBOX DOES NOT WORK HERE, and CI has to test it: %v", err)
	}
	t.Skipf("THE SANDBOX IS NOT TESTED, because it does not work on this machine: %v", err)
}

// openDir is a folder that other accounts can reach: the command may have one.
func openDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { //nolint:gosec // other accounts reach it
		t.Fatal(err)
	}
	return dir
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	needsSandbox(t)
	base := openDir(t)
	o := &outside{t: t, dir: filepath.Join(base, "machine")}
	for name, content := range map[string]string{
		".ssh/id_ed25519": canary, "server/kairos.db": canary, "server/state.key": canary, "server/drivers.lock": canary,
		"kairos.yaml": canary, "project/Makefile": "all:\n", "project/data/token": canary, "project/.git/config": "[core]\n",
		"other/notes.txt": "readable\n", "other/report.txt": "of somebody else\n",
	} {
		o.write(name, content)
	}
	o.victim = exec.CommandContext(t.Context(), "sleep", "3600")
	o.victim.Env = []string{"SECRET=" + canary}
	if err := o.victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.victim.Process.Kill(); _ = o.victim.Wait() })
	o.listen()
	if err := os.Symlink(filepath.Join(o.dir, ".ssh"), filepath.Join(o.dir, "project/.git/objects")); err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(base, "copy")
	if err := os.CopyFS(files, os.DirFS(filepath.Join(o.dir, "project"))); err != nil {
		t.Fatal(err)
	}
	o.command = Command{Files: files, Workspace: filepath.Join(o.dir, "project")}
	o.sandbox = Sandbox{
		Read:   []string{o.dir},
		Mask:   []string{filepath.Join(o.dir, ".ssh"), filepath.Join(o.dir, "server"), filepath.Join(o.dir, "kairos.yaml"), filepath.Join(o.dir, "project/data/token"), filepath.Join(o.dir, "missing")},
		Limits: Limits{Time: 20 * time.Second, MemoryMiB: 256, Processes: 64, FileMiB: 8, DiskMiB: 32, OutputKiB: 64},
	}
	if err := o.sandbox.Hand(files); err != nil {
		t.Fatal(err)
	}
	o.before = o.state()
	return o
}

func (o *outside) write(name, content string) {
	o.t.Helper()
	path := filepath.Join(o.dir, name)
	// Files are open to every account, so that only the sandbox protects them.
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(content), 0o666)); err != nil { //nolint:gosec // as above
		o.t.Fatal(err)
	}
	for at := path; at != filepath.Dir(o.dir); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o777); err != nil { //nolint:gosec // as above
			o.t.Fatal(err)
		}
	}
}

// mark is what hearAll says.
const mark = "mark"

func (o *outside) hear(said string) {
	if said == mark {
		o.marks.Add(1)
	} else {
		o.heard.Add(1)
	}
}

// listen counts whoever gets through.
func (o *outside) listen() {
	o.t.Helper()
	var err error
	if o.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		o.t.Fatal(err)
	}
	if o.abstract, err = net.Listen("unix", fmt.Sprintf("@kairos-probe-%d", os.Getpid())); err != nil {
		o.t.Fatal(err)
	}
	if o.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		o.t.Fatal(err)
	}
	for _, l := range []net.Listener{o.tcp, o.abstract} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				said, _ := io.ReadAll(c)
				o.hear(string(said))
				_ = c.Close()
			}
		}()
	}
	go func() {
		b := make([]byte, 100)
		for {
			n, _, err := o.udp.ReadFrom(b)
			if err != nil {
				return
			}
			o.hear(string(b[:n]))
		}
	}()
	o.t.Cleanup(func() { _ = errors.Join(o.tcp.Close(), o.abstract.Close(), o.udp.Close()) })
}

// hearAll returns when the listeners have heard what came until now: each of them hears
// one after the other, and last what is said here, which does not count.
func (o *outside) hearAll() {
	o.t.Helper()
	o.marks.Store(0)
	for _, to := range []net.Addr{o.tcp.Addr(), o.abstract.Addr(), o.udp.LocalAddr()} {
		conn, err := net.Dial(to.Network(), to.String())
		if err != nil {
			o.t.Fatal(err)
		}
		if _, err := conn.Write([]byte(mark)); err != nil {
			o.t.Fatal(err)
		}
		_ = conn.Close()
	}
	for deadline := time.Now().Add(time.Minute); o.marks.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			o.t.Fatal("the listeners do not hear within a minute")
		}
	}
}

// state is every file with its content and mode.
func (o *outside) state() map[string]string {
	o.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(o.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := []byte{}
		if d.Type().IsRegular() {
			content, err = os.ReadFile(path)
		}
		all[path] = fmt.Sprintf("%v %s", info.Mode(), content)
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return all
}

// harm says what a command did that it must not be able to do; empty: nothing.
func (o *outside) harm(res Result, survivor string) (harm []string) {
	if strings.Contains(res.Stdout.Text+res.Stderr.Text, canary) {
		harm = append(harm, "it read a secret")
	}
	_ = filepath.WalkDir(o.command.Files, func(path string, d fs.DirEntry, _ error) error {
		if d == nil || !d.Type().IsRegular() || strings.HasSuffix(path, "data/token") {
			return nil // the copy has its own
		}
		if b, _ := os.ReadFile(path); bytes.Contains(b, []byte(canary)) {
			harm = append(harm, "it copied a secret to "+path)
		}
		return nil
	})
	now := o.state()
	for path, was := range o.before {
		if now[path] != was {
			harm = append(harm, "it changed "+path)
		}
	}
	for path := range now {
		if _, was := o.before[path]; !was {
			harm = append(harm, "it made "+path)
		}
	}
	if n := o.heard.Load(); n > 0 {
		harm = append(harm, fmt.Sprintf("it was heard %d times outside", n))
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.victim.Process.Pid)); err != nil || strings.Contains(string(stat), ") Z ") {
		harm = append(harm, "it ended a process outside")
	}
	if pids := running(survivor); len(pids) > 0 {
		harm = append(harm, fmt.Sprintf("it runs on: %v", pids))
	}
	return harm
}

// running lists the processes of the machine whose command line has the text.
func running(text string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if line, _ := os.ReadFile(path); bytes.Contains(line, []byte(text)) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}
