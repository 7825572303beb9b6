package output

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command of the nine calls prints what scripts expect where no person is at
// standard output, and each format on request.
func TestTheNineCallsHaveTextAndMarkdown(t *testing.T) {
	rows := [][]string{{"TITLE", "STEPS"}, {"Release a version", "5"}}
	for flag, want := range map[string]string{
		"text": "TITLE              STEPS\nRelease a version  5\n",
		"md":   "| TITLE | STEPS |\n|---|---|\n| Release a version | 5 |\n",
		"json": "[\n  [\n    \"TITLE\",\n    \"STEPS\"\n  ],\n  [\n    \"Release a version\",\n    \"5\"\n  ]\n]\n",
	} {
		f, cmd := new(Format), &cobra.Command{Use: "search"}
		f.AddToTool(cmd, FormatJSON)
		if err := cmd.ParseFlags([]string{"-o", flag}); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := f.Print(&out, rows, func(p *Printer) { p.Rows(rows) }); err != nil || out.String() != want {
			t.Errorf("-o %s prints %q (%v), want %q", flag, out.String(), err, want)
		}
	}
	f, cmd := new(Format), &cobra.Command{Use: "runs"}
	f.AddTo(cmd)
	if err := cmd.ParseFlags([]string{"-o", "md"}); err == nil || !strings.Contains(err.Error(), "must be text, json or yaml") {
		t.Errorf("-o md where there is no Markdown: %v, want the formats that there are", err)
	}
}
