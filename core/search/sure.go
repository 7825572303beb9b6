package search

// The scores from which the best match may be begun without asking the user.
const (
	sureAlone = 0.6 // if the next match is sureLead behind
	sureLead  = 0.1
	sureNamed = 0.9 // if it is ahead at all: its name was in the query
)

// Sure reports whether the best match of a search may be begun without asking
// which protocol is meant. next is the score of the second-best match, or 0.
func Sure(best, next float64) bool {
	return best >= sureNamed && best > next || best >= sureAlone && best-next >= sureLead
}
