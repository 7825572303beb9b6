package search

// The scores from which the best match may be begun without asking.
const (
	sureAlone = 0.6 // where the next one is sureLead behind
	sureLead  = 0.1
	sureNamed = 0.9 // where it is ahead at all: it was asked for by name
)

// Sure reports whether the best match of a search may be begun without asking
// which protocol is meant. next is the score of the second-best match; 0: there
// is none.
func Sure(best, next float64) bool {
	return best >= sureNamed && best > next || best >= sureAlone && best-next >= sureLead
}
