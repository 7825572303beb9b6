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
		return p == driver.ServerObserved && (d.Effect == driver.EffectReads || d.Effect == driver.EffectEffects)
	case d.Has(driver.FeatureAgent):
		return p == driver.AgentReported
	case p == driver.ClientAttested, p == driver.LinkHolder:
		return d.Has(driver.FeatureHuman)
	case p == driver.ServerObserved:
		return !d.Has(driver.FeatureClientReview) && !d.Has(driver.FeatureModel)
	}
	return true
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
