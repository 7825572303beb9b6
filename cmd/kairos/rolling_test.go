package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// laterProgram builds this program with the next version of the search index.
func laterProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	declared, err := filepath.Abs("../../core/search/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(declared)
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^const Version = \d+$`)
	if !version.Match(source) {
		t.Fatalf("%s declares no Version", declared)
	}
	later := filepath.Join(dir, "doc.go")
	if err := os.WriteFile(later, version.ReplaceAll(source, []byte("const Version = "+strconv.Itoa(search.Version+1))), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{declared: later}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "kairos")
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the later program: %v\n%s", err, out)
	}
	return binary
}

// generations are programs of this version and of the next one on one database.
type generations struct {
	t              *testing.T
	address, later string
	more           string // of the configuration
}

func (g generations) start(binary string) *program {
	s := &served{t: g.t, dir: g.t.TempDir(), binary: binary}
	s.write("kairos.yaml", fmt.Sprintf("database: %q\nadmin: {socket: run/admin.sock}\ndrivers: {dir: %q}\nmcp:\n  plain_wait: 5s\n%s", g.address, buildDrivers(g.t), g.more))
	return programOf(s.startHTTP())
}

// search returns the title of the first match, empty if there is none, and the message.
func searchBy(p *program, query string) (title, message string) {
	reply := p.rest("kairos_search", map[string]any{"query": query})
	first := reply["choices"].([]any)[0].(map[string]any)
	message, _ = reply["message"].(string)
	if first["role"] == "match" {
		title, _ = first["chain_label"].(string)
	}
	return title, message
}

func wantFinds(t *testing.T, p *program, query, title string) {
	t.Helper()
	if got, message := searchBy(p, query); got != title {
		t.Errorf("search for %q = %q (%s), want %q\n%s", query, got, message, title, p.lately())
	}
}

// wantDegraded wants that the program says everywhere how its searches are.
func wantDegraded(t *testing.T, p *program) {
	t.Helper()
	const reason = "this program is older than the search index"
	if _, message := searchBy(p, "anything"); !strings.Contains(message, "different versions") {
		t.Errorf("message of a search = %q, want that the versions differ", message)
	}
	status, reply := p.request("GET", "/health", "", "")
	if details, _ := reply["details"].(map[string]any); status != 200 || reply["status"] != "degraded" || !strings.Contains(fmt.Sprint(details["search"]), reason) {
		t.Errorf("/health = %d %v, want degraded and the reason", status, reply)
	}
	if status, reply := p.request("GET", "/readyz", "", ""); status != 200 {
		t.Errorf("/readyz = %d %v, want 200", status, reply)
	}
	eventually(t, "`kairos status` says degraded", func() bool {
		out, err := p.program("status").CombinedOutput()
		return err == nil && strings.Contains(string(out), "degraded, ") && strings.Contains(string(out), reason)
	})
	if out, err := p.program("doctor").CombinedOutput(); err == nil || !strings.Contains(string(out), reason) {
		t.Errorf("doctor = %v\n%s\nwant the reason", err, out)
	}
}

// TestAnUpgradeChangesTheSearchIndex replaces one of two servers by the next version,
// whose search index is another one, while the other server serves calls and is restarted.
func TestAnUpgradeChangesTheSearchIndex(t *testing.T) {
	g := generations{t: t, address: postgrestest.Start(t).Database(t), later: laterProgram(t)}
	g.more = fmt.Sprintf("  state_key_file: %q\n", filepath.Join(t.TempDir(), "state.key"))
	older := g.start("")
	uri := older.mint(fmt.Sprintf(modelDoc, "Before the upgrade"))[0]
	newer := g.start(g.later)
	wantFinds(t, newer, "before the upgrade", "Before the upgrade")

	playsAtBoth(&stage{older.visit(t, legacyEra, hasBoth), t}, &stage{newer.visit(t, legacyEra, hasBoth), t}, uri)
	older.mint(fmt.Sprintf(personDoc, "Feed the herons"))
	wantFinds(t, newer, "herons", "Feed the herons")
	wantFinds(t, older, "herons", "Feed the herons")
	newer.mint(fmt.Sprintf(personDoc, "Feed the otters"))
	wantFinds(t, older, "otters", "Feed the otters")
	wantDegraded(t, older)

	// Also if nobody searches.
	older.mint(fmt.Sprintf(personDoc, "Feed the pelicans"))
	eventually(t, "the newer server to index it", func() bool {
		return postgrestest.Execute(t.Context(), g.address, `DO $$ BEGIN
			IF EXISTS (SELECT 1 FROM unindexed) THEN RAISE EXCEPTION 'a protocol is not indexed'; END IF;
		END $$`) == nil
	})

	if err := older.stop(); err != nil {
		t.Fatalf("%v\n%s", err, older.lately())
	}
	again := g.start("")
	playsAtBoth(&stage{newer.visit(t, modernEra, hasBoth), t}, &stage{again.visit(t, modernEra, hasBoth), t}, uri)
	again.mint(fmt.Sprintf(personDoc, "Feed the walruses"))
	wantFinds(t, newer, "walruses", "Feed the walruses")
	wantDegraded(t, again)
	if out, _ := newer.program("doctor", "--deep").CombinedOutput(); !strings.Contains(string(out), "nothing is damaged") || strings.Contains(string(out), "search index") {
		t.Errorf("doctor --deep of the newer program = %s", out)
	}
	if builds := strings.Count(newer.stderr.String(), "building the search index"); builds != 1 {
		t.Errorf("the newer server built the index %d times, want once\n%s", builds, newer.stderr.String())
	}
	if log := again.stderr.String(); strings.Contains(log, "building the search index") {
		t.Errorf("the older server built the index:\n%s", log)
	}
}

// TestGoingBackToAnEarlierVersion starts this program on the file of the next one.
func TestGoingBackToAnEarlierVersion(t *testing.T) {
	g := generations{t: t, address: filepath.Join(t.TempDir(), "kairos.db"), later: laterProgram(t)}
	newer := g.start(g.later)
	newer.mint(fmt.Sprintf(personDoc, "Feed the herons"))
	if err := newer.stop(); err != nil {
		t.Fatalf("%v\n%s", err, newer.lately())
	}
	older := g.start("")
	wantFinds(t, older, "herons", "Feed the herons")
	older.mint(fmt.Sprintf(personDoc, "Feed the otters"))
	wantFinds(t, older, "otters", "Feed the otters")
	wantDegraded(t, older)
	if err := older.stop(); err != nil {
		t.Fatalf("%v\n%s", err, older.lately())
	}
	again := g.start(g.later)
	wantFinds(t, again, "otters", "Feed the otters")
	if _, message := searchBy(again, "herons"); strings.Contains(message, "different versions") {
		t.Errorf("message = %q, want nothing about versions", message)
	}
}

// playsAtBoth begins a run at the first server, continues it at the second one, and so on.
func playsAtBoth(first, second *stage, uri string) {
	first.t.Helper()
	k := first.call("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri))
	k.answer(k.ask("sampling/createMessage"), says(`{"name":"Ada"}`))
	r := k.step()
	k = second.next(r, "")
	q := k.ask("sampling/createMessage")
	if second.era == modernEra { // what one has asked the other can be told
		k.mcpClient = first.mcpClient
	}
	k.answer(q, says(`{"told":true}`))
	r = k.step()
	k = first.next(r, "")
	k.answer(k.ask("elicitation/create"), filled(yes))
	r = k.step()
	k = second.submit(r, "shell", `{"exit_code":0}`)
	if a := first.attest(k.step()); !a.Verified {
		first.t.Errorf("a run at both servers: %+v", a)
	}
}
