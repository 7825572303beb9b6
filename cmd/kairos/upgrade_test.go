package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// TestAnOlderProgramRunsBesideThisOne starts the program as it was before the newest
// file of the schema was added, then this one on the same database, and plays the same
// runs at both, as during an upgrade of one server after the other.
func TestAnOlderProgramRunsBesideThisOne(t *testing.T) {
	if os.Getenv("KAIROS_SOAK") != "1" {
		t.Skip("SKIPPED: builds the program of an earlier commit; make soak runs it")
	}
	address, binary := postgrestest.Start(t).Database(t), olderProgram(t)
	folder := t.TempDir()
	keys := fmt.Sprintf("  state_key_file: %q\n", filepath.Join(folder, "state.key"))
	start := func(binary string) *program {
		s := &served{t: t, dir: t.TempDir(), binary: binary}
		s.write("kairos.yaml", fmt.Sprintf("database: %q\nadmin: {socket: run/admin.sock}\ndrivers: {dir: %q}\nmcp:\n  plain_wait: 5s\n%s", address, buildDrivers(t), keys))
		return programOf(s.startHTTP())
	}
	older := start(binary) // makes the database
	uri := older.mint(fmt.Sprintf(modelDoc, "Before the upgrade"))[0]
	newer := start("")
	for _, servers := range [][2]*program{{older, newer}, {newer, older}} {
		for _, era := range []string{legacyEra, modernEra} {
			first, second := &stage{servers[0].visit(t, era, hasBoth), t}, &stage{servers[1].visit(t, era, hasBoth), t}
			playsAtBoth(first, second, uri)
		}
		if newIndex(older) {
			continue
		}
		// A protocol that one stores is found by the other.
		title := fmt.Sprintf("Protocol of %s", servers[0].url)
		servers[0].mint(fmt.Sprintf(personDoc, title))
		choice := servers[1].rest("kairos_search", map[string]any{"query": title})["choices"].([]any)[0].(map[string]any)
		if choice["role"] != "match" {
			t.Errorf("search at the other server = %v, want a match", choice)
		}
	}
	if newIndex(older) {
		t.Log("this version has changed the search index: the older one plays runs, and mints nothing")
		newer.mint(fmt.Sprintf(personDoc, "After the upgrade"))
		return
	}
	// The older one can be started again, and finds nothing damaged.
	if err := older.stop(); err != nil {
		t.Fatalf("%v\n%s", err, older.lately())
	}
	again := start(binary)
	s := &stage{again.visit(t, modernEra, hasBoth), t}
	playsAtBoth(s, &stage{newer.visit(t, modernEra, hasBoth), t}, uri)
	for _, p := range []*program{again, newer} {
		if out, _ := p.program("doctor", "--deep").CombinedOutput(); !strings.Contains(string(out), "nothing is damaged") {
			t.Errorf("doctor --deep = %s", out)
		}
	}
}

// newIndex reports whether the older program mints nothing, because a newer one has
// changed the search index. Its log has the reason.
func newIndex(older *program) bool {
	doc := fmt.Sprintf(personDoc, "Minted by the older one")
	return strings.Contains(older.plain("kairos_mint", fmt.Sprintf(`{"markdown_doc":%q,"llm_model_id":"m","force_update":true}`, doc)).body, "it cannot be used")
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

// olderProgram builds the program of the commit before the newest file of the schema.
func olderProgram(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../core/store/postgres/schema/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("the schema is not there: %v", err)
	}
	root := filepath.Join("..", "..")
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %s: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	newest, err := filepath.Rel(root, files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	added := git("log", "--diff-filter=A", "--format=%H", "--", newest)
	if added == "" {
		t.Fatalf("%s is not committed", newest)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source.tar")
	git("archive", "--output", source, added+"^")
	binary := filepath.Join(dir, "kairos")
	for _, step := range [][]string{{"tar", "-xf", source}, {"go", "build", "-o", binary, "./cmd/kairos"}} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
	}
	return binary
}
