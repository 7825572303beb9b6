package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// who a credential is of, in the order of the replies of a door.
const (
	ada = iota
	readsOnly
	elsewhere
	bob
	operator
	nobody
)

// credential is what a caller shows: in the header Authorization, or in a cookie.
type credential struct {
	name, header, cookie string
	who                  int
	refused              string // the error of a 401 where it does not count
	foreign              bool   // not of the program that opened the session
}

const (
	invalid = "invalid_token"
	unknown = "Unauthorized"
)

// wrongCredentials count nowhere.
func wrongCredentials(b *program, p *programs.Provider) []credential {
	now := time.Now()
	id, revoked := b.tokenOf("user:acme:ada")
	b.command("", "token", "revoke", id)
	until(b.t, "the token is revoked", func() bool {
		return b.do("POST", "/api/kairos_spaces", `{}`, with(revoked)).status == http.StatusUnauthorized
	})
	bearer := func(claims map[string]any, how string) string { return "Bearer " + p.Token(claims, how) }
	list := []credential{
		{name: "nothing", refused: unknown},
		{name: "another scheme", header: "Basic YWRhOnBhc3N3b3Jk", refused: unknown},
		{name: "garbage", header: "Bearer garbage"},
		{name: "garbage of three parts", header: "Bearer e30.e30.e30"},
		{name: "a token that has expired", header: bearer(ours("exp", now.Add(-5*time.Minute).Unix()), "")},
		{name: "a token that is not valid yet", header: bearer(ours("nbf", now.Add(10*time.Minute).Unix()), "")},
		{name: "a token of a clock that is 5 minutes ahead", header: bearer(ours("iat", now.Add(5*time.Minute+30*time.Second).Unix()), "")},
		{name: "a token of a foreign issuer", header: bearer(ours("iss", "https://evil.example"), "")},
		{name: "a token that a foreign key has signed", header: bearer(ours(), "key=foreign")},
		{name: "a token for another audience", header: bearer(map[string]any{"aud": "https://other.example"}, "")},
		{name: "a token for the audience with a slash", header: bearer(map[string]any{"aud": ourAudience + "/"}, "")},
		{name: "a token for no audience", header: bearer(map[string]any{}, "")},
		{name: "a token with `alg: none`", header: bearer(ours(), "alg=none")},
		{name: "a token signed with HS256 and the public key", header: bearer(ours(), "alg=HS256")},
		{name: "a token that says who has logged in", header: bearer(ours("at_hash", "x"), "")},
		{name: "a token without a subject", header: bearer(ours("sub", nil), "")},
		{name: "a revoked token of `kairos token create`", header: "Bearer " + revoked},
		{name: "a forged token of that form", header: "Bearer " + forgedToken},
		{name: "the cookie of nobody", cookie: strings.Repeat("A", 43), refused: unknown},
	}
	for i := range list {
		list[i].who = nobody
		if list[i].refused == "" {
			list[i].refused = invalid
		}
	}
	return list
}

// credentials are the wrong ones, and then those that count somewhere.
func credentials(b *program, p *programs.Provider) []credential {
	b.command("", "spaces", "create", "production")
	token := func(flags ...string) string {
		_, secret := b.tokenOf("user:acme:ada", flags...)
		return "Bearer " + secret
	}
	bearer := func(claims map[string]any) string { return "Bearer " + p.Token(claims, "") }
	page := b.adasThings(p.Token(ours(), "")).page
	ended := b.cookieOf(b.t, page, "ada")
	logout := door{method: "POST", path: "/auth/logout"}
	if a := b.through(logout, map[string]string{"Cookie": "kairos=" + ended}); a.status != http.StatusOK {
		b.t.Fatalf("logout = %d %s", a.status, a.body)
	}
	return append(wrongCredentials(b, p), []credential{
		{name: "the cookie of a login that was ended", cookie: ended, who: nobody, refused: unknown},
		{name: "the cookie of bob's login", cookie: b.cookieOf(b.t, page, "bob"), who: bob, refused: unknown},
		{name: "the cookie of ada's login", cookie: b.cookieOf(b.t, page, "ada"), who: ada, refused: unknown},
		{name: "the token beside the admin socket", header: "Bearer " + operatorToken(b.t, b.path("run/admin.sock")), who: operator, refused: invalid},
		{name: "a token of bob", header: bearer(ours("sub", "bob")), who: bob, foreign: true},
		{name: "a token of ada for another space", header: token("--space", "production"), who: elsewhere, foreign: true},
		{name: "a token of ada that only reads", header: token("--may", "read"), who: readsOnly, foreign: true},
		{name: "a token of `kairos token create` of ada", header: token(), foreign: true},
		{name: "a token of another program of ada", header: bearer(ours("azp", "other")), foreign: true},
		{name: "the next token of the program", header: bearer(ours())},
		{name: "the token that opened the session", header: ""}, // of adasThings
	}...)
}

// counts reports whether the credential lets its caller in at a door.
func (c credential) counts(d door) bool {
	switch d.column {
	case forAll, theMetrics, theLogin:
		return true
	case thePage:
		return c.cookie != "" && c.who != nobody
	case ofOperator:
		return c.cookie == "" && c.who != nobody
	}
	return c.cookie == "" && c.who != nobody && c.who != operator
}

// expected is the reply to a request, and what it says.
func (c credential) expected(d door) (reply, says string) {
	in := c.counts(d)
	switch {
	case d.path == "/auth/login" && c.cookie != "" && c.who != nobody:
		return "200", "You are logged in"
	case d.column == thePage && !in && c.cookie != "" && d.method == http.MethodGet:
		return "303", "" // to the provider, which says who it is now
	case d.column == thePage && !in:
		return "401", "This page needs a login"
	case d.column == thePage && c.who == bob:
		return "404", "No such approval"
	case !in:
		return "401", `"error":"` + c.refused + `"`
	case c.foreign && (d.column == aSession || d.column == aStream || d.column == itsEnd):
		return "404", ""
	case d.column == forAll || d.column == theMetrics || d.column == theLogin:
		return d.replies[0], ""
	}
	return d.replies[min(c.who, len(d.replies)-1)], ""
}

// in are the headers of a request with a credential, from an address of its own.
func (c credential) in(n int) map[string]string {
	headers := map[string]string{"X-Forwarded-For": fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255), "X-Forwarded-Proto": "https"}
	if c.header != "" {
		headers["Authorization"] = c.header
	}
	if c.cookie != "" {
		headers["Cookie"] = "__Host-kairos=" + c.cookie
	}
	return headers
}

// TestEveryCredentialAtEveryDoor compares each reply with the one that the tables demand.
func TestEveryCredentialAtEveryDoor(t *testing.T) {
	long(t)
	t.Parallel()
	b, p := withPages(t)
	first := p.Token(ours(), "")
	all := credentials(b, p)
	all[len(all)-1].header = "Bearer " + first
	var table strings.Builder
	rights := map[int]map[string]string{}
	th := b.adasThings(first)
	n, unexpected := 0, 0
	for _, c := range all {
		if c.who != nobody { // it may end or delete what there is
			th = b.adasThings(first)
		}
		cells, got := map[string][]string{}, map[string]string{}
		for _, d := range doorsTo(th) {
			if d.column == aStream || d.column == aSession || d.column == itsEnd {
				d.headers = []string{"Mcp-Session-Id", b.do("POST", "/mcp", handshake, with(first)).header.Get("Mcp-Session-Id")}
			}
			n++
			a := b.through(d, c.in(n))
			if wrong := c.judge(d, a); wrong != "" {
				unexpected++
				t.Errorf("%s %s %s with %s = %s %v %.400s, %s", d.method, d.path, d.name, c.name, a.reply(), a.header, a.body, wrong)
			}
			if reply := strconv.Itoa(a.status); !slices.Contains(cells[d.column], reply) {
				cells[d.column] = append(cells[d.column], reply)
			}
			got[d.name] = a.reply()
		}
		fmt.Fprintf(&table, "| %s |", c.name)
		for _, column := range columns {
			fmt.Fprintf(&table, " %s |", cell(c, column, cells[column]))
		}
		table.WriteByte('\n')
		if c.cookie == "" {
			rights[c.who] = got
		}
	}
	t.Logf("%d credentials × %d doors, %d requests: %d unexpected", len(all), len(doorsTo(th)), n, unexpected)
	credentialPage(t, table.String(), rightsTable(doorsTo(th), rights))
	var secrets []string
	for _, c := range all {
		if _, token, ok := strings.Cut(c.header, " "); ok && len(token) > 20 && c.who != operator {
			secrets = append(secrets, token)
		}
		if c.cookie != "" {
			secrets = append(secrets, c.cookie)
		}
	}
	b.seesNoSecret(secrets...)
}

// judge returns what is wrong with a reply, or nothing.
func (c credential) judge(d door, a answer) string {
	want, says := c.expected(d)
	switch {
	case a.reply() != want || !strings.Contains(a.body, says):
		return fmt.Sprintf("want %s %s", want, says)
	case a.status == http.StatusUnauthorized && d.column != thePage && !strings.Contains(a.header.Get("WWW-Authenticate"), `resource_metadata="`):
		return "want that it says how to get in"
	case (c.who == elsewhere || c.who == bob || c.who == nobody) && strings.Contains(a.body, marked):
		return "want that it shows nothing of ada's"
	}
	return ""
}

// cell is what a table shows of the replies at the doors of a column.
func cell(c credential, column string, replies []string) string {
	switch {
	case column == theLogin || column == forAll || column == theMetrics:
		return "open"
	case len(replies) > 1 && c.counts(door{column: column}):
		return "in"
	}
	return strings.Join(replies, ", ")
}

// rightsTable has the replies to the callers that are let in.
func rightsTable(doors []door, rights map[int]map[string]string) string {
	var b strings.Builder
	for _, d := range doors {
		if d.name == "" || d.column == thePage || strings.HasSuffix(d.name, beforeModern) {
			continue
		}
		fmt.Fprintf(&b, "| %s |", d.name)
		for _, who := range []int{ada, readsOnly, elsewhere, bob, operator} {
			fmt.Fprintf(&b, " %s |", rights[who][d.name])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const credentialText = `# Credentials

Look up what a server with [an identity provider](../how-to/log-in-agents.md) replies to whom. Each cell is the status of requests to the real
program, with a provider that is a program of its own. The page is generated: ` + "`go test ./cmd/kairos -run EveryCredential -update`" + `.

Every route of the server is behind a column, the tools in both versions of MCP; ` + "`in`" + ` means that the caller is let in, and that the replies differ by its rights, which
are in the second table. 401 comes with ` + "`WWW-Authenticate: Bearer`" + `, and says ` + "`invalid_token`" + ` unless no token came. A session of MCP is one of ada's, which one program of hers has opened:
to everybody else it is 404, as if it did not exist. Approval pages ask for a login with a browser, and take no token; 303 leads to the provider,
because that login has ended. Nothing else takes the cookie of a login. The cards, the metadata, the probes and the port of the
metrics ask for nothing, and show nothing of protocols and runs. The [admin socket](admin-socket.md) takes calls of the server's own account, and no others whatever
they show. A request that claims to come from another [replica](../how-to/run-replicas.md#between-replicas) gets 403, unless a replica has signed it.
`

const rightText = `
## Rights

Replies to callers who are let in, about a protocol and a run of ada's. In calls of MCP the status is 200, and the result has the code of the error.
Nothing that ada has is in a reply to somebody else. The operator of the machine, with the token beside the [admin socket](admin-socket.md), makes the calls of operators
and no others over HTTP: it reads the records of everybody's runs and ends runs, and continues none but its own.

| call | ada | a token of hers that only reads | one for another space | bob | the operator |
|---|---|---|---|---|---|
`

const spellingText = `
## Spellings

A call of MCP and one of REST (PATH) in other spellings, with a token that was revoked (✗) and one that counts (✓). None is let in where the first
spelling is not, with no token either.

| spelling | ` + "`/mcp`" + ` ✗ | ` + "`/mcp`" + ` ✓ | ` + "`/api/kairos_spaces`" + ` ✗ | ` + "`/api/kairos_spaces`" + ` ✓ |
|---|---|---|---|---|
`

// credentialPage compares the replies with the page of the manual that has them.
func credentialPage(t *testing.T, doorTable, rightTable string) {
	t.Helper()
	var b strings.Builder
	b.WriteString(credentialText + "\n| the request shows |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n" + doorTable)
	b.WriteString(rightText + rightTable + spellingText + spellingTable())
	const path = "../../docs/reference/credentials.md"
	if *updateRuns {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if diff := cmp.Diff(string(page), b.String()); err != nil || diff != "" {
		t.Errorf("docs/reference/credentials.md is not what the server does; go test ./cmd/kairos -run EveryCredential -update writes it: %v\n%s", err, diff)
	}
}
