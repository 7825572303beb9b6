package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// audited is a line of the audit log.
type audited struct {
	ID, Phase, Action, Principal, Credential, Method, Account, Client, Transport, Address, Space, Object, Code string
	Details                                                                                                    map[string]string
	TraceID                                                                                                    string `json:"trace_id"`
}

// audit reads the audit log.
func (s *served) audit(path string) (lines []audited) {
	s.t.Helper()
	b, err := os.ReadFile(s.path(path))
	if err != nil {
		s.t.Fatal(err)
	}
	for text := range strings.Lines(string(b)) {
		var l audited
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestTheAuditLogSaysWhoDidWhat(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	const group = "group:acme:sre"
	token, ada := b.tokenOf("user:acme:ada", "--space", group)
	_, reader := b.tokenOf("user:acme:bob", "--space", group, "--may", "read")
	page, id, again := b.gatedBy(ada, "", gatedCommand)
	for at, tc := range map[string]struct{ body, token string }{
		"/api/kairos_mint/raw": {"# Not mine\n\n## Step\n\nText.\n", reader},
		"/api/spaces_create":   {`{"name":"mine"}`, ada},
		"/api/kairos_spaces":   {`{}`, "krs_garbage"},
	} {
		kind := "application/json"
		if strings.HasSuffix(at, "raw") {
			kind = "text/markdown"
		}
		headers := with(tc.token, "Content-Type", kind, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		if a := b.do("POST", at, tc.body, headers); a.status != http.StatusForbidden && a.status != http.StatusUnauthorized {
			t.Errorf("%s = %d %s", at, a.status, a.body)
		}
	}
	opened := b.do("POST", "/mcp", handshake, with(ada, "Accept", "application/json, text/event-stream"))
	b.do("DELETE", "/mcp", "", with(ada, "Mcp-Session-Id", opened.header.Get("Mcp-Session-Id")))
	bob, eve := b.browser(t), b.browser(t)
	link, login := b.loginLink("--as", "user:acme:bob", "--group", "sre")
	bob.wants("GET", page, "", 401, "This page needs a login")
	shown := bob.wants("POST", link, "", 200, "Ship it")
	eve.wants("POST", link, "", 404, "This link does not log in")
	bob.approves(page, shown, "user:acme:bob")
	again()
	bob.wants("POST", b.url+"/auth/logout", "", 200, "You are logged out")
	for _, args := range [][]string{
		{"spaces", "create", "production"}, {"runs", "export", id, "--url", b.url, "--file", filepath.Join(b.dir, "run.json")},
		{"token", "revoke", token}, {"reload"},
	} {
		b.command(ada, args...)
	}
	lines := b.audit("data/audit.jsonl")
	for _, want := range []audited{
		{Action: "server.run", Phase: "begun", Principal: "local", Transport: "cli"},
		{Action: "token.create", Phase: "done", Principal: "local", Object: token, Space: group},
		{Action: "protocol.mint", Phase: "done", Principal: "user:acme:ada", Method: "token", Credential: "token:" + token, Space: group},
		{Action: "protocol.mint", Phase: "refused", Principal: "user:acme:bob", Code: "FORBIDDEN", TraceID: "0af7651916cd43dd8448eb211c80319c"},
		{Action: "spaces_create", Phase: "refused", Principal: "user:acme:ada", Code: "FORBIDDEN"},
		{Action: "caller.identify", Phase: "refused", Address: "127.0.0.1", Code: "INVALID_TOKEN", Object: "/api/kairos_spaces"},
		{Action: "session.open", Phase: "done", Principal: "user:acme:ada"}, {Action: "session.end", Phase: "done", Principal: "user:acme:ada"},
		{Action: "login.link", Phase: "done", Principal: "local", Object: login},
		{Action: "login.start", Phase: "done", Principal: "user:acme:bob", Object: login},
		{Action: "login.start", Phase: "refused", Address: "127.0.0.1", Code: "INVALID_TOKEN"},
		{Action: "approval.give", Phase: "begun", Principal: "user:acme:bob", Method: "login", Object: id, Space: group},
		{Action: "approval.give", Phase: "done", Principal: "user:acme:bob", Method: "login", Object: id},
		{Action: "login.revoke", Phase: "done", Principal: "user:acme:bob", Object: login},
		{Action: "space.create", Phase: "done", Principal: "local", Object: "space:production"},
		{Action: "run.export", Phase: "done", Principal: "user:acme:ada", Object: id},
		{Action: "token.revoke", Phase: "done", Principal: "local", Object: token},
	} {
		if !slices.ContainsFunc(lines, want.like) {
			t.Errorf("no line is like %+v", want)
		}
	}
	text := fmt.Sprint(lines)
	for _, secret := range []string{ada, reader, link[strings.LastIndexByte(link, '/')+1:], "krs_garbage", "echo shipped", "Not mine"} {
		if strings.Contains(text, secret) {
			t.Errorf("the audit log has %q", secret)
		}
	}
	if t.Failed() {
		for _, l := range lines {
			t.Logf("%+v", l)
		}
	}
}

// like reports whether a line has what this one has.
func (a audited) like(l audited) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(a.Action, l.Action) && same(a.Phase, l.Phase) && same(a.Principal, l.Principal) && same(a.Credential, l.Credential) && same(a.Method, l.Method) &&
		same(a.Transport, l.Transport) && same(a.Address, l.Address) && same(a.Space, l.Space) && same(a.Object, l.Object) && same(a.Code, l.Code) && same(a.TraceID, l.TraceID)
}

// TestAFullDiskStopsWhatMustBeAudited fills the disk of a running server: the file of its audit
// log becomes the device that is always full.
func TestAFullDiskStopsWhatMustBeAudited(t *testing.T) {
	t.Parallel()
	b := withShippedDrivers(t, "auth: {enabled: true}\naudit: {file: log/audit.jsonl, required: true}\n")
	_, ada := b.tokenOf("user:acme:ada")
	mint := func(title string) answer {
		return b.do("POST", "/api/kairos_mint/raw", "# "+title+"\n\n## Step\n\nDo it.\n", with(ada, "Content-Type", "text/markdown"))
	}
	if a := mint("Before"); a.status != http.StatusOK {
		t.Fatalf("mint = %d %s", a.status, a.body)
	}
	log := b.path("log/audit.jsonl")
	if err := os.Rename(log, log+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", log); err != nil {
		t.Fatal(err)
	}
	if a := mint("Meanwhile"); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "AUDIT_UNAVAILABLE") || !strings.Contains(a.body, "nothing was done") {
		t.Errorf("mint with a full disk = %d %s", a.status, a.body)
	}
	if a := b.do("POST", "/api/kairos_spaces", everySpaces, with(ada)); a.status != http.StatusOK || strings.Contains(a.body, "Meanwhile") || !strings.Contains(a.body, "Before") {
		t.Errorf("reading continues, and nothing was stored: %d %s", a.status, a.body)
	}
	if out := b.command("", "token", "create", "--owner", "user:acme:eve", "--name", "x"); !strings.Contains(out, "no space left on device") || strings.Contains(out, "krs_") {
		t.Errorf("token create: %s", out)
	}
	if out := b.command("", "doctor"); !strings.Contains(out, "audit log") || !strings.Contains(out, "no space left on device") {
		t.Errorf("doctor: %s", out)
	}
	if lost := regexp.MustCompile(`(?m)^kairos_audit_lines_lost_total\{.*\} (\d+)$`).FindStringSubmatch(b.scrape()); lost == nil || lost[1] == "0" {
		t.Errorf("the metrics count %q lost lines", lost)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if a := mint("After"); a.status != http.StatusOK {
		t.Errorf("mint when there is room again = %d %s", a.status, a.body)
	}
}

func TestStdoutOfAServerForClientsIsNotForTheAuditLog(t *testing.T) {
	t.Parallel()
	s := &served{t: t, dir: t.TempDir()}
	s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: off}\ndrivers: {dir: "+buildDrivers(t)+"}\naudit: {to: stdout}\n")
	cmd := s.program("serve")
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "audit.to is stdout, where a server over stdin and stdout writes MCP frames") {
		t.Errorf("%v: %s", err, out)
	}
}
