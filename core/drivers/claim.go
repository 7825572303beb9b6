package drivers

import (
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// MayClaim reports whether a driver with this descriptor may give an answer, or
// a verdict, with this provenance.
func MayClaim(d driver.Descriptor, p driver.Provenance) bool {
	switch {
	case d.Role == driver.RoleChallenge:
		return p == driver.ServerObserved && looks(d)
	case d.Has(driver.FeatureAgent):
		return p == driver.AgentReported
	case p == driver.ClientAttested, p == driver.LinkHolder:
		return d.Has(driver.FeatureHuman)
	case p == driver.ServerObserved:
		return looks(d) && !d.Has(driver.FeatureClientReview) && !d.Has(driver.FeatureModel)
	}
	return true
}

// looks reports whether the driver looks at the world: the answer of one that does not
// follows from its request alone, so it observed nothing.
func looks(d driver.Descriptor) bool {
	return d.Effect == driver.EffectReads || d.Effect == driver.EffectChanges
}

// Supplies reports whether a capability driver with this descriptor can supply
// evidence of this provenance: a person has to be asked, and the world looked at.
func Supplies(d driver.Descriptor, p driver.Provenance) bool {
	switch p {
	case driver.ServerObserved:
		return !d.Has(driver.FeatureHuman) && MayClaim(d, p)
	case driver.ModelGenerated:
		return d.Has(driver.FeatureModel)
	case driver.AgentReported:
		return d.Has(driver.FeatureAgent)
	}
	return MayClaim(d, p)
}

// StrongestClaim returns the strongest provenance that MayClaim allows, or "" for a
// driver that only judges.
func StrongestClaim(d driver.Descriptor) driver.Provenance {
	var strongest driver.Provenance
	for _, p := range run.Provenances() {
		if MayClaim(d, p) {
			strongest = p
		}
	}
	return strongest
}
