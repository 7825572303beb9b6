package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

var shownDigest = regexp.MustCompile(`name="digest" value="([0-9a-f]+)"`)

// An agent asks with a token. The wrong person and the token's owner are refused, two right people approve, and
// the record names them.
func TestTwoNamedPeopleApprove(t *testing.T) {
	t.Parallel()
	b := identifying(t)
	_, token := b.tokenOf("user:acme:ada")
	document := strings.Replace(gatedCommand, `"approval_mode":"user"`, `"approval":{"by":["group:acme:release"],"not":"runner","quorum":2}`, 1)
	page, id, again := b.gatedBy(token, "", document)
	if a := again(); !strings.Contains(a.body, "Approved by 0 of 2 of group:acme:release, other than whoever runs this") {
		t.Errorf("the agent is told %s", a.body)
	}
	in := func(who, group string) (browser, string) {
		p := b.browser(t)
		p.wants("GET", page, "", 401, "This page needs a login")
		link, _ := b.loginLink("--as", who, "--group", group)
		_, shown := p.opens("POST", link, "")
		return p, shown
	}
	owner, shown := in("user:acme:ada", "release")
	if !strings.Contains(shown, "You run this yourself") || strings.Contains(shown, `value="approved"`) {
		t.Errorf("the owner is shown %s", shown)
	}
	bob, shown := in("user:acme:bob", "release")
	form := "decision=approved&digest=" + shownDigest.FindStringSubmatch(shown)[1]
	owner.wants("POST", page, form, 403, "You run this yourself")
	eve, _ := in("user:acme:eve", "sales")
	eve.wants("POST", page, form, 404, "No such approval") // neither named, nor in the space of the run

	bob.wants("POST", page, form, 200, "Approved by 1 of 2 of group:acme:release")
	bob.wants("POST", page, form, 422, "You have approved this already")
	zoe, shown := in("user:acme:zoe", "release")
	if !strings.Contains(shown, "user:acme:bob approved at") {
		t.Errorf("the second person is shown %s", shown)
	}
	zoe.wants("POST", page, form, 200, "by user:acme:bob, user:acme:zoe")
	bob.wants("GET", page, "", 200, "by user:acme:bob, user:acme:zoe")
	for deadline := time.Now().Add(time.Minute); strings.Contains(again().body, "WAITING_FOR_USER"); {
		if time.Now().After(deadline) {
			t.Fatal("the agent still waits after both have approved")
		}
	}
	line := b.command(token, "runs", "show", id, "--url", b.url, "-o", "json")
	for _, says := range []string{"on the approval page, by user:acme:bob, user:acme:zoe", `"what": "partly_approved"`} {
		if !strings.Contains(line, says) {
			t.Errorf("runs show -o json: %s, want %q", line, says)
		}
	}
}
