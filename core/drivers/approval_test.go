package drivers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func step(keys string) protocol.Common {
	c, err := protocol.CommonOf([]byte("{" + keys + "}"))
	if err != nil {
		panic(err)
	}
	return c
}

func ruled(how string, phrases ...string) rules.Demand {
	d := rules.Demand{Approval: &rules.Approval{Phrases: phrases}, By: []string{"rules[0], line 7"}}
	if how != "" {
		d.Approval.How = strings.Fields(how)
	}
	return d
}

func TestEveryDemandOfAnApprovalIsMet(t *testing.T) {
	var none rules.Demand
	for name, tc := range map[string]struct {
		rules       rules.Demand
		step        protocol.Common
		mode        driver.ApprovalMode
		how, phrase string
		says        string // why nobody can approve
	}{
		"nothing is demanded":             {none, step(``), driver.ApprovalAuto, "form review page", "", ""},
		"the step asks for a person":      {none, step(`"approval_mode":"user"`), driver.ApprovalUser, "form review page", "", ""},
		"an empty object does":            {none, step(`"approval":{}`), driver.ApprovalUser, "form review page", "", ""},
		"the step narrows":                {none, step(`"approval":{"how":["page","form"]}`), driver.ApprovalUser, "form page", "", ""},
		"a rule asks for a person":        {ruled(""), step(``), driver.ApprovalUser, "form review page", "", ""},
		"a rule overrules auto":           {ruled(""), step(`"approval_mode":"auto"`), driver.ApprovalUser, "form review page", "", ""},
		"a rule narrows":                  {ruled("page"), step(``), driver.ApprovalUser, "page", "", ""},
		"both narrow":                     {ruled("page form"), step(`"approval":{"how":["form","review"]}`), driver.ApprovalUser, "form", "", ""},
		"a rule adds no way":              {ruled("agent form"), step(``), driver.ApprovalUser, "form", "", ""},
		"a step adds no way":              {none, step(`"approval":{"how":["agent"]}`), driver.ApprovalUser, "", "", "the step is approved only by agent, and the server takes form or review or page"},
		"the two contradict each other":   {ruled("page"), step(`"approval":{"how":["form"]}`), driver.ApprovalUser, "", "", "the operator's rules (rules[0], line 7) take only page"},
		"rules contradict each other":     {rules.Demand{Approval: &rules.Approval{How: []string{}}, By: []string{"rules[0], line 7", "rules[1], line 8"}}, step(``), driver.ApprovalUser, "", "", "rules[1], line 8) take only no way"},
		"the phrase of the step":          {none, step(`"approval":{"phrase":"ship it"}`), driver.ApprovalUser, "form review page", "ship it", ""},
		"the phrase of a rule":            {ruled("", "deploy"), step(``), driver.ApprovalUser, "form review page", "deploy", ""},
		"the same phrase twice":           {ruled("", "ship it", "ship it"), step(`"approval":{"phrase":"ship it"}`), driver.ApprovalUser, "form review page", "ship it", ""},
		"two phrases are typed in a line": {ruled("", "deploy"), step(`"approval":{"phrase":"ship it"}`), driver.ApprovalUser, "form review page", "deploy ship it", ""},
	} {
		server := drivers.DefaultHow()
		a := drivers.ApprovalOf(drivers.ApprovalSources{Server: server, Rules: tc.rules, Step: tc.step, Type: driver.ApprovalAuto})
		if a.Mode != tc.mode || strings.Join(a.How, " ") != tc.how || a.Phrase != tc.phrase {
			t.Errorf("%s: %s by %q with %q, want %s by %q with %q", name, a.Mode, a.How, a.Phrase, tc.mode, tc.how, tc.phrase)
		}
		if why := a.Conflict(); (why != "") != (tc.says != "") || !strings.Contains(why, tc.says) {
			t.Errorf("%s: Conflict = %q, want %q", name, why, tc.says)
		}
		if !slices.Equal(server, drivers.DefaultHow()) {
			t.Errorf("%s: the server's ways were changed", name)
		}
	}
}

func TestNearMisses(t *testing.T) {
	known := []string{"agent", "form", "page", "review", "signature"}
	for name, tc := range map[string]struct {
		how  []string
		says string
	}{
		"a driver's own way":        {[]string{"signature"}, ""},
		"the default":               {drivers.DefaultHow(), ""},
		"a misspelt way":            {[]string{"from"}, `"from" is not a way in which a driver of drivers.lock answers approvals (there are agent, form, page, review, signature, login); did you mean "form"?`},
		"another case":              {[]string{"Form"}, `did you mean "form"?`},
		"a misspelt part of a way":  {[]string{"logon"}, `did you mean "login"?`},
		"a way that nobody has yet": {[]string{"passkey"}, "(there are agent, form, page, review, signature, login)"},
		"the name of the driver":    {[]string{"elicitation"}, "(there are agent, form, page, review, signature, login)"},
		"the old word of the agent": {[]string{"trust_agent"}, "(there are agent, form, page, review, signature, login)"},
		"space around":              {[]string{" page"}, `did you mean "page"?`},
	} {
		err := drivers.CheckHow(tc.how, known)
		if (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: CheckHow(%q) = %v, want %q", name, tc.how, err, tc.says)
		}
	}
	if err := drivers.CheckHow(drivers.DefaultHow(), []string{"form"}); err != nil {
		t.Errorf("the default is refused where sampling is not installed: %v", err)
	}
}
