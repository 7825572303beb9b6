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
	"regexp"
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

// The signs that move a scale. Each counts once however often it occurs, so
// that a long text is not better than a short one that says the same.
var (
	concrete = signs(
		"`[^`\n]+`",            // code
		"(?m)^\\s*(?:```|~~~)", // a block of code
		`\b\d+(?:\.\d+)?\s*(?:%|ms|s|min|h|MB|GB)\b`, // a quantity
		`(?m)^\s*(?:\d+[.)]|[-*+])\s`,                // a list
	)
	vague = signs(
		`(?i)\b(?:something|somehow|stuff|things|whatever)\b`, `(?i)\b(?:etc\.?|and so on)(?:\s|$)`,
		`(?i)\b(?:maybe|perhaps|probably|roughly)\b`, `(?i)\bas (?:needed|appropriate|necessary)\b`,
	)
	experience = signs(
		`(?i)\b(?:because|so that|otherwise|or else)\b`, `(?i)\b(?:never|avoid|do not|don't|beware|careful)\b`,
		`(?i)\b(?:unless|except|only if|edge case|corner case)\b`, `(?i)\b(?:roll ?back|recover|undo|fall ?back|revert)\b`,
	)
	everyday   = signs(`(?i)\b(?:hello,? world|lorem ipsum|foo ?bar)\b`, `(?i)\b(?:todo|tbd|fixme)\b`)
	general    = signs(`(?i)\b(?:any|every|each|all|whichever)\b`, `(?i)\b(?:for example|such as|e\.g\.)`)
	particular = signs(
		`(?i)\b(?:localhost|127\.0\.0\.1)\b`, `(?:^|\s)/(?:home|Users|tmp)/\S+`, `\b\d{1,3}(?:\.\d{1,3}){3}\b`,
		`[\w.+-]+@[\w-]+\.\w+`,
	)
	lasting  = signs(`(?i)\b(?:always|principle|invariant|policy|convention)\b`, `(?i)\b(?:must|has to|have to)\b`)
	fleeting = signs(
		`(?i)\b(?:today|tomorrow|yesterday|this week|right now|currently|at the moment)\b`, `(?i)\b(?:temporar(?:y|ily)|workaround|hack)\b`,
		`\b(?:19|20)\d\d-\d\d-\d\d\b`, `(?i)\b(?:deprecated|legacy|beta)\b`,
	)
)

func signs(patterns ...string) []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		out[i] = regexp.MustCompile(p)
	}
	return out
}

// measured bounds how much of a text is looked at, in bytes: a rating must not
// cost more than the step it rates.
const measured = 16 << 10

// Assess measures the text of a step, its heading included.
func Assess(text string) Measure {
	text = head(text)
	return Measure{
		Specificity: scale(text, concrete, vague),
		ExpertValue: scale(text, experience, everyday),
		Breadth:     scale(text, general, particular),
		Longevity:   scale(text, lasting, fleeting),
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
func scale(text string, up, down []*regexp.Regexp) int {
	return min(max(5+count(text, up)/2-count(text, down), 0), 10)
}

func count(text string, signs []*regexp.Regexp) int {
	n := 0
	for _, s := range signs {
		if s.MatchString(text) {
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
