package pattern_test

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/pattern"
)

func TestExpressionsAreWeighedBeforeTheyAreCompiled(t *testing.T) {
	literal := strings.Repeat("a.b.", 45)
	for name, tc := range map[string]struct{ text, wrong string }{
		"plain":                       {`^[a-z]+$`, ""},
		"a thousand of a class":       {`^[\p{L}\p{N} ]{1,1000}$`, ""},
		"a long literal":              {strings.Repeat("x", 4000), ""},
		"a thousand of 180 bytes":     {`(` + literal + `){1000}`, "more than 10000 steps"},
		"nested repetitions":          {`(?:(?:a{10}){10}){10}(?:[ab]{100}){9}(?:abcdefghij){900}`, "more than 10000 steps"},
		"too long":                    {strings.Repeat("x", pattern.MaxBytes+1), "at most 4096 bytes, not 4097"},
		"classes of a thousand runes": {strings.Repeat(`\pL`, 1300), "more than 10000 steps"},
		"wide ranges without case":    {strings.Repeat(`(?i:[A-\x{1E942}])`, 227), "more than 10000 steps"},
		"a Cyrillic range":            {`(?i)^[а-яё -]{1,100}$`, ""},
		"classes that merge":          {strings.Repeat(`\PL|`, 1000), "more than 10000 steps"},
		"not an expression":           {`(`, "is not a regular expression of RE2"},
		"a million copies":            {`((a{100}){100}){100}`, "is not a regular expression of RE2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pattern.Compile(tc.text)
			if (err != nil) != (tc.wrong != "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("Compile(%.40q) = %v, want %q", tc.text, err, tc.wrong)
			}
		})
	}
}

func TestABudgetHoldsForAllExpressionsTogether(t *testing.T) {
	var b pattern.Budget
	for i := range 100 {
		if _, err := b.Compile(fmt.Sprintf(`a{999}%d`, i)); err != nil {
			if i < 40 || !strings.Contains(err.Error(), "more than 50000 steps for a character together") {
				t.Fatalf("Compile number %d = %v, want it refused near 50000 steps", i, err)
			}
			return
		}
	}
	t.Error("100 expressions of 1000 steps were compiled, want the budget to end")
}

// The bound that is computed from the text is hardly below what is compiled.
func TestStepsBoundTheProgram(t *testing.T) {
	for _, text := range []string{
		`a`, `abc`, `a*`, `(a|b)*`, `(?i)straße{3,7}`, `[a-z]{1,200}`, `a{3,}`, `(.*a.*b.*c.*d.*){20}$`, `(?:a?){50}`, `x|y|zz|`, `\b\w+\b`, `(a{0,9}b{2,5}){7}`,
	} {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		const ends = 2 // of every program: fail and match
		if steps, err := pattern.Steps(text); err != nil || steps+ends < len(program.Inst)*9/10 {
			t.Errorf("Steps(%q) = %d, %v, want at least about %d", text, steps, err, len(program.Inst)-ends)
		}
	}
}
