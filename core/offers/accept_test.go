package offers_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestNearMisses(t *testing.T) {
	could, changes := offers.Step{Step: 1, Label: "Pay", Driver: "till"}, offers.Step{Step: 1, Label: "Pay", Driver: "till", Effect: driver.EffectChanges}
	cannot := offers.Step{Step: 2, Label: "Ship", Driver: "van", Cannot: "no fuel"}
	for name, tc := range map[string]struct {
		offer offers.Offer
		steps []int
		looks bool
		want  string
	}{
		"a step that is not there": {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could}}, []int{1, 4}, false, `there is no step 4: "Shop" has 3; nothing was accepted`},
		"step 0":                   {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could}}, []int{0}, false, `there is no step 0: "Shop" has 3; nothing was accepted`},
		"a step of the agent":      {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could}}, []int{3}, false, `no driver could do step 3 of "Shop" itself; nothing was accepted`},
		"a driver that cannot now": {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could, cannot}}, []int{2}, false, `no driver could do step 2 of "Shop" itself; nothing was accepted`},
		"nothing can be done now":  {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{cannot}}, nil, false, `no driver could do a step of "Shop" itself`},
		"nothing to accept":        {offers.Offer{Title: "Shop", Total: 3}, nil, false, `no driver could do a step of "Shop" itself, so there is nothing to accept`},
		"looks of what changes":    {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{changes}}, []int{1}, true, `step 1 of "Shop" would change something, so looks alone cannot be accepted of it; nothing was accepted`},
		"nothing only looks":       {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{changes, cannot}}, nil, true, `each step of "Shop" that a driver could do would change something, so looks alone cannot be accepted`},
	} {
		t.Run(name, func(t *testing.T) {
			in := offers.AcceptInput{Offer: tc.offer, Steps: tc.steps, LooksOnly: tc.looks}
			if err := in.Check(); fault.CodeOf(err) != fault.InvalidArgument || err.Error() != "INVALID_ARGUMENT: "+tc.want {
				t.Errorf("Check(%v) = %v, want %s", tc.steps, err, tc.want)
			}
		})
	}
	if err := (offers.AcceptInput{Offer: offers.Offer{Total: 2, Steps: []offers.Step{could, cannot}}}).Check(); err != nil {
		t.Errorf("Check of what one driver could do = %v", err)
	}
}
