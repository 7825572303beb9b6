package driverhost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Permission is something that the operator lets a driver do.
type Permission string

// The words of drivers.settings.NAME.may. Nothing of it goes beyond the driver's descriptor.
const (
	// MayObserve: what it looked at itself is recorded as server-observed.
	MayObserve Permission = "observe"
	// MayAnswerForPeople: what it brings back counts as a person's own answer.
	MayAnswerForPeople Permission = "answer-for-people"
	// MayUseNetwork: its process reaches the network.
	MayUseNetwork Permission = "network"
	// MayChange: it acts on the world whenever it is called. A driver with
	// driver.FeaturePreview does not need it: it acts on what is accepted.
	MayChange Permission = "change"
)

// Permissions lists them all.
func Permissions() []Permission {
	return []Permission{MayObserve, MayAnswerForPeople, MayUseNetwork, MayChange}
}

// Concerns reports whether a driver with this descriptor could make use of it.
func (p Permission) Concerns(d driver.Descriptor) bool {
	switch p {
	case MayObserve:
		return d.Effect != driver.EffectPure && !d.Has(driver.FeatureHuman) && !d.Has(driver.FeatureModel) &&
			!d.Has(driver.FeatureAgent) && !d.Has(driver.FeatureClientReview)
	case MayAnswerForPeople:
		return d.Has(driver.FeatureHuman)
	case MayChange:
		return changesUnasked(d)
	}
	return true
}

// May lists what the operator lets a driver do; nil: all but MayChange.
type May []Permission

// Has reports whether it is permitted.
func (m May) Has(p Permission) bool {
	if m == nil {
		return p != MayChange
	}
	return slices.Contains(m, p)
}

// Of lists what a driver with this descriptor may do, and what it could do and may not.
func (m May) Of(d driver.Descriptor) (may, not []Permission) {
	may = []Permission{}
	for _, p := range Permissions() {
		switch {
		case !p.Concerns(d):
		case m.Has(p):
			may = append(may, p)
		default:
			not = append(not, p)
		}
	}
	return may, not
}

// Text tells people what a driver with this descriptor may do, and what it could do and
// may not.
func (m May) Text(d driver.Descriptor) string { return MayText(m.Of(d)) }

// MayText tells people what a driver may do, and what it could do and may not.
func MayText(may, not []Permission) string {
	text := "nothing"
	if len(may) > 0 {
		text = joinPermissions(may)
	}
	if len(not) > 0 {
		text += "; not " + joinPermissions(not)
	}
	return text
}

func joinPermissions(all []Permission) string {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = string(p)
	}
	return strings.Join(words, ", ")
}

// Limits are those of a driver with this descriptor.
func (m May) Limits(d driver.Descriptor) Limits {
	l := Limits{NoPerson: !m.Has(MayAnswerForPeople)}
	switch human := d.Has(driver.FeatureHuman); {
	case human && l.NoPerson:
		l.MaxProvenance = driver.AgentReported
	case m.Has(MayObserve):
	case human:
		l.MaxProvenance = driver.ClientAttested
	case d.Has(driver.FeatureModel):
		l.MaxProvenance = driver.ModelGenerated
	default:
		l.MaxProvenance = driver.AgentReported
	}
	return l
}

// mayNotChange is why a driver that acts whenever it is called is not called, and the line
// that lets it.
func mayNotChange(name string, m May, d driver.Descriptor) error {
	may, _ := m.Of(d)
	return fmt.Errorf("it changes something whenever it is called, which the configuration does not permit; if it may: drivers.settings.%s.may: [%s]",
		name, joinPermissions(append(may, MayChange)))
}
