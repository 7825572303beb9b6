package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/api"
)

// commands is a server that may run commands on copies of a workspace.
type commands struct {
	*served
	port int // of a listener outside of KAIROS

	mu   sync.Mutex     // guards acts
	acts map[string]int // that the listener heard, by what was said
}

// withCommands starts no server yet. The settings are those of the driver, besides the
// workspace; more is the rest of the configuration.
func withCommands(t *testing.T, settings, more string) *commands {
	t.Helper()
	for _, program := range []string{"bwrap", "git", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s IS MISSING: what KAIROS runs itself is NOT TESTED", program)
		}
	}
	c := &commands{served: &served{t: t, dir: t.TempDir()}, acts: make(map[string]int)}
	// The account of commands passes through.
	if err := errors.Join(os.Chmod(filepath.Dir(c.dir), 0o711), os.Chmod(c.dir, 0o711), os.Mkdir(c.path("project"), 0o755)); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	c.put("main.txt", "one\n")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c.port = l.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if said, _ := io.ReadAll(conn); len(said) > 0 {
				c.mu.Lock()
				c.acts[strings.TrimSpace(string(said))]++
				c.mu.Unlock()
			}
			_ = conn.Close()
		}
	}()
	c.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\nadmin: {socket: off}\nmetrics: {listen: off}\n%sdrivers:\n  dir: %s\n  settings: {command: {env_from: [TMPDIR], config: {workspace: %q%s}}}\n",
		more, buildDrivers(t), c.path("project"), settings))
	return c
}

// put writes a file of the workspace.
func (c *commands) put(name, content string) {
	c.t.Helper()
	if err := os.WriteFile(c.path("project/"+name), []byte(content), 0o644); err != nil { //nolint:gosec // commands read it
		c.t.Fatal(err)
	}
}

// ships is a protocol of one step that has KAIROS run the command.
func ships(line string) string {
	shell, _ := json.Marshal(map[string]any{"challenge": map[string]any{"type": "shell", "evidence": "server", "shell": map[string]string{"cmd": line}}})
	return "# Ship\n\n## Ship\n\nShip it.\n\n```json\n" + string(shell) + "\n```\n"
}

// accepted mints a protocol that may run the command, and returns its address.
func (c *commands) accepted(line string) (uri string) {
	c.t.Helper()
	p := c.pipe(c.t, legacyEra, hasNothing)
	r := p.opens(ships(line))
	p.leave()
	if out, err := c.program("accept", r.CurrentStep.URI, "--yes").CombinedOutput(); err != nil {
		c.t.Fatalf("accept: %v\n%s", err, out)
	}
	return r.CurrentStep.URI
}

// ran has a command approved and run to its end.
func (c *commands) ran(line string) *api.StepReply {
	c.t.Helper()
	uri := c.accepted(line)
	p := c.pipe(c.t, legacyEra, hasForms)
	defer p.leave()
	r := p.begun(uri, "")
	p.approve(r)
	for {
		reply := p.approve(r)
		if reply.RetryAfter == nil || len(reply.Solved) > 0 {
			return reply
		}
	}
}

// acted is how often a command has acted until now. The listener hears one after the
// other, so it has heard all of them when it has heard what is said here.
func (c *commands) acted(what string) int {
	c.t.Helper()
	marks := c.heard("mark")
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.port))
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = io.WriteString(conn, "mark")
	if err := errors.Join(err, conn.Close()); err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); c.heard("mark") == marks; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatal("the listener hears nothing")
		}
	}
	return c.heard(what)
}

func (c *commands) heard(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acts[what]
}

// going is kairos_next until the command has ended, and how often the person approved.
func (p *piped) going(r *api.StepReply) (reply *api.StepReply, approvals int) {
	p.t.Helper()
	for {
		reply, n := p.next(r, "").approving()
		approvals += n
		if reply.ErrorCode != "" && reply.RetryAfter == nil || strings.Contains(reply.Message, "All steps are complete") {
			return reply, approvals
		}
	}
}

// Server and driver are killed while KAIROS runs a command that acts outside: it acts at
// most once for each approval, and a command that is reported did act.
func TestACommandActsAtMostOnceForAnApprovalWhateverIsKilled(t *testing.T) {
	t.Parallel()
	kills := 20
	if os.Getenv("KAIROS_SOAK") != "" {
		kills = 100
	}
	c := withCommands(t, ", network: host", "")
	// What is said tells the runs from one another: each has a workspace of its own.
	uri := c.accepted(fmt.Sprintf(`bash -c "cat main.txt >/dev/tcp/127.0.0.1/%d" && sleep 0.05`, c.port))
	outcomes, approved := map[string]int{}, map[string]int{}
	var open *api.StepReply // of the run that was cut short
	ended := func(p *piped, r *api.StepReply, who, what string) {
		reply, approvals := p.going(r)
		approved[what] += approvals
		outcomes[who+reply.ErrorCode]++
		if n := c.acted(what); reply.ErrorCode == "" && n == 0 {
			t.Fatalf("%s is solved, and it did not act", what)
		}
	}
	for i := range kills {
		p := c.pipe(t, legacyEra, hasForms)
		if open != nil {
			ended(p, open, "server: ", fmt.Sprint("run ", i-1))
		}
		what := fmt.Sprint("run ", i)
		c.put("main.txt", what+"\n")
		r := p.begun(uri, "")
		p.approve(r)
		approved[what]++
		k := p.next(r, "")
		<-time.After(time.Duration(i) * 400 * time.Millisecond / time.Duration(kills)) // the step takes about 300 ms
		if i%2 == 0 {
			p.kill()
			open = r
			continue
		}
		for _, pid := range processesOf(t, p.cmd.Process.Pid, "kairos-driver-command") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		done := k.step()
		if done.ErrorCode != "" || len(done.Solved) > 0 {
			outcomes["driver: "+done.ErrorCode]++
		} else {
			ended(p, r, "driver: ", what)
		}
		open = nil
		p.leave()
	}
	total := 0
	for i := range kills {
		what := fmt.Sprint("run ", i)
		n := c.acted(what)
		if total += n; n > approved[what] {
			t.Errorf("%s: it acted %d times on %d approvals", what, n, approved[what])
		}
	}
	t.Logf("%d kills, it acted %d times, outcomes %v", kills, total, outcomes)
}

// An account without rights runs commands in bubblewrap, at each isolation of drivers.
func TestCommandsRunForAnAccountWithoutRights(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, which can become another account")
	}
	const uid = 12345
	for _, isolation := range []string{"auto", "none"} {
		c := withCommands(t, "", "")
		c.uid = uid
		if builtIn != "" { // the account reaches the drivers
			if err := os.Chmod(builtIn, 0o711); err != nil { //nolint:gosec // see above
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(c.path("kairos.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		c.write("kairos.yaml", strings.Replace(string(b), "drivers:\n", "drivers:\n  isolation: "+isolation+"\n", 1))
		if out, err := exec.CommandContext(t.Context(), "chown", "-R", fmt.Sprint(uid), c.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := c.program("doctor").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the driver ran one") {
			t.Errorf("%s: doctor: %v\n%s", isolation, err, out)
		}
		if r := c.ran("id -u"); len(r.Solved) != 1 || !strings.Contains(string(r.Solved[0].Output), "12345") {
			t.Errorf("%s: %+v", isolation, r)
		}
	}
}

// The server's own files are in the workspace, where git ignores nothing.
func TestCommandsDoNotSeeTheServersFiles(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"auto", "none"} {
		c := withCommands(t, "", "")
		c.write("kairos.yaml", fmt.Sprintf("database: project/data/kairos.db\nadmin: {socket: project/run/admin.sock}\nmetrics: {listen: off}\ndrivers:\n  dir: %s\n  isolation: %s\n"+
			"  settings: {command: {config: {workspace: %q, read: [%q]}}}\n", buildDrivers(t), isolation, c.path("project"), c.dir))
		// Sockets of other servers, which are in a folder that the driver reads.
		if err := os.MkdirAll(c.path(fmt.Sprintf("kairos-%d", os.Getuid())), 0o700); err != nil {
			t.Fatal(err)
		}
		git := exec.CommandContext(t.Context(), "git", "init", "-q", c.path("project"))
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c.put(".gitignore", "data\nrun\n")
		line := fmt.Sprintf(`for f in data/* run/* %s/kairos.yaml; do if [ -s "$f" ] || [ -S "$f" ]; then echo "sees $f"; fi; done; cat main.txt`, c.dir)
		r := c.ran(line)
		if len(r.Solved) != 1 {
			t.Fatalf("%s: %+v", isolation, r)
		}
		if said := string(r.Solved[0].Output); strings.Contains(said, "sees") || !strings.Contains(said, "one") {
			t.Errorf("%s: %s", isolation, said)
		}
	}
}

// The disk of the copies is full: nothing is run, the step says why, and continues when
// there is room again.
func TestAFullDiskOfCopiesLosesNoStep(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,mode=0711"); err != nil {
		t.Skipf("NOT TESTED: a full disk. Mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Errorf("Unmount = %v", err)
		}
	})
	c := withCommands(t, "", "")
	c.tmp = disk // of the driver, too
	c.put("large", strings.Repeat("x", 5<<20))
	uri := c.accepted("cat main.txt")
	p := c.pipe(t, legacyEra, hasForms)
	defer p.leave()
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.begun(uri, "")
	p.approve(r)
	if said := p.approve(r); len(said.Solved) > 0 || !strings.Contains(said.Message, "no space left") {
		t.Errorf("on a full disk: %+v", said)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if r = p.approve(r); len(r.Solved) > 0 {
			return
		}
	}
	t.Errorf("after there was room again: %+v", r)
}
