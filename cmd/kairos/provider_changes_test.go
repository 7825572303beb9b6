package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An agent gets its next token while its run waits, signed with a key that the server has not seen.
func TestKeysRotateInTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	b, p := withProvider(t)
	before := p.Token(ours(), "")
	session := b.do("POST", "/mcp", handshake, with(before)).header.Get("Mcp-Session-Id")
	_, id, _ := b.gatedBy(before, "", gatedCommand)
	p.Do("rotate?keep=false")
	after := p.Token(ours(), "")
	for _, token := range []string{after, before} {
		if a := b.do("POST", "/api/runs_show", fmt.Sprintf(`{"run_id":%q}`, id), with(token)); a.status != http.StatusOK {
			t.Errorf("the run after the keys changed = %d %s", a.status, a.body)
		}
		if a := b.do("POST", "/mcp", listOld, with(token, "Mcp-Session-Id", session)); a.status != http.StatusOK {
			t.Errorf("the session after the keys changed = %d %s", a.status, a.body)
		}
	}
	if a := b.do("POST", "/api/runs_resume", fmt.Sprintf(`{"run_id":%q}`, id), with(after)); a.status != http.StatusOK || !strings.Contains(a.body, id) {
		t.Errorf("resume with the next token = %d %s", a.status, a.body)
	}
}

// A minute is tolerated in each direction. A clock of the provider that is behind makes tokens that end earlier.
func TestTheClockOfTheProviderIsWrong(t *testing.T) {
	t.Parallel()
	b, p := withPages(t)
	ada := p.Token(ours(), "")
	page := b.adasThings(ada).page
	for _, tc := range []struct {
		offset, says string
		status       int
		loggedIn     bool
	}{
		{"-5m", "", http.StatusOK, true},
		{"-30s", "", http.StatusOK, true},
		{"30s", "", http.StatusOK, true},
		{"5m", "ahead of the clock of this server", http.StatusUnauthorized, false},
		{"-65m", "expired", http.StatusUnauthorized, false},
	} {
		p.Do("clock?offset=" + tc.offset)
		a := b.do("POST", "/api/kairos_spaces", `{}`, with(p.Token(ours(), "")))
		if a.status != tc.status || !strings.Contains(a.body, tc.says) {
			t.Errorf("a token of a provider that is %s off = %d %s, want %d %s", tc.offset, a.status, a.body, tc.status, tc.says)
		}
		shown, _ := b.browser(t).atTheProvider(b.url+page, "ada", "password")
		if in := strings.Contains(shown, "Ship it"); in != tc.loggedIn {
			t.Errorf("a login at a provider that is %s off shows %s, want the approval: %t", tc.offset, shown, tc.loggedIn)
		}
	}
}

// The groups of a person are those of their last login. Once that has ended, which a revocation does at once and
// time after 15 minutes, the provider says that bob has left the group, and his answer is refused.
func TestSomebodyWhoHasLeftTheGroupDoesNotApprove(t *testing.T) {
	long(t)
	t.Parallel()
	b, p := withPages(t)
	page, _, again := b.gatedBy(p.Token(ours(), ""), "group:acme:eng", gatedCommand)
	bob := b.browser(t)
	shown, _ := bob.atTheProvider(page, "bob", "password")
	if !strings.Contains(shown, "Ship it") {
		t.Fatalf("bob is shown %s", shown)
	}
	form := "decision=approved&digest=" + shownDigest.FindStringSubmatch(shown)[1]
	p.Do("leave?person=bob")
	out := b.command("", "logins", "list", "-o", "json")
	_, id, _ := strings.Cut(out, `"id": "`)
	id, _, _ = strings.Cut(id, `"`)
	if out := b.command("", "logins", "revoke", id); !strings.Contains(out, "ended login") {
		t.Fatalf("logins revoke: %s", out)
	}
	bob.wants("POST", page, form, 401, "Your answer was not recorded")
	if shown, _ := b.browser(t).atTheProvider(page, "bob", "password"); !strings.Contains(shown, "No such approval") {
		t.Errorf("after he has logged in again bob is shown %s", shown)
	}
	if a := again(); !strings.Contains(a.body, "WAITING_FOR_USER") {
		t.Errorf("the agent is told %s", a.body)
	}
}
