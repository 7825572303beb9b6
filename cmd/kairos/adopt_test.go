package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// actOnce is a protocol whose step is done by a driver once somebody has accepted it.
const actOnce = "# Act\n\n## Run\n\nrun it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n"

var (
	uriOf   = regexp.MustCompile(`kairos://mem/[0-9a-f-]{36}`)
	runIDOf = regexp.MustCompile(`"run_id": ?"([0-9a-f-]{36})"`)
)

// began begins a run and returns its id and the URI of its protocol.
func (b *program) began(uri string, headers map[string]string) (id string) {
	b.t.Helper()
	a := b.do("POST", "/api/kairos_begin", `{"uri":"`+uri+`"}`, headers)
	found := runIDOf.FindStringSubmatch(a.body)
	if a.status != http.StatusOK || found == nil {
		b.t.Fatalf("begin %s = %d %s", uri, a.status, a.body)
	}
	return found[1]
}

// resumes reports whether a caller can continue the run.
func (b *program) resumes(uri, id string, headers map[string]string) bool {
	b.t.Helper()
	a := b.do("POST", "/api/kairos_begin", `{"uri":"`+uri+`","session_id":"`+id+`"}`, headers)
	return a.status == http.StatusOK && strings.Contains(a.body, id)
}

func (b *program) prints(want string, args ...string) {
	b.t.Helper()
	if out := b.command("", args...); !strings.Contains(out, want) {
		b.t.Errorf("kairos %s printed %s, want %q", strings.Join(args, " "), out, want)
	}
}

func TestWhatWasLocalIsAdopted(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	b.write("act.md", actOnce)
	uri := uriOf.FindString(b.command("", "mint", b.path("act.md"), "-o", "json"))
	if uri == "" {
		t.Fatal("nothing was minted")
	}
	if err := os.Mkdir(b.path("work"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("accepting.yaml", "database: data/kairos.db\nadmin: {socket: run/admin.sock}\ndrivers: {dir: "+buildDrivers(t)+", settings: {command: {config: {workspace: "+b.path("work")+"}}}}\n")
	b.prints("accepted", "--config", b.path("accepting.yaml"), "accept", uri, "--yes")
	begun := b.command("", "runs", "begin", uri, "-o", "json")
	found := runIDOf.FindStringSubmatch(begun)
	if found == nil {
		t.Fatalf("runs begin printed %s", begun)
	}
	id := found[1]
	_, ada := b.tokenOf("user:acme:ada")
	if b.resumes(uri, id, with(ada)) {
		t.Fatal("ada resumes a run of local")
	}
	adopt := func(from, to string, more ...string) []string {
		return append([]string{"identity", "adopt", "--from", from, "--to", to}, more...)
	}
	for _, tc := range []struct{ from, to, says string }{
		{"local", "user:ada", "user:REALM:NAME"},
		{"local", "group:acme:sre", "names no person and no space"},
		{"local", "space:nowhere", "there is no space space:nowhere"},
		{"ada", "user:acme:ada", "names no principal"},
		{"user:acme:ada", "user:acme:ada", "are both"},
		{"user:acme:eve", "user:acme:ada", "nothing of user:acme:eve can move"},
	} {
		b.prints(tc.says, adopt(tc.from, tc.to)...)
	}
	b.prints("would move from local to user:acme:ada: 1 protocol, 1 open run, 1 acceptance", adopt("local", "user:acme:ada")...)
	if b.resumes(uri, id, with(ada)) {
		t.Fatal("looking has moved a run")
	}
	b.prints("moved from local to user:acme:ada: 1 protocol, 1 open run, 1 acceptance", adopt("local", "user:acme:ada", "--yes")...)
	if !b.resumes(uri, id, with(ada)) {
		t.Error("ada does not resume the run that she got")
	}
	if a := b.do("POST", "/api/kairos_search", `{"query":"act"}`, with(ada)); !strings.Contains(a.body, uri) {
		t.Errorf("ada does not find the protocol that she got: %s", a.body)
	}
	if a := b.do("POST", "/api/runs_show", `{"run_id":"`+id+`"}`, with(ada)); !strings.Contains(a.body, "from local to user:acme:ada") {
		t.Errorf("the record does not say whose the run was: %s", a.body)
	}
	if out := b.command("", "runs", "list", "--all", "-o", "json"); !strings.Contains(out, `"principal": "user:acme:ada"`) || strings.Contains(out, `"principal": "local"`) {
		t.Errorf("local still has the run: %s", out)
	}
	b.prints("would move from user:acme:ada to user:acme:bob: 1 protocol, 1 open run, 1 acceptance", adopt("user:acme:ada", "user:acme:bob")...)
	b.prints("nothing of local can move", adopt("local", "user:acme:ada", "--yes")...)
}

// TestARenamedPersonGetsTheOpenRunsBack: nobody else sees them meanwhile.
func TestARenamedPersonGetsTheOpenRunsBack(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	b.prints("created space", "spaces", "create", "production")
	both := []string{"--space", "personal", "--space", "production"}
	token, old := b.tokenOf("user:acme:ada", both...)
	_, renamed := b.tokenOf("user:acme:ada2", both...)
	mint := func(space, document string) string {
		a := b.do("POST", "/api/kairos_mint/raw?llm_model_id=test&space="+space, document, with(old, "Content-Type", "text/markdown"))
		return uriOf.FindString(a.body)
	}
	own, shared := mint("", actOnce), mint("production", strings.Replace(actOnce, "# Act", "# Shared", 1))
	runs := map[string]string{own: b.began(own, with(old)), shared: b.began(shared, with(old))}
	b.prints("revoked token", "token", "revoke", token)
	for uri, id := range runs {
		if b.resumes(uri, id, with(renamed)) {
			t.Error("somebody else resumes a run of ada")
		}
	}
	a := b.do("POST", "/api/kairos_mint/raw?llm_model_id=test", strings.Replace(actOnce, "run it", "run something else", 1), with(renamed, "Content-Type", "text/markdown"))
	other := uriOf.FindString(a.body)
	b.prints(`nothing was moved: "Act"`, "identity", "adopt", "--from", "user:acme:ada", "--to", "user:acme:ada2", "--yes")
	if a := b.do("POST", "/api/kairos_delete", `{"uris":["`+other+`"]}`, with(renamed)); a.status != http.StatusOK {
		t.Fatalf("delete = %d %s", a.status, a.body)
	}
	b.prints("1 protocol, 2 open runs", "identity", "adopt", "--from", "user:acme:ada", "--to", "user:acme:ada2", "--yes")
	for uri, id := range runs {
		if !b.resumes(uri, id, with(renamed)) {
			t.Errorf("the person does not resume run %s of %s", id, uri)
		}
	}
}

// TestTheOperatorSeesTheRunsOfEverybody: the commands of the machine list, show and end them; a
// token sees those of its owner.
func TestTheOperatorSeesTheRunsOfEverybody(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	runs, tokens := map[string]string{}, map[string]string{}
	for _, owner := range []string{"user:acme:ada", "user:acme:bob"} {
		_, token := b.tokenOf(owner)
		a := b.do("POST", "/api/kairos_mint/raw?llm_model_id=test", actOnce, with(token, "Content-Type", "text/markdown"))
		tokens[owner], runs[owner] = token, b.began(uriOf.FindString(a.body), with(token))
	}
	whole := []string{"--url", b.url}
	server := map[string]string{"the database": "", "the server": whole[0] + " " + whole[1]}
	for where, flags := range server {
		at := func(args ...string) string { return b.command("", append(args, strings.Fields(flags)...)...) }
		list := at("runs", "list")
		if !strings.Contains(list, "OWNER") {
			t.Errorf("the list of %s has no owners: %s", where, list)
		}
		for owner, id := range runs {
			if row := regexp.MustCompile(`(?m)^\S*` + id[len(id)-8:] + ` +Act .*` + owner + `$`); !row.MatchString(list) {
				t.Errorf("the list of %s does not have the run %s of %s:\n%s", where, id, owner, list)
			}
			if out := at("runs", "show", id); !strings.Contains(out, "run "+id+", of "+owner) {
				t.Errorf("runs show of %s: %s", where, out)
			}
			if out := at("runs", "resume", id); !strings.Contains(out, "is of "+owner+", and nobody else continues it") {
				t.Errorf("runs resume of %s: %s", where, out)
			}
		}
	}
	mine, others := runs["user:acme:ada"], runs["user:acme:bob"]
	list := b.command(tokens["user:acme:ada"], append([]string{"runs", "list", "--all"}, whole...)...)
	if !strings.Contains(list, mine[len(mine)-8:]) || strings.Contains(list, others[len(others)-8:]) {
		t.Errorf("ada's token lists\n%s\nwant her run alone", list)
	}
	if a := b.do("POST", "/api/runs_show", `{"run_id":"`+others+`"}`, with(tokens["user:acme:ada"])); a.status != http.StatusNotFound {
		t.Errorf("ada's token shows the run of bob: %d %s", a.status, a.body)
	}
	b.prints("is abandoned", "runs", "end", others, "--reason", "nobody will")
	if a := b.do("POST", "/api/runs_show", `{"run_id":"`+others+`"}`, with(tokens["user:acme:bob"])); !strings.Contains(a.body, `"state":"ended"`) {
		t.Errorf("the run that the operator ended: %s", a.body)
	}
}
