// Package quality says how much a step is worth, from its text alone and from
// how it went when somebody ran it. It is pure: what a step was rated before is
// kept by the store, and nothing here decides whether a step was passed.
//
// The measures are rules of thumb over English and format, not a judgement of
// the content. A plain step has 20 of 40 points, which gives the scores that
// clients know: 2 when it is stored, 6 after a success, 1 after a failure.
package quality

import (
	"math"
	"strings"
)

// Tier is a class of quality. The text is part of the wire.
type Tier string

// The tiers, best first.
const (
	Excellent Tier = "excellent"
	High      Tier = "high"
	Standard  Tier = "standard"
	Basic     Tier = "basic"
)

// Grade is what a step is rated with.
type Grade struct {
	Score int // at least 0; 2 for a plain step that is stored
	Tier  Tier
}

// Measure is a step's text on four scales of 0 to 10, each 5 for a plain text.
type Measure struct {
	Specificity int // says exactly what to do, with commands, numbers and names
	ExpertValue int // says what only experience tells: reasons, limits, dangers
	Breadth     int // holds beyond one machine and one day
	Longevity   int // will hold next year
}

// measured bounds how much of a text is looked at, in bytes: a rating must not
// cost more than the step it rates.
const measured = 16 << 10

// Assess measures the text of a step, its heading included.
func Assess(text string) Measure {
	text = head(text)
	s := source{text, lower(text)}
	return Measure{
		Specificity: scale(s, concrete, vague),
		ExpertValue: scale(s, experience, everyday),
		Breadth:     scale(s, general, particular),
		Longevity:   scale(s, lasting, fleeting),
	}
}

func head(text string) string {
	if len(text) > measured {
		text = strings.ToValidUTF8(text[:measured], "")
	}
	return text
}

// scale is 5, half a point up for each sign that speaks for the text and a
// whole point down for each that speaks against it: what is missing says more.
func scale(s source, up, down []sign) int {
	return min(max(5+count(s, up)/2-count(s, down), 0), 10)
}

func count(s source, signs []sign) int {
	n := 0
	for _, in := range signs {
		if in(s) {
			n++
		}
	}
	return n
}

// Total is the sum of the scales, 0 to 40.
func (m Measure) Total() int { return m.Specificity + m.ExpertValue + m.Breadth + m.Longevity }

// Stored is the grade of a step nobody has run.
func (m Measure) Stored() Grade { return m.grade(1, 60, 35) }

// Succeeded is the grade of a step that was run with success.
func (m Measure) Succeeded() Grade { return m.grade(3, 40, 25) }

// Failed is the grade of a step that was run and failed.
func (m Measure) Failed() Grade { return m.grade(0.5, 60, 35) }

// grade weighs the total with how the step went. The bounds are those of the
// two upper tiers, which a success reaches more easily.
func (m Measure) grade(weight, excellent, high float64) Grade {
	points := float64(m.Total()) * weight
	g := Grade{Score: int(math.Round(max(1, math.Round(float64(m.Total())/10)) * weight)), Tier: Basic}
	switch {
	case points >= excellent:
		g.Tier = Excellent
	case points >= high:
		g.Tier = High
	case points >= 20:
		g.Tier = Standard
	}
	return g
}
