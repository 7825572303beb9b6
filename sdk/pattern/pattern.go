// Package pattern compiles regular expressions that others wrote, within a
// budget: a short expression can make a program of many megabytes, and each
// character of a text costs as much as the program is long.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Limits of an expression.
const (
	MaxBytes = 4 << 10
	// MaxSteps is how long its program may be. Each character of a text may cost as
	// many steps; A{1000} has about a thousand.
	MaxSteps = 10_000
	// MaxTotal is how long the programs of a Budget may be together.
	MaxTotal = 50_000
)

// runesPerStep is how many runes of character classes count as one step: \pL has
// more than a thousand, which take memory but hardly time.
const runesPerStep = 32

// Budget limits the expressions of one schema or document. The zero value is
// ready; it must not be used concurrently.
type Budget struct {
	used  int
	known map[string]*Pattern
}

// Pattern is a compiled expression that knows what matching costs.
type Pattern struct {
	*regexp.Regexp
	steps int
}

// Steps is how many steps each character of a text may cost.
func (p *Pattern) Steps() int { return p.steps }

// Compile compiles an expression. It refuses one that is too long or has more than
// MaxSteps, before it is compiled.
func Compile(text string) (*Pattern, error) { return new(Budget).Compile(text) }

// Compile is the function Compile within the budget: it also refuses an expression
// that makes the programs longer than MaxTotal. Each is compiled once.
func (b *Budget) Compile(text string) (*Pattern, error) {
	if known := b.known[text]; known != nil {
		return known, nil
	}
	steps, err := Steps(text)
	if err != nil {
		return nil, err
	}
	if b.used+steps > MaxTotal {
		return nil, fmt.Errorf("makes the expressions take more than %d steps for a character together; write smaller or fewer repetitions", MaxTotal)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, unreadable(err)
	}
	if b.known == nil {
		b.known = make(map[string]*Pattern)
	}
	b.used += steps
	b.known[text] = &Pattern{compiled, steps}
	return b.known[text], nil
}

// Steps is an upper bound of how many steps an expression takes for a character.
// It compiles nothing, and refuses an expression beyond the limits; steps then say
// what refusing it took.
func Steps(text string) (steps int, err error) {
	if len(text) > MaxBytes {
		return 1, fmt.Errorf("an expression must have at most %d bytes, not %d", MaxBytes, len(text))
	}
	steps = reading(text)
	if steps > MaxSteps {
		return 1, tooMany()
	}
	read, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return steps, unreadable(err)
	}
	if steps += stepsOf(read) + runesOf(read)/runesPerStep; steps > MaxSteps {
		return MaxSteps, tooMany()
	}
	return steps, nil
}

func tooMany() error {
	return fmt.Errorf("takes more than %d steps for a character; write smaller or fewer repetitions or classes", MaxSteps)
}

// reading is what parsing takes beyond what the result shows: classes that are
// merged, and wide ranges without case, which are gone through rune by rune.
func reading(text string) int {
	const bytesPerStep, class, wide = 16, 20, 500
	steps := len(text)/bytesPerStep + class*(strings.Count(text, `\p`)+strings.Count(text, `\P`))
	if !ignoresCase(text) {
		return steps
	}
	for i := range len(text) - 1 {
		if text[i] == '-' && (text[i+1] == '\\' || text[i+1] >= utf8.RuneSelf) {
			steps += wide
		}
	}
	return steps
}

// ignoresCase reports whether an expression has the flag i.
func ignoresCase(text string) bool {
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "(?")
		if !found {
			return false
		}
		if flags, _, _ := strings.Cut(after, ":"); strings.Contains(flags, "i") {
			return true // perhaps: a name may have an i, too
		}
		rest = after
	}
}

func unreadable(err error) error {
	return fmt.Errorf("is not a regular expression of RE2: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// stepsOf is about how long the compiled program is, and hardly ever less.
func stepsOf(re *syntax.Regexp) int {
	steps := 0
	for _, sub := range re.Sub {
		steps += stepsOf(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		steps = len(re.Rune)
	case syntax.OpRepeat:
		steps = steps*max(1, re.Min, re.Max) + max(1, re.Max-re.Min)
	case syntax.OpCapture:
		steps += 2
	case syntax.OpConcat:
	default: // a class, a star, an alternative for each of its parts, ...
		steps += max(1, len(re.Sub))
	}
	return min(steps, MaxSteps+1)
}

// runesOf is how many runes the character classes hold as parsed: copies made by
// repetitions share them.
func runesOf(re *syntax.Regexp) int {
	runes := 0
	if re.Op == syntax.OpCharClass {
		runes = len(re.Rune)
	}
	for _, sub := range re.Sub {
		runes += runesOf(sub)
	}
	return runes
}
