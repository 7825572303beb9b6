package filecheck

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/schema"
)

// maxProgram bounds the steps of an expression, or of all those of a schema:
// each character of a file may cost as many. A{1000} has a thousand.
const maxProgram = 10_000

// breath is after how many characters the time is looked at.
const breath = 64

// compileExpression refuses an expression with more steps than are left.
func compileExpression(text string, left int) (_ *regexp.Regexp, steps int, err error) {
	if len(text) > maxRegex {
		return nil, 0, fmt.Errorf("an expression must have at most %d bytes", maxRegex)
	}
	read, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, unreadable(err)
	}
	if steps = stepsOf(read); steps > left {
		return nil, 0, fmt.Errorf("takes more than %d steps for a character; write smaller or fewer repetitions", maxProgram)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, 0, unreadable(err)
	}
	return compiled, steps, nil
}

func unreadable(err error) error {
	return fmt.Errorf("is not a regular expression of RE2: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// stepsOf is about how long the compiled program is.
func stepsOf(re *syntax.Regexp) int {
	steps := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		steps = 1
	}
	for _, sub := range re.Sub {
		steps += stepsOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		steps *= max(1, re.Min, re.Max)
	}
	return min(steps, maxProgram+1)
}

// matchesIn reports whether the expression matches the text in time. Nothing
// does when the context is done.
func matchesIn[T []byte | string](ctx context.Context, re *regexp.Regexp, text T) bool {
	return re.MatchReader(&patientReader[T]{ctx: ctx, rest: text}) && ctx.Err() == nil
}

// patientReader ends when the context does. Through a reader the matcher goes
// over the text once, so this is what bounds it.
type patientReader[T []byte | string] struct {
	ctx  context.Context //nolint:containedctx // it lives for one match
	rest T
	read int
}

// ReadRune implements io.RuneReader.
func (p *patientReader[T]) ReadRune() (rune, int, error) {
	if p.read++; p.read%breath == 0 && p.ctx.Err() != nil || len(p.rest) == 0 {
		return 0, 0, io.EOF
	}
	r, size := utf8.DecodeRuneInString(string(p.rest[:min(len(p.rest), utf8.UTFMax)]))
	p.rest = p.rest[size:]
	return r, size, nil
}

// compileSchema reads a schema whose patterns match in the context's time, and
// reports whether it has any.
func compileSchema(ctx context.Context, raw []byte) (_ *schema.Schema, patterned bool, err error) {
	left, seen := maxProgram, make(map[string]timed)
	s, err := schema.CompileWith(raw, func(text string) (schema.Expression, error) {
		if known, ok := seen[text]; ok {
			return known, nil
		}
		compiled, steps, err := compileExpression(text, left)
		if err != nil {
			return nil, err
		}
		left -= steps
		seen[text] = timed{ctx, compiled}
		return seen[text], nil
	})
	return s, len(seen) > 0, err
}

// timed is a pattern of a schema in a look's time.
type timed struct {
	ctx context.Context //nolint:containedctx // it lives for one look
	*regexp.Regexp
}

// MatchString implements schema.Expression.
func (t timed) MatchString(text string) bool { return matchesIn(t.ctx, t.Regexp, text) }
