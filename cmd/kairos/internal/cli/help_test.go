package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// verbs are those that summaries begin with: one for each thing that commands do.
var verbs = []string{
	"Abandon", "Attest", "Begin", "Call", "Check", "Compare", "Count", "Create", "Decide", "Delete", "Diagnose", "Explain", "Export", "Import", "Inspect",
	"Install", "List", "Print", "Redact", "Reload", "Remove", "Restore", "Resume", "Run", "Search", "Serve", "Show", "Store", "Submit", "Update", "Verify", "Write",
}

// allCommands are the commands below cmd.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, below := range cmd.Commands() {
		all = append(append(all, below), allCommands(below)...)
	}
	return all
}

func TestEveryCommandSaysWhatItDoesInOneLine(t *testing.T) {
	commands := allCommands(Root("1"))
	if len(commands) < 50 {
		t.Fatalf("there are %d commands, want them all", len(commands))
	}
	for _, c := range commands {
		verb, _, _ := strings.Cut(c.Short, " ")
		if !slices.Contains(verbs, strings.Trim(verb, ",")) {
			t.Errorf("%s: %q does not begin with one of the verbs", c.CommandPath(), c.Short)
		}
		if len(c.Short) > 72 || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: %q is not one short line without a full stop", c.CommandPath(), c.Short)
		}
		if c.Parent() == c.Root() && c.GroupID == "" {
			t.Errorf("%s is in no group of the help", c.CommandPath())
		}
	}
}

// word is a word of a command line, with quotes or without.
var word = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)

// Examples are what people copy: they name the command that they are about, and
// its flags and arguments are taken.
func TestExamplesAreCommandsThatAreTaken(t *testing.T) {
	for i, c := range allCommands(Root("1")) {
		if c.HasSubCommands() {
			continue
		}
		tried := false
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			line, _, _ = strings.Cut(line, " #")
			args, ours := strings.CutPrefix(line, "kairos ")
			if !ours {
				continue
			}
			var words []string
			for _, w := range word.FindAllString(args, -1) {
				words = append(words, strings.ReplaceAll(w, "'", ""))
			}
			// Flags keep what was parsed, so that each example needs commands of its own.
			fresh := Root("1")
			found, rest, err := fresh.Find(words)
			if err != nil || found.CommandPath() != allCommands(fresh)[i].CommandPath() {
				t.Errorf("%s: the example %q is one of %v (%v)", c.CommandPath(), line, found.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: the example %q is refused: %v", c.CommandPath(), line, err)
				continue
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: the example %q is refused: %v", c.CommandPath(), line, err)
			}
			tried = true
		}
		if !tried {
			t.Errorf("%s has no example that works", c.CommandPath())
		}
	}
}
