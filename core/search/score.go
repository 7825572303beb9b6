package search

const (
	// MaxInexact is the highest score of a chain whose name is not the query.
	MaxInexact = 0.83
	// MaxUnsure is the highest score of a chain whose whole name is not in the
	// query.
	MaxUnsure = sureAlone - 0.001
)

var (
	scoreExact = [...]float64{fieldTitle: 1, fieldAltTitle: 0.98, fieldSlug: 0.97, fieldTrigger: 0.98}
	scoreLoose = [...]float64{fieldTitle: 0.95, fieldAltTitle: 0.94, fieldSlug: 0.93, fieldTrigger: 0.94}
)

// The rankers in explanations.
const (
	RankerWords  = "words"
	RankerPrefix = "prefix"
	RankerTypo   = "typo"
	RankerVector = "vector"
)

// nameScore returns the score of a chain whose name is the query, or 0.
func (q Query) nameScore(names []name) float64 {
	if q.name.exact == 0 {
		return 0
	}
	best := 0.0
	for i, n := range names {
		f := min(field(i), fieldTrigger) //nolint:gosec // a small number
		switch {
		case n.exact == q.name.exact, n.exact != 0 && n.alike == q.name.alike:
			best = max(best, scoreExact[f])
		case n.exact != 0 && n.loose == q.name.loose:
			best = max(best, scoreLoose[f])
		}
	}
	return best
}

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
