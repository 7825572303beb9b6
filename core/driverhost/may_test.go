package driverhost_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestWhatADriverMayDo(t *testing.T) {
	person := driver.Descriptor{Role: driver.RoleCapability, Effect: driver.EffectReads, Features: []string{driver.FeatureHuman}}
	looks := driver.Descriptor{Role: driver.RoleCapability, Effect: driver.EffectReads}
	model := driver.Descriptor{Role: driver.RoleCapability, Effect: driver.EffectReads, Features: []string{driver.FeatureModel}}
	acts := driver.Descriptor{Role: driver.RoleCapability, Effect: driver.EffectChanges}
	previews := driver.Descriptor{Role: driver.RoleCapability, Effect: driver.EffectChanges, Features: []string{driver.FeaturePreview}}
	pure := driver.Descriptor{Role: driver.RoleChallenge, Effect: driver.EffectPure}
	none := driverhost.May{}
	for name, tc := range map[string]struct {
		may       driverhost.May
		d         driver.Descriptor
		text      string
		strongest driver.Provenance
		persons   bool
	}{
		"a person's answers, by default":   {nil, person, "answer-for-people, network", "", true},
		"a person's answers, observe only": {driverhost.May{driverhost.MayObserve}, person, "nothing; not answer-for-people, network", driver.AgentReported, false},
		"a person's answers, and no looks": {driverhost.May{driverhost.MayAnswerForPeople}, person, "answer-for-people; not network", driver.ClientAttested, true},
		"looks, by default":                {nil, looks, "observe, network", "", true},
		"looks, and may do nothing":        {none, looks, "nothing; not observe, network", driver.AgentReported, false},
		"a model, and may do nothing":      {none, model, "nothing; not network", driver.ModelGenerated, false},
		"acts, by default":                 {nil, acts, "observe, network; not change", "", true},
		"acts, and may":                    {driverhost.May{driverhost.MayChange}, acts, "change; not observe, network", driver.AgentReported, false},
		"acts on what is accepted":         {nil, previews, "observe, network", "", true},
		"pure, by default":                 {nil, pure, "network", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.may.Text(tc.d); got != tc.text {
				t.Errorf("it may %q, want %q", got, tc.text)
			}
			if l := tc.may.Limits(tc.d); l.MaxProvenance != tc.strongest || l.NoPerson == tc.persons {
				t.Errorf("its limits are %+v, want %q and %t", l, tc.strongest, tc.persons)
			}
		})
	}
}
