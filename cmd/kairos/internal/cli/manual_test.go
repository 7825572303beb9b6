package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the table of commands into the manual")

// The tables of the manual lie between these lines.
const (
	manual        = "../../../../docs/reference/commands.md"
	commandsBegin = "<!-- commands: written by go test ./cmd/kairos/internal/cli -run Manual -update -->\n"
	commandsEnd   = "<!-- end of commands -->\n"
)

func TestTheManualListsEveryCommandWithItsFlags(t *testing.T) {
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(b), commandsBegin)
	have, after, ends := strings.Cut(rest, commandsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the commands", manual)
	}
	want := commandTables(Root("1"))
	if *update {
		if err := os.WriteFile(manual, []byte(before+commandsBegin+want+commandsEnd+after), 0o644); err != nil { //nolint:gosec // a page that everybody reads
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(have, want); diff != "" {
		t.Errorf("docs/reference/commands.md is out of date; write it with `go test ./cmd/kairos/internal/cli -run Manual -update` (-page +commands):\n%s", diff)
	}
}

// commandTables is a table for each group of the help.
func commandTables(root *cobra.Command) string {
	var b strings.Builder
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| command | does | flags |\n|---|---|---|\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID {
				commandRows(&b, c)
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

func commandRows(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	for _, below := range c.Commands() {
		commandRows(b, below)
	}
	if c.HasSubCommands() {
		return
	}
	var flags []string
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); f.Name != "help" && !f.Hidden {
			flags = append(flags, strings.TrimSpace("`--"+f.Name+" "+name)+"`")
		}
	})
	line := strings.TrimSuffix(c.UseLine(), " [flags]")
	fmt.Fprintf(b, "| %s | %s | %s |\n", escaped("`"+line+"`"), escaped(c.Short), escaped(strings.Join(flags, ", ")))
}

// escaped keeps text within its cell of a table.
func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
