package driverrpc_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func TestNearMissesOfWays(t *testing.T) {
	for name, tc := range map[string]struct {
		ways, features []string
		says           string
	}{
		"a person's own way":      {[]string{"signature"}, []string{driver.FeatureHuman}, ""},
		"the shipped ways":        {[]string{"form", "page"}, []string{driver.FeatureHuman}, ""},
		"no way":                  {nil, []string{driver.FeatureHuman}, "if, and only if"},
		"a way twice":             {[]string{"form", "form"}, []string{driver.FeatureHuman}, "repeated"},
		"capitals":                {[]string{"Form"}, []string{driver.FeatureHuman}, "does not match"},
		"login":                   {[]string{"login"}, []string{driver.FeatureHuman}, "kept for the host"},
		"a form without a person": {[]string{"form"}, nil, `needs the feature "human"`},
		"an own way without one":  {[]string{"oracle"}, []string{driver.FeatureModel}, `needs the feature "human"`},
		"the agent as a form":     {[]string{"form"}, []string{driver.FeatureAgent, driver.FeatureHuman}, `by "agent" alone`},
		"a person as the agent":   {[]string{"agent"}, []string{driver.FeatureHuman}, `needs the feature "agent"`},
		"a review without one":    {[]string{"review"}, []string{driver.FeatureHuman}, `needs the feature "client_review"`},
		"too many":                {strings.Fields("a b c d e f g h i"), []string{driver.FeatureHuman}, "at most 8"},
	} {
		err := driverrpc.CheckDescriptor(driver.Descriptor{
			Name: "asker", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindApproval}, Effect: driver.EffectPure,
			AnswersBy: tc.ways, Features: tc.features,
		})
		if said := err != nil && strings.Contains(err.Error(), tc.says); (tc.says == "") != (err == nil) || tc.says != "" && !said {
			t.Errorf("%s: CheckDescriptor with answers_by %q = %v, want %q", name, tc.ways, err, tc.says)
		}
	}
}

func TestARenderedApprovalSaysInWhichWay(t *testing.T) {
	several, one := driver.Descriptor{Name: "a", AnswersBy: []string{"form", "page"}}, driver.Descriptor{Name: "b", AnswersBy: []string{"review"}}
	for name, tc := range map[string]struct {
		d          driver.Descriptor
		asked      []string
		said, want string
	}{
		"one way, not said":         {one, []string{"review"}, "", "review"},
		"one way that is not asked": {one, []string{"form"}, "", ""},
		"several, said":             {several, []string{"form", "page"}, "page", "page"},
		"several, not said":         {several, []string{"form", "page"}, "", ""},
		"several, one asked":        {several, []string{"page"}, "", ""},
		"another than asked":        {several, []string{"page"}, "form", ""},
		"a way of others":           {several, []string{"review"}, "review", ""},
	} {
		got, err := tc.d.Answers(tc.asked, driver.RenderResult{How: tc.said})
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: Answers(%q, %q) = %q, %v, want %q", name, tc.asked, tc.said, got, err, tc.want)
		}
	}
}
