package output_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
)

type listed struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// TestPagesPrintWhatTheWholeListPrints: the size of the pages does not show.
func TestPagesPrintWhatTheWholeListPrints(t *testing.T) {
	all := []listed{{"the longest name", 1}, {"b<c", 22}, {"ü", 333}, {"last", 4}}
	head, row := []string{"NAME", "SIZE"}, func(l listed) []string { return []string{l.Name, strings.Repeat("#", l.Size%5)} }
	for _, format := range []output.Format{output.FormatText, output.FormatJSON, output.FormatYAML} {
		for n := range len(all) + 1 {
			items := append([]listed{}, all[:n]...)
			var want strings.Builder
			if err := format.Print(&want, items, func(p *output.Printer) {
				rows := [][]string{head}
				for _, l := range items {
					rows = append(rows, row(l))
				}
				p.Table(rows)
			}); err != nil {
				t.Fatal(err)
			}
			for size := 1; size <= len(all); size++ {
				if got := paged(t, format, head, row, items, size); got != want.String() {
					t.Errorf("%d items as %s in pages of %d (-want +got):\n%s", n, format, size, cmp.Diff(want.String(), got))
				}
			}
		}
	}
}

func paged(t *testing.T, format output.Format, head []string, row func(listed) []string, items []listed, size int) string {
	t.Helper()
	var got strings.Builder
	p := output.NewPages(&format, &got, head, row)
	for page := range slices.Chunk(items, size) {
		if err := p.Print(page); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	return got.String()
}

func TestPagesOfYAMLHideNothing(t *testing.T) {
	items := []listed{{"plain", 1}, {"hidden\u202e", 2}, {"plain again", 3}}
	got := paged(t, output.FormatYAML, nil, nil, items, 1)
	var back []listed
	if err := yaml.Unmarshal([]byte(got), &back); err != nil || !slices.Equal(items, back) {
		t.Errorf("%s is %v, %v, want %v", got, back, err, items)
	}
	if strings.Contains(got, "\u202e") {
		t.Errorf("%q has a hidden character", got)
	}
}
