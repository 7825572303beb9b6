package rules_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
)

// inRealm compiles the entries for a server to which people of the realm acme log in.
func inRealm(entries ...string) (*rules.Set, error) {
	src := source(entries...)
	src.Realm = "acme"
	return rules.Compile(src, locked())
}

func TestPeopleWhoApproveAreNarrowedAndNeverWidened(t *testing.T) {
	set, err := inRealm(
		"{type: shell, approval: {by: [group:release], quorum: 2}}", "{step: ship_it, approval: {by: [group:other:security, 'user:acme:ada']}}",
		"{tag: money, approval: {by: [group:release], quorum: 3, not: runner}}", "{type: shell, approval: {how: [form, page], quorum: 1}}", "{type: mcp, approval: {quorum: 9}}",
	)
	if err != nil {
		t.Fatal(err)
	}
	got := set.For(step("shell"))
	want := &rules.Approval{How: []string{protocol.HowLogin}, NotRunner: true, People: []rules.People{
		{Of: []string{"group:acme:release"}, Count: 3}, {Of: []string{"group:other:security", "user:acme:ada"}, Count: 1},
	}}
	if diff := cmp.Diff(want, got.Approval); diff != "" {
		t.Errorf("For() (-want +got):\n%s", diff)
	}
	const said = "approval by login, 3 people of group:acme:release, 1 person of group:other:security, user:acme:ada, not the runner"
	if got.Words() != said || got.Impossible() != "" {
		t.Errorf("Words() = %q, want %q; %s", got.Words(), said, got.Impossible())
	}
	own := rules.OfChallenge(protocol.Common{Approval: &protocol.Approval{By: []string{"group:qa"}, Quorum: 4}}, "acme")
	both := got.And(own).Approval
	if len(both.People) != 3 || both.People[2].Of[0] != "group:acme:qa" || both.People[2].Count != 4 || !both.NotRunner {
		t.Errorf("with the step: %+v", both)
	}
	forms := rules.OfChallenge(protocol.Common{Approval: &protocol.Approval{How: []string{"form"}}}, "acme")
	if got.And(forms).Impossible() == "" {
		t.Error("a step that takes forms only passes a rule for people who log in")
	}
}

func TestNearMissesOfPeople(t *testing.T) {
	for name, tc := range map[string]struct{ approval, want string }{
		"a group as text":       {`{by: "group:release"}`, `approval.by must be a list: write [group:release]`},
		"nobody":                {`{by: []}`, `approval.by is an empty list, so nobody could approve`},
		"null":                  {`{by: }`, `approval.by`},
		"a number":              {`{by: [7]}`, `approval.by must be a list of people and groups, and 7 is not one`},
		"a name":                {`{by: [ada]}`, `neither a person, such as user:acme:ada, nor a group`},
		"a person without":      {`{by: ["user:ada"]}`, `neither a person`},
		"a space":               {`{by: ["space:production"]}`, `neither a person`},
		"a role":                {`{by: ["role:admin"]}`, `neither a person`},
		"a group with a blank":  {`{by: ["group: release"]}`, `neither a person`},
		"an empty group":        {`{by: ["group:"]}`, `neither a person`},
		"a mapping":             {`{by: [{group: release}]}`, `approval.by must be a list of people and groups, and a mapping is not one`},
		"twice":                 {`{by: [group:a, group:a]}`, `has "group:a" twice`},
		"too many":              {`{by: [` + strings.Repeat("group:a, ", 40) + `]}`, `at most 32 are taken`},
		"runners":               {`{not: runners}`, `approval.not must be runner, whoever runs the protocol, not "runners"`},
		"a list of not":         {`{not: [runner]}`, `approval.not must be runner`},
		"not is true":           {`{not: true}`, `approval.not must be runner`},
		"a quorum of nobody":    {`{quorum: 0}`, `approval.quorum must be a whole number from 1 to 10, not 0`},
		"a negative quorum":     {`{quorum: -1}`, `from 1 to 10, not -1`},
		"a quorum as text":      {`{quorum: "2"}`, `from 1 to 10, not "2"`},
		"half a person":         {`{quorum: 2.5}`, `from 1 to 10, not 2.5`},
		"too large a quorum":    {`{quorum: 11}`, `from 1 to 10, not 11`},
		"a huge quorum":         {`{quorum: 99999999999999999999}`, `from 1 to 10`},
		"a quorum of all":       {`{quorum: all}`, `from 1 to 10, not "all"`},
		"a misspelt quorum":     {`{qourum: 2}`, `did you mean "quorum"?`},
		"people in forms":       {`{by: [group:release], how: [form]}`, `approval.how is form, but by, not and quorum count people`},
		"people in forms first": {`{how: [form, review], quorum: 2}`, `approval.how is form or review`},
		"login of another name": {`{how: [log-in]}`, `did you mean "login"?`},
		"not beside approval":   {`{}, not: runner`, `write it in approval: {not: ...}`},
	} {
		if _, err := inRealm("{approval: " + tc.approval + "}"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Compile(%s) = %v, want %s", name, tc.approval, err, tc.want)
		}
	}
	for _, fits := range []string{
		"{by: [group:release], not: runner, quorum: 2, how: [login]}", "{how: [page], quorum: 2}", "{how: [form, page, login]}", "{quorum: 1, how: [form]}", "{how: [login]}",
		"{by: [group:/eng/release]}", "{by: ['user:acme:ada@acme.example']}", "{quorum: 10}",
	} {
		if _, err := inRealm("{approval: " + fits + "}"); err != nil {
			t.Errorf("Compile(%s) = %v", fits, err)
		}
	}
}
