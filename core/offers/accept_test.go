package offers_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/offers"
)

func TestNearMisses(t *testing.T) {
	could, cannot := offers.Step{Step: 1, Label: "Pay", Driver: "till"}, offers.Step{Step: 2, Label: "Ship", Driver: "van", Cannot: "no fuel"}
	for name, tc := range map[string]struct {
		offer offers.Offer
		steps []int
		want  string
	}{
		"a step that is not there": {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could}}, []int{1, 4}, `there is no step 4: "Shop" has 3; nothing was accepted`},
		"step 0":                   {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could}}, []int{0}, `there is no step 0: "Shop" has 3; nothing was accepted`},
		"a step of the agent":      {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could}}, []int{3}, `no driver could do step 3 of "Shop" itself; nothing was accepted`},
		"a driver that cannot now": {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{could, cannot}}, []int{2}, `no driver could do step 2 of "Shop" itself; nothing was accepted`},
		"nothing can be done now":  {offers.Offer{Title: "Shop", Total: 3, Steps: []offers.Step{cannot}}, nil, `no driver could do a step of "Shop" itself`},
		"nothing to accept":        {offers.Offer{Title: "Shop", Total: 3}, nil, `no driver could do a step of "Shop" itself, so there is nothing to accept`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.offer.Check(tc.steps); fault.CodeOf(err) != fault.InvalidArgument || err.Error() != "INVALID_ARGUMENT: "+tc.want {
				t.Errorf("Check(%v) = %v, want %s", tc.steps, err, tc.want)
			}
		})
	}
	if err := (offers.Offer{Total: 2, Steps: []offers.Step{could, cannot}}).Check(nil); err != nil {
		t.Errorf("Check of what one driver could do = %v", err)
	}
}
