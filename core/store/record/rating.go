package record

import (
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
)

// counts maps an outcome to its counters, in the order of Rating.Counts.
var counts = map[library.Outcome][4]int64{
	library.OutcomeStored:    {},
	library.OutcomeRetrieved: {1, 0, 0, 0},
	library.OutcomeSuccess:   {0, 1, 0, 0},
	library.OutcomePartial:   {0, 0, 1, 0},
	library.OutcomeFailure:   {0, 0, 0, 1},
}

// Rating is what a rating adds to its row. An empty Tier or Rater keeps the stored one
// and what belongs to it.
type Rating struct {
	library.Rating
	Counts [4]int64 // retrieved, succeeded, partly, failed
	At     int64
}

// Ratings checks ratings and returns their rows, in one order everywhere, so that two
// calls never wait for each other.
func Ratings(ratings []library.Rating) ([]Rating, error) {
	rows := make([]Rating, 0, len(ratings))
	for _, r := range ratings {
		n, ok := counts[r.Outcome]
		if !ok {
			return nil, fault.New(fault.InvalidArgument, "a rating with outcome %q", r.Outcome)
		}
		row := Rating{Rating: r, At: Nanos(r.At)}
		if r.Tier == "" {
			row.Score = 0
		}
		if r.Rater == "" {
			row.At, row.Context = 0, ""
		}
		for i, one := range n {
			row.Counts[i] = one * max(1, r.Times)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b Rating) int { return strings.Compare(a.Step, b.Step) })
	return rows, nil
}
