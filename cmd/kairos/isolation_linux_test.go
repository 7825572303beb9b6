package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// spy is a driver in Python on the exec transport. It rejects when it can open what it
// must not see, or cannot open what it may, and says which.
const spy = `#!/usr/bin/env python3
import json, os, socket, sys, tempfile
if sys.argv[1:] == ["--describe"] or sys.argv[1:] == ["--call", "Describe"]:
    print(json.dumps({"name": "spy", "version": "1.0.0", "role": "challenge", "handles": ["spy"], "effect": "pure", "transport": "exec"}))
elif sys.argv[2] != "Advance":
    print(json.dumps({"healthy": True} if sys.argv[2] == "CheckHealth" else {}))
else:
    request = json.load(sys.stdin)
    if not request.get("answers"):
        print(json.dumps({"need_input": [{"id": "evidence", "kind": "evidence", "type": "spy", "description": "Say done.", "display": {}, "approval": "auto"}]}))
        sys.exit()
    asked = request["challenge"].get("spy", request["challenge"])
    wrong = []
    def opens(path, how):
        try:
            os.close(os.open(path, how))
            return os.stat(path).st_rdev != os.makedev(1, 3)
        except OSError:
            return False
    for path in asked["never"]:
        for how in (os.O_RDONLY, os.O_WRONLY):
            if opens(path, how):
                wrong.append("opened " + path)
        try:
            os.rename("/etc/hosts", path)
            wrong.append("replaced " + path)
        except OSError:
            pass
    wrong += ["not opened " + path for path in asked["may"] if not opens(path, os.O_RDONLY)]
    wrong += ["changed " + path for path in asked["may"] if opens(path, os.O_WRONLY)]
    socket.getaddrinfo("localhost", 80)
    with tempfile.TemporaryFile() as f:
        f.write(b"x")
    try:
        os.kill(os.getppid() or 2, 0)
        wrong.append("signals %d" % os.getppid())
    except OSError:
        pass
    print(json.dumps({"rejected": {"code": "REACHED", "message": "; ".join(wrong)}} if wrong else {"accepted": {"proof": {"looked": len(asked["never"])}}}))
`

// nodeServer is an MCP server that npx starts. Its tool says whether it can open a file.
const nodeServer = `#!/usr/bin/env node
const fs = require("fs");
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const m = JSON.parse(line);
  if (m.id === undefined) return;
  let result = {};
  if (m.method === "initialize") result = {protocolVersion: m.params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "look", version: "1"}};
  if (m.method === "tools/list") result = {tools: [{name: "look", description: "opens a file", inputSchema: {type: "object", properties: {path: {type: "string"}}, required: ["path"]}, annotations: {readOnlyHint: true}}]};
  if (m.method === "tools/call") {
    let said = "refused";
    try { fs.readFileSync(m.params.arguments.path); said = "opened" } catch (e) { }
    result = {content: [{type: "text", text: said}], structuredContent: {said}};
  }
  process.stdout.write(JSON.stringify({jsonrpc: "2.0", id: m.id, result}) + "\n");
});
`

// guarded is an installation of one account, in which the program is run.
type guarded struct {
	t       *testing.T
	dir     string
	account int
}

func newGuarded(t *testing.T, account int, level string) guarded {
	t.Helper()
	dir, err := os.MkdirTemp("", "kairos-guarded-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := guarded{t, dir, account}
	if out, err := exec.Command("cp", "-r", buildDrivers(t), g.at("drivers")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	g.write("bin/kairos", string(program), 0o755)
	g.write("drivers/kairos-driver-spy", spy, 0o755)
	g.write("kairos.yaml", "database: data/kairos.db\nmetrics: {listen: off}\nadmin: {socket: admin/}\nlog: {level: error}\n"+
		"drivers:\n  dir: drivers\n  isolation: "+level+"\n  settings:\n    spy: {folders: ["+g.at("declared")+"]}\n"+
		"    command: {config: {workspace: "+g.at("project")+"}}\n", 0o600)
	g.write("declared/file", "x", 0o600)
	g.write("project/main.txt", "x", 0o600)
	g.write("home/.ssh/id_ed25519", "x", 0o600)
	g.write("pkg/package.json", `{"name": "look", "version": "1.0.0", "bin": {"look": "server.js"}}`, 0o644)
	g.write("pkg/server.js", nodeServer, 0o755)
	g.own()
	g.kairos("driver", "lock", "drivers")
	return g
}

func (g guarded) at(name string) string { return filepath.Join(g.dir, name) }

func (g guarded) write(name, text string, mode os.FileMode) {
	g.t.Helper()
	err := os.MkdirAll(filepath.Dir(g.at(name)), 0o700)
	if err == nil {
		err = os.WriteFile(g.at(name), []byte(text), mode)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// own gives everything to the account.
func (g guarded) own() {
	g.t.Helper()
	if out, err := exec.Command("chown", "-R", fmt.Sprint(g.account), g.dir).CombinedOutput(); err != nil {
		g.t.Fatalf("%v: %s", err, out)
	}
}

// kairos runs a command that must succeed.
func (g guarded) kairos(args ...string) string {
	g.t.Helper()
	said, err := g.tries(args...)
	if err != nil {
		g.t.Fatalf("kairos %q: %v\n%s", args, err, said)
	}
	return said
}

// tries runs a command.
func (g guarded) tries(args ...string) (string, error) {
	cmd := exec.Command(g.at("bin/kairos"), args...)
	cmd.Dir, cmd.Stdin = g.at("project"), strings.NewReader("once\n")
	if args[0] == "driver" {
		cmd.Dir = g.dir
	}
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + g.at("home"), "KAIROS_CONFIG=" + g.at("kairos.yaml")}
	if g.account != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(g.account), Gid: uint32(g.account)}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// saves makes a backup, which takes the place of the database, an export of a run, which
// is signed by a new key, and rotates the key of the state.
func (g guarded) saves() {
	g.t.Helper()
	g.write("backups/.keep", "", 0o600)
	g.write("exports/.keep", "", 0o600)
	g.own()
	g.kairos("db", "backup", g.at("backups/copy.db"))
	run := regexp.MustCompile(`kairos runs show ([0-9a-f]{8})`).FindStringSubmatch(g.spies("to be exported"))
	if run == nil {
		g.t.Fatal("no run to export")
	}
	g.kairos("runs", "export", run[1], "--file", g.at("exports/run.json"))
	for _, name := range []string{"kairos.db-wal", "kairos.db-shm"} {
		_ = os.Remove(g.at("data/" + name)) // the last one who closed it may have done so
	}
	copied, err := os.ReadFile(g.at("backups/copy.db"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.write("data/restored.db", string(copied), 0o600)
	if err := errors.Join(os.Rename(g.at("data/restored.db"), g.at("data/kairos.db")), os.Remove(g.at("data/state.key"))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.t.Fatal(err)
	}
	g.own()
}

// spies runs a protocol whose step is judged by the spy, and returns what was said.
func (g guarded) spies(when string) string {
	g.t.Helper()
	never := []string{"/etc/shadow"}
	for _, name := range []string{
		"data/kairos.db", "data/kairos.db-wal", "data/kairos.db-shm", "data/kairos.db.lock", "data/state.key", "data/signing.key", "data/tools.json", "data",
		"kairos.yaml", "drivers/drivers.lock", "drivers/kairos-driver-shell", "admin", "home/.ssh/id_ed25519", "backups/copy.db", "exports/run.json", "project/main.txt",
	} {
		never = append(never, g.at(name))
	}
	asked, err := json.Marshal(map[string]any{"challenge": map[string]any{"type": "spy", "spy": map[string]any{
		"never": never, "may": []string{g.at("declared/file"), "/etc/resolv.conf", "/etc/passwd", "/usr/bin/env"},
	}}})
	if err != nil {
		g.t.Fatal(err)
	}
	g.write("spy.md", "# Spy "+when+"\n\n## Look\n\nLook.\n\n```json\n"+string(asked)+"\n```\n", 0o644)
	g.own()
	said := g.kairos("run", g.at("spy.md"), "--script", g.at("write.yaml"), "--without", "elicitation,sampling")
	if !strings.Contains(said, "verified") {
		g.t.Errorf("%s: %s", when, said)
	}
	return said
}

// A driver in Python sees nothing of its server, at whatever level and of whatever
// account, while the drivers and tools that work with files do.
func TestDriversSeeWhatTheyNeedAndNothingOfTheServer(t *testing.T) {
	long(t)
	t.Parallel()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("PYTHON IS MISSING: what drivers see of their server is NOT TESTED: install python3")
	}
	accounts := map[string]int{"own account": os.Geteuid()}
	if os.Geteuid() == 0 {
		accounts["nobody"] = 65534
	}
	for name, account := range accounts {
		for _, level := range []string{"namespace", "landlock"} {
			t.Run(name+", "+level, func(t *testing.T) {
				g := newGuarded(t, account, level)
				g.write("write.yaml", "rules: [{on: comment, answer: done}, {on: evidence, answer: {done: true}}]\n", 0o644)
				g.spies("at first")
				g.saves()
				g.write("files.md", "# Files\n\n## Look\n\nWrite it.\n\n```json\n"+
					`{"challenge":{"type":"comment","files":[{"path":"main.txt","contains":"x"}],"comment":{"min_length":1}}}`+"\n```\n", 0o644)
				g.own()
				if said := g.kairos("run", g.at("files.md"), "--script", g.at("write.yaml"), "--without", "elicitation,sampling"); !strings.Contains(said, "its files: the server via roots") {
					t.Errorf("files of the client's root: %s", said)
				}
				g.spies("after a backup")
				if level == "namespace" {
					g.commands()
					g.tools()
					g.spies("with tools")
				}
				if said := g.kairos("doctor"); !strings.Contains(said, "own files and folders can be opened; the home folder is hidden") {
					t.Errorf("doctor: %s", said)
				}
			})
		}
	}
}

// commands run in bubblewrap, inside of the namespaces of their driver.
func (g guarded) commands() {
	g.t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		g.t.Log("BUBBLEWRAP IS MISSING: commands are NOT TESTED")
		return
	}
	if said := g.kairos("doctor"); !strings.Contains(said, "the driver ran one, on a copy of "+g.at("project")) {
		g.t.Errorf("doctor: %s", said)
	}
}

// tools are called through a server that npx starts. One that cannot start where the driver is
// confined is not added, although it starts at a terminal.
func (g guarded) tools() {
	g.t.Helper()
	const needsHome = `cat "$HOME/.ssh/id_ed25519" >/dev/null || exit 3; exec cat`
	said, err := g.tries("tools", "add", "needs", "--yes", "--", "sh", "-c", needsHome)
	for _, want := range []string{"exit code 3", "it said: cat: ", "No such file", "drivers.settings.tools.folders"} {
		if err == nil || !strings.Contains(said, want) {
			g.t.Errorf("tools add says %s, %v, want %q", said, err, want)
		}
	}
	if _, err := os.Stat("/usr/bin/npx"); err != nil {
		g.t.Log("NPX IS MISSING: a tool server in Node.js is NOT TESTED")
		return
	}
	g.kairos("tools", "add", "look", "--yes", "--", "npx", "--offline", "--yes", g.at("pkg"))
	for path, want := range map[string]string{g.at("pkg/package.json"): "opened", g.at("data/kairos.db"): "refused", g.at("home/.ssh/id_ed25519"): "refused", "/etc/passwd": "opened"} {
		g.write("tool.md", "# Tool\n\n## Look\n\nLook.\n\n```json\n"+
			fmt.Sprintf(`{"challenge":{"type":"mcp","evidence":"server","mcp":{"tool_name":"look","arguments":{"path":%q},"expected_result":{"said":%q}}}}`, path, want)+"\n```\n", 0o644)
		g.own()
		if said := g.kairos("run", g.at("tool.md")); !strings.Contains(said, "verified: 1 step seen by KAIROS") {
			g.t.Errorf("%s: %s", path, said)
		}
	}
}
