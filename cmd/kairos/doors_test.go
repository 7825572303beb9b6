package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// withPages is a server that takes the tokens of a provider, and lets people log in there. It believes
// every request which address it comes from, because wrong tokens of one address are limited.
func withPages(t *testing.T) (*program, *programs.Provider) {
	t.Helper()
	p := programs.StartProvider(t)
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("kairos-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return withShippedDrivers(t, fmt.Sprintf("oidc: {issuer: %q, audience: %q, client_id: kairos, client_secret_file: %q}\nhttp: {trusted_proxies: [127.0.0.1/32]}\nmcp: {wait: 100ms}\n", p.Issuer, ourAudience, secret)), p
}

// behind are the names of the columns of the page: what is behind a door.
const (
	anMCPCall  = "calls of MCP"
	aSession   = "MCP session of ada's program"
	aStream    = "its stream"
	itsEnd     = "its end"
	aTool      = "tools over REST"
	ofOperator = "calls of operators"
	thePage    = "approval page"
	theLogin   = "pages of the login"
	forAll     = "cards, metadata, probes"
	theMetrics = "metrics"
)

var columns = []string{anMCPCall, aSession, aStream, itsEnd, aTool, ofOperator, thePage, theLogin, forAll, theMetrics}

// door is a way to call the server.
type door struct {
	column, route      string // route: as the list of routes has it
	name               string // of the row, where rights differ; empty: they do not
	method, path, body string
	headers            []string
	// replies to ada, to a token of hers that only reads, to one for another space, to bob, and to the
	// token beside the admin socket; a last one is that to the rest. Each is a status, with the code of
	// an error in a 200.
	replies []string
}

// replies are those to the credentials in the order of the field.
func replies(list string) []string { return strings.Split(list, "|") }

// thing is what ada has: a protocol, and a run of it that waits for an approval on a page.
type thing struct {
	begun
	page  string
	spare [3]begun // to end and delete
}

// begun is a protocol and a run of it, with the arguments of its next call.
type begun struct{ uri, run, next string }

// marked is a word of what ada has, which nobody else reads.
const marked = "cormorant"

// adasThings makes them anew: calls end and delete them.
func (b *program) adasThings(token string) thing {
	b.t.Helper()
	call := func(path, media, body string) (r struct {
		RunID       string `json:"run_id"`
		ApprovalURL string `json:"approval_url"`
		Items       []struct{ URI string }
		Challenge   struct {
			Nonce string
			Hash  string `json:"proof_hash"`
		}
	},
	) {
		b.t.Helper()
		a := b.do("POST", path, body, with(token, "Content-Type", media))
		if err := json.Unmarshal([]byte(a.body), &r); err != nil || a.status != http.StatusOK {
			b.t.Fatalf("%s = %d %s, %v", path, a.status, a.body, err)
		}
		return r
	}
	begin := func(title string) (made begun) {
		b.t.Helper()
		document := strings.NewReplacer("# Ship", "# "+title, "echo shipped", "echo "+marked).Replace(gatedCommand)
		made.uri = call("/api/kairos_mint/raw?llm_model_id=test&force=true", "text/markdown", document).Items[0].URI
		reply := call("/api/kairos_begin", "application/json", fmt.Sprintf(`{"uri":%q}`, made.uri))
		made.run = reply.RunID
		made.next = fmt.Sprintf(`{"uri":%q,"run_id":%q,"solution":{"type":"shell","nonce":%q,"proof_hash":%q}}`, made.uri, made.run, reply.Challenge.Nonce, reply.Challenge.Hash)
		return made
	}
	th := thing{begun: begin("Ship")}
	link := call("/api/kairos_next", "application/json", th.next).ApprovalURL
	if th.page = link[max(strings.Index(link, "/approve/"), 0):]; th.page == "" {
		b.t.Fatal("the run does not wait for an approval")
	}
	for i := range th.spare {
		th.spare[i] = begin(fmt.Sprintf("Sail %d", i))
	}
	return th
}

// doorsTo are all ways to what ada has. Those that end something come last.
func doorsTo(th thing) []door {
	modern := []string{"Mcp-Protocol-Version", "2026-07-28"}
	list := []door{
		{column: anMCPCall, route: "/mcp", method: "POST", path: "/mcp", body: listModern, headers: append(modern, "Mcp-Method", "tools/list"), replies: replies("200")},
		{column: anMCPCall, route: "/mcp", method: "POST", path: "/mcp/", body: listModern, headers: append(modern, "Mcp-Method", "tools/list"), replies: replies("200")},
		{column: anMCPCall, route: "/mcp", method: "POST", path: "/mcp", body: listOld, replies: replies("200")},
		{column: anMCPCall, route: "/mcp", method: "POST", path: "/mcp", body: handshake, replies: replies("200")},
		{column: aSession, route: "/mcp", method: "POST", path: "/mcp", body: listOld, replies: replies("200|404|404|404")},
		{column: aStream, route: "/mcp", method: "GET", path: "/mcp", replies: replies("200|404|404|404")},
		{column: itsEnd, route: "/mcp", method: "DELETE", path: "/mcp", replies: replies("200|404|404|404")},
		{column: thePage, route: "/approve/{run}/{secret}", name: "the approval page", method: "GET", path: th.page, replies: replies("200")},
		{column: thePage, route: "/approve/{run}/{secret}", name: "an answer", method: "POST", path: th.page, body: "decision=approved&digest=00", headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, replies: replies("422")},
		{column: theLogin, route: "/auth/login", method: "GET", path: "/auth/login", replies: replies("303")},
		{column: theLogin, route: "/auth/link/{secret}", method: "GET", path: "/auth/link/guess", replies: replies("404")},
		{column: theLogin, route: "/auth/link/{secret}", method: "POST", path: "/auth/link/guess", replies: replies("404")},
		{column: theLogin, route: "/auth/callback", method: "GET", path: "/auth/callback?code=x&state=y", replies: replies("400")},
		{column: theMetrics, path: "metrics", method: "GET", replies: replies("200")},
	}
	for _, open := range []string{"/", "/api", "/api/openapi.json", "/health", "/healthz", "/readyz", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		list = append(list, door{column: forAll, route: open, method: "GET", path: open, replies: replies("200")})
	}
	return append(list, callsAbout(th)...)
}

// beforeModern ends the names of calls in the version of MCP that had sessions.
const beforeModern = " over MCP before 2026"

// callsAbout are the calls that need a right: tools in both versions of MCP and over REST, and operations.
func callsAbout(th thing) []door {
	of := fmt.Sprintf
	var list []door
	for _, t := range []struct {
		name    string
		body    func(to begun) string
		replies string
	}{
		{"kairos_search", func(begun) string { return `{"query":"ship"}` }, "200"},
		{"kairos_spaces", func(begun) string { return `{}` }, "200"},
		{"kairos_dump", func(to begun) string { return of(`{"uri":%q}`, to.uri) }, "200|200|404|404"},
		{"kairos_begin", func(to begun) string { return of(`{"uri":%q}`, to.uri) }, "200|403|404|404"},
		{"kairos_next", func(to begun) string { return to.next }, "200 WAITING_FOR_USER|403|404|404"},
		{"kairos_attest", func(to begun) string {
			return of(`{"uri":%q,"run_id":%q,"outcome":"failure","message":"no"}`, to.uri, to.run)
		}, "200|403|404|404"},
		{"kairos_update", func(to begun) string { return of(`{"uris":[%q],"updates":{"label":"Ship it"}}`, to.uri) }, "200|200 FORBIDDEN|200 NOT_FOUND|200 NOT_FOUND"},
		{"kairos_mint", func(begun) string {
			return of(`{"markdown_doc":%q,"llm_model_id":"test","force_update":true,"space":"user:acme:ada"}`, oneCommand)
		}, "200|403|404|404"},
		{"kairos_delete", func(to begun) string { return of(`{"uris":[%q]}`, to.uri) }, "200|200 FORBIDDEN|200 NOT_FOUND|200 NOT_FOUND"},
	} {
		over := door{column: aTool, route: "/api/" + t.name, method: "POST", path: "/api/" + t.name, body: t.body(th.spare[0])}
		if t.name == "kairos_mint" {
			over.route += "/raw"
			over.path, over.body, over.headers = over.route+"?llm_model_id=test&force=true&space=user:acme:ada", oneCommand, []string{"Content-Type", "text/markdown"}
		}
		modern := door{column: anMCPCall, route: "/mcp", method: "POST", path: "/mcp", body: rpcCall(1, t.name, t.body(th.spare[1]), modernMeta)}
		modern.headers = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", t.name}
		old := door{column: anMCPCall, route: "/mcp", method: "POST", path: "/mcp", body: rpcCall(1, t.name, t.body(th.spare[2]), "")}
		over.name, modern.name, old.name = "`"+t.name+"`", "`"+t.name+"` over MCP", "`"+t.name+"`"+beforeModern
		over.replies = replies(t.replies)
		missing := "200 NOT_FOUND"
		if t.name == "kairos_mint" {
			missing = "200 SPACE_NOT_FOUND"
		}
		modern.replies = replies(strings.NewReplacer("404", missing, "403", "200 FORBIDDEN").Replace(t.replies))
		old.replies = modern.replies
		list = append(list, over, modern, old)
	}
	list = append(list, door{column: aTool, route: "/api/snapshot", name: "`snapshot`", method: "POST", path: "/api/snapshot", body: `{}`, replies: replies("202")})
	run := of(`{"run_id":%q}`, th.run)
	for _, o := range []struct{ name, body, replies string }{
		{"runs_list", `{}`, "200"},
		{"runs_show", run, "200|200|404|404|200"},
		{"runs_page", run, "200|200|404|404|200"},
		{"runs_resume", run, "200 WAITING_FOR_USER|403|404|404|403"},
		{"runs_export", run, "200|200|404|404|200"},
		{"runs_cancel", run, "400|403|404|404|400"},
		{"runs_decide", of(`{"run_id":%q,"happened":false,"reason":"no"}`, th.run), "403|403|403|403|400"},
		{"runs_abandon", of(`{"run_id":%q,"reason":"no"}`, th.run), "200|403|404|404|200"},
		{"runs_key", `{}`, "200"},
		{"protocol_history", `{"protocol":"Ship"}`, "200|200|404|404|404"},
		{"protocol_version", `{"protocol":"Ship","revision":1}`, "200|200|404|404|404"},
		{"protocol_restore", `{"protocol":"Ship","revision":1}`, "200|403|404|404|404"},
		{"doctor", `{}`, "200"},
		{"spaces_create", `{"name":"mine"}`, "403|403|403|403|200"},
	} {
		list = append(list, door{column: ofOperator, route: "/api/" + o.name, name: "`" + o.name + "`", method: "POST", path: "/api/" + o.name, body: o.body, replies: replies(o.replies)})
	}
	return append(list, door{column: theLogin, route: "/auth/logout", method: "POST", path: "/auth/logout", replies: replies("200")})
}

// TestEveryRouteIsADoor: core/server/rest writes the list from its table.
func TestEveryRouteIsADoor(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("../../core/server/rest/testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, d := range doorsTo(thing{}) {
		known[d.route] += "," + d.method
	}
	for line := range strings.Lines(string(list)) {
		part := strings.Fields(line)
		methods := strings.Split(part[1], ",")
		if part[1] == "*" {
			methods = []string{"GET", "POST", "DELETE"}
		}
		for _, method := range methods {
			if method != http.MethodHead && !strings.Contains(known[part[2]], ","+method) {
				t.Errorf("no credential is tried at %s %s: add a door", method, part[2])
			}
		}
		delete(known, part[2])
	}
	delete(known, "")
	if len(known) > 0 {
		t.Errorf("doors without a route: %v", known)
	}
}

// modernMeta is what calls of the latest version say of their client.
const modernMeta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

var errorCode = regexp.MustCompile(`\\?"error_code\\?": ?\\?"([A-Z_]+)`)

// reply is the status of a reply, with the code of an error in a 200.
func (a answer) reply() string {
	if code := errorCode.FindStringSubmatch(a.body); code != nil && a.status == http.StatusOK {
		return "200 " + code[1]
	}
	return strconv.Itoa(a.status)
}

// through makes the request of a door. It reads no stream to its end.
func (b *program) through(d door, more map[string]string) answer {
	b.t.Helper()
	at := b.url + d.path
	if d.column == theMetrics {
		at = b.metrics
	}
	req, err := http.NewRequestWithContext(b.t.Context(), d.method, at, strings.NewReader(d.body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(d.headers); i += 2 {
		req.Header.Set(d.headers[i], d.headers[i+1])
	}
	for name, value := range more {
		req.Header.Set(name, value)
	}
	res, err := b.client.Transport.RoundTrip(req) // follows nothing
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	a := answer{res.StatusCode, res.Header, ""}
	if res.StatusCode == http.StatusOK && d.column == aStream {
		return a
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	a.body = string(text)
	return a
}

// cookieOf logs a person in at the provider and returns the secret that the browser keeps.
func (b *program) cookieOf(t *testing.T, page, name string) string {
	t.Helper()
	p := b.browser(t)
	p.atTheProvider(b.url+page, name, "password")
	at, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.person.Jar.Cookies(at) {
		if c.Name == "kairos" {
			return c.Value
		}
	}
	t.Fatalf("%s is not logged in", name)
	return ""
}
