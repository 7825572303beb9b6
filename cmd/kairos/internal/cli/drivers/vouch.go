package drivers

import (
	"strings"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// vouches is the strongest provenance that a driver can be recorded with: what its
// descriptor allows, within the operator's limit. Empty: it vouches for nothing itself.
func vouches(d driver.Descriptor, l driverhost.Limits) driver.Provenance {
	strongest := drivers.StrongestClaim(d)
	if l.MaxProvenance == "" {
		return strongest
	}
	return run.Weakest([]driver.Provenance{strongest, l.MaxProvenance})
}

// answersForPersons reports whether what a driver says can count as a person's answer.
func answersForPersons(d driver.Descriptor, l driverhost.Limits) bool {
	return d.Has(driver.FeatureHuman) && !l.NoPerson
}

// vouchesText is for people. barred: the operator does not let it answer for a person.
func vouchesText(p driver.Provenance, barred bool) string {
	text := "for nothing itself: it judges the evidence of others"
	if p != "" {
		text = "at most " + string(p)
	}
	if barred {
		text += ", not for a person"
	}
	return text
}

// limitsText is what the operator has limited, or empty.
func limitsText(l driverhost.Limits) string {
	var parts []string
	if l.MaxProvenance != "" {
		parts = append(parts, "max_provenance "+string(l.MaxProvenance))
	}
	if l.NoPerson {
		parts = append(parts, "human false")
	}
	return strings.Join(parts, ", ")
}
