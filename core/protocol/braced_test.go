package protocol

import (
	"reflect"
	"strings"
	"testing"
)

// Searching only what is in double braces finds what the expressions find in the whole
// text.
func TestTemplatesAreFoundAsTheExpressionFindsThem(t *testing.T) {
	parts := []string{"{{", "}}", "{", "}", " ", "input.a", "steps.b.c", "input", "x", "\n", "é"}
	for n := range len(parts) * len(parts) * len(parts) * len(parts) {
		var b strings.Builder
		for range 4 {
			b.WriteString(parts[n%len(parts)])
			n /= len(parts)
		}
		for _, text := range []string{b.String(), "{{" + b.String() + "}}", "{{ input.a }}" + b.String() + "{{input.b}}"} {
			if got, want := templatesIn(text, -1), templatePattern.FindAllStringSubmatchIndex(text, -1); !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: templates at %v, want %v", text, got, want)
			}
		}
	}
}
