package filecheck

import (
	"context"
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/pattern"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// deadlineCheckInterval is the number of characters between deadline checks.
const deadlineCheckInterval = 64

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
	if p.read++; p.read%deadlineCheckInterval == 0 && p.ctx.Err() != nil || len(p.rest) == 0 {
		return 0, 0, io.EOF
	}
	r, size := utf8.DecodeRuneInString(string(p.rest[:min(len(p.rest), utf8.UTFMax)]))
	p.rest = p.rest[size:]
	return r, size, nil
}

// compileSchema reads a schema whose patterns match in the context's time, and
// reports whether it has any.
func compileSchema(ctx context.Context, raw []byte) (_ *schema.Schema, patterned bool, err error) {
	var budget pattern.Budget
	s, err := schema.CompileWith(raw, func(text string) (schema.Expression, error) {
		patterned = true
		compiled, err := budget.Compile(text)
		if err != nil {
			return nil, err
		}
		return timed{ctx, compiled.Regexp}, nil
	})
	return s, patterned, err
}

// timed is a pattern of a schema in a look's time.
type timed struct {
	ctx context.Context //nolint:containedctx // it lives for one look
	*regexp.Regexp
}

// MatchString implements schema.Expression.
func (t timed) MatchString(text string) bool { return matchesIn(t.ctx, t.Regexp, text) }
