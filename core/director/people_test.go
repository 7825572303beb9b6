package director_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// person is somebody who has logged in and reads the space of the tests.
func person(name string, groups ...string) access.Caller {
	c := loggedIn("user:test:me")
	c.Principal, c.Space = "user:local:"+name, "user:local:"+name
	for _, g := range groups {
		c.MemberOf = append(c.MemberOf, "group:local:"+g)
	}
	return c
}

var (
	ada   = person("ada", "release", "eng")
	bob   = person("bob", "release")
	eve   = person("eve", "eng")
	owner = access.Caller{Principal: "me", Space: "user:test:me", MemberOf: []string{"group:local:release"}, Method: access.ByLogin}
)

// peopled is a world to which people log in, with these rules.
func peopled(t *testing.T, rules ...string) *world {
	w := withPage(t, func(o *choices) { o.Realm = "local" })
	s, release := w.setups.Hold()
	release()
	w.setups.replace(w.ruled(s, rules...))
	return w
}

// says is what the caller answers on the page of the link in the last reply.
func (w *world) says(c access.Caller, decision string) (approval.View, error) {
	w.t.Helper()
	v, err := w.Approval(w.t.Context(), c, runOf(w.waits), secretOf(w.waits))
	if err != nil {
		return v, err
	}
	return w.AnswerApproval(w.t.Context(), c, runOf(w.waits), secretOf(w.waits), approval.Answer{Decision: decision, Digest: v.Digest, Phrase: v.Phrase, By: c.Principal})
}

// answer is somebody who answers on the page, and what is said to them: a code and words, or the state of
// the page.
func answersOnPage(c access.Caller, decision, want string, says ...string) move {
	return func(p *play) {
		p.t.Helper()
		if p.shown.ApprovalURL != "" {
			p.waits = p.shown
		}
		v, err := p.says(c, decision)
		got, text := string(v.State), fmt.Sprint(v.Missing, v.Votes)
		if err != nil {
			got, text = string(fault.CodeOf(err)), err.Error()
		}
		if got != want {
			p.t.Errorf("the answer of %s comes to %s (%s), want %s", c.Principal, got, text, want)
		}
		contains(p.t, text, says...)
	}
}

const twoOfRelease = "{approval: {by: [group:release], not: runner, quorum: 2, how: [login]}}"

func TestAnApprovalNeedsThePeopleThatARuleNames(t *testing.T) {
	const no, again = string(fault.Forbidden), string(fault.InvalidArgument)
	forms := driver.Client{ElicitationForm: true, ElicitationURL: true}
	at := func(rules ...string) func(*testing.T) *world {
		return func(t *testing.T) *world { return peopled(t, rules...) }
	}
	program, passing := ada, ada
	program.Method = access.ByToken
	passing.Method = ""
	outside := ada
	outside.Groups = nil
	asks := with(plainStep, `"approval":{"by":["group:release","user:local:eve"],"not":"runner","quorum":2}`)
	scenes(t, map[string]scene{
		"two right people": {doc: plainStep, client: forms, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER", "Approved by 0 of 2 of group:local:release, other than whoever runs this", "log in"),
			answersOnPage(ada, "approved", "open", "1 of 2 of group:local:release"), calls("WAITING_FOR_USER", "Approved by 1 of 2"),
			answersOnPage(bob, "approved", "approved"), calls(""), byWay(run.BasisPage), sends(works, ""), solved(driver.AgentReported),
		}},
		"the same person twice": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), answersOnPage(ada, "approved", again, "You have approved this already"), calls("WAITING_FOR_USER", "1 of 2"),
		}},
		"the wrong person and the runner": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(eve, "approved", no, "Only group:local:release may approve this"), answersOnPage(owner, "approved", no, "You run this yourself"),
			answersOnPage(eve, "rejected", no), answersOnPage(owner, "rejected", no), calls("WAITING_FOR_USER", "0 of 2"),
		}},
		"programs":                   {doc: plainStep, world: at(twoOfRelease), moves: []move{calls("WAITING_FOR_USER"), answersOnPage(program, "approved", no), answersOnPage(passing, "approved", no), calls("WAITING_FOR_USER", "0 of 2")}},
		"who is named reads no more": {doc: plainStep, world: at(twoOfRelease), moves: []move{calls("WAITING_FOR_USER"), answersOnPage(outside, "approved", "open", "1 of 2")}},
		"who is not named reads nothing": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(person("zoe"), "approved", no), answersOnPage(func() access.Caller { c := eve; c.Groups = nil; return c }(), "approved", string(fault.NotFound)),
		}},
		"a decline ends it": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), answersOnPage(bob, "rejected", "rejected"), calls("USER_DECLINED"), answersOnPage(ada, "approved", "rejected"),
		}},
		"a change of mind": {doc: plainStep, world: at(twoOfRelease), moves: []move{calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), answersOnPage(ada, "rejected", "rejected"), calls("USER_DECLINED")}},
		"the step names people": {doc: asks, world: at(), moves: []move{
			calls("WAITING_FOR_USER", "0 of 2 of group:local:release, user:local:eve"), answersOnPage(eve, "approved", "open"), answersOnPage(owner, "approved", no), answersOnPage(bob, "approved", "approved"), calls(""),
		}},
		"two rules are met each": {doc: plainStep, world: at("{approval: {by: [group:release]}}", "{approval: {by: [group:eng], quorum: 2}}"), moves: []move{
			calls("WAITING_FOR_USER", "0 of 1 of group:local:release, and by 0 of 2 of group:local:eng"),
			answersOnPage(ada, "approved", "open", "Approved by 1 of 2 of group:local:eng"), answersOnPage(bob, "approved", again, "Enough people like you"), answersOnPage(eve, "approved", "approved"), calls(""),
		}},
		"login alone": {doc: plainStep, client: forms, world: at("{approval: {how: [login]}}"), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(program, "approved", no), answersOnPage(owner, "approved", "approved"), calls(""),
		}},
		"a form or a login": {doc: plainStep, client: forms, world: at("{approval: {how: [form, login]}}"), moves: []move{calls(toPerson), answers(yes, "", "approved"), byWay(run.BasisForm), sends(works, "")}},
		"one of them is too old": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), passes(50 * time.Minute), calls("WAITING_FOR_USER", "1 of 2"), passes(11 * time.Minute),
			calls("WAITING_FOR_USER", "0 of 2"), answersOnPage(bob, "approved", "open", "1 of 2"), answersOnPage(ada, "approved", "approved"), calls(""),
		}},
		"it is as old as the first": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), passes(50 * time.Minute), answersOnPage(bob, "approved", "approved"), passes(11 * time.Minute),
			calls("", "lapsed after 9m59"), calls("WAITING_FOR_USER", "0 of 2"),
		}},
		"the server was restarted": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), func(p *play) { p.Engine = p.another() }, answersOnPage(bob, "approved", "approved"), calls(""), sends(works, ""),
		}},
		"the rule is changed between": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), ruling("{approval: {by: [group:eng], quorum: 2}}"), calls("WAITING_FOR_USER", "0 of 2 of group:local:eng"),
			answersOnPage(bob, "approved", no), answersOnPage(eve, "approved", "open"), answersOnPage(ada, "approved", "approved"), calls(""),
		}},
		"the rule is changed after": {doc: plainStep, world: at("{approval: {by: [group:release]}}"), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "approved"), calls(""), ruling(twoOfRelease), sends(works, "WAITING_FOR_USER", "does not count any more", "0 of 2"), counted(0),
		}},
		"people are named after a link approved": {doc: gatedStep, world: at(), moves: []move{
			calls("WAITING_FOR_USER"), onPage("approved"), calls(""), ruling("{approval: {how: [login]}}"), sends(works, "WAITING_FOR_USER", "does not count any more"), counted(0), answersOnPage(eve, "approved", "approved"), calls(""),
		}},
		"the work is refused, and they are asked again": {doc: plainStep, world: at(twoOfRelease), moves: []move{
			calls("WAITING_FOR_USER"), answersOnPage(ada, "approved", "open"), answersOnPage(bob, "approved", "approved"), calls(""),
			sends(`{"ok":false}`, "COMMAND_FAILED"), calls("WAITING_FOR_USER", "0 of 2"),
		}},
		// The facts are those of the call that asked, not of who answers.
		"a rule for tokens": {doc: plainStep, world: func(t *testing.T) *world {
			w := peopled(t, `{when: 'caller.method == "token"', approval: {by: [group:release], quorum: 2}}`, `{when: '!("group:local:release" in caller.groups)', approval: {by: [group:eng]}}`)
			w.caller.Method, w.caller.Name = access.ByToken, "ci"
			return w
		}, moves: []move{
			calls("WAITING_FOR_USER", "0 of 2 of group:local:release, and by 0 of 1 of group:local:eng"), answersOnPage(bob, "approved", "open"), answersOnPage(ada, "approved", "approved"), calls(""),
			func(p *play) { p.caller.Method, p.caller.MemberOf = "", []string{"group:local:release"} }, sends(works, ""),
		}},
		"a rule for tokens, and none": {doc: plainStep, world: at(`{when: 'caller.method == "token" || caller.name != "" || size(caller.groups) > 0', approval: {quorum: 2}}`), moves: []move{sends(works, "")}},
		"nobody can log in any more": {doc: asks, world: at(), moves: []move{
			func(p *play) {
				s, release := p.setups.Hold()
				release()
				s.Realm = ""
				p.setups.replace(s)
			}, calls("RULES_CONFLICT", "approved only by login", "nobody can log in to this server"),
		}},
	})
}

func TestTheRecordNamesWhoApproved(t *testing.T) {
	w := peopled(t, twoOfRelease)
	uri, waits := w.gate(plainStep)
	w.waits = waits
	for _, c := range []access.Caller{ada, bob} {
		if _, err := w.says(c, "approved"); err != nil {
			t.Fatal(err)
		}
	}
	contains(t, w.moment(waits, string(run.PartlyApproved)).Verdict, "on the approval page, by user:local:ada", "Approved by 1 of 2 of group:local:release")
	contains(t, w.moment(waits, "approved").Verdict, "by user:local:ada, user:local:bob")
	w.code(w.next(uri, solve(w.next(uri, placeholder(waits)), `{"ok":true}`)), "")
	if _, err := w.redact(runOf(waits), 1); err != nil {
		t.Fatal(err)
	}
	a := w.state(runOf(waits)).Evidence[0].Approval
	if a == nil || len(a.Votes) != 2 || a.People() != "redacted, redacted" || a.Approver() != "2 people (login)" || !slices.Equal(a.Votes[1].As, []string{"group:local:release"}) {
		t.Errorf("approval = %+v, want that two people of the group approved, and not who", a)
	}
	contains(t, w.moment(waits, string(run.PartlyApproved)).Verdict, "on the approval page, by redacted")
	for _, m := range w.timeline(waits).Moments {
		if strings.Contains(m.Verdict, "user:local:") || strings.Contains(m.Verdict, "nobody was identified") {
			t.Errorf("after the redaction the timeline says %q", m.Verdict)
		}
	}
}

// TestNoSequenceOfWrongPeopleApproves plays answers of people in any order, with calls of the agent and
// changes of the rules between them.
func TestNoSequenceOfWrongPeopleApproves(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := peopled(t, twoOfRelease)
		uri, waits := w.gate(plainStep)
		w.waits = waits
		token := bob
		token.Method = access.ByToken
		wrong := []access.Caller{eve, owner, token, person("zoe", "releases"), person("release"), {}, {Principal: bob.Principal, MemberOf: bob.MemberOf}, ada}
		for range rapid.IntRange(1, 8).Draw(r, "answers") {
			c := rapid.SampledFrom(wrong).Draw(r, "who")
			_, err := w.says(c, "approved")
			if a := w.state(runOf(waits)).Step.Approval; a != nil {
				r.Fatalf("%s completed the approval (%v): %+v", c.Principal, err, a)
			}
			if rapid.Bool().Draw(r, "agent") {
				if shown := w.next(uri, placeholder(waits)); shown.ApprovalURL != "" {
					w.waits = shown
				}
			}
		}
		if votes := w.state(runOf(waits)).Step.Votes; len(votes) > 1 || len(votes) == 1 && votes[0].By != ada.Principal {
			r.Fatalf("votes = %+v, want at most that of the one right person", votes)
		}
	})
}

func TestPeopleAreNotAskedForWhereNobodyLogsIn(t *testing.T) {
	w := withPage(t, nil)
	doc := strings.Replace(gatedStep, `"approval_mode":"user"`, `"approval":{"quorum":2}`, 1)
	_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "test"})
	if fault.CodeOf(err) != fault.DocumentRefused || !strings.Contains(err.Error(), "nobody can log in to this server") {
		t.Errorf("mint = %v, want that nobody can log in", err)
	}
}
