package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// verbs are those that summaries begin with: one for each thing that commands do.
var verbs = []string{
	"Abandon", "Accept", "Add", "Allow", "Attest", "Begin", "Call", "Cancel", "Check", "Compare", "Copy", "Count", "Create", "Decide", "Delete", "Diagnose", "Explain", "Export", "Generate", "Import", "Inspect",
	"Install", "List", "Print", "Redact", "Reload", "Remove", "Restore", "Resume", "Revoke", "Run", "Search", "Serve", "Show", "Store", "Submit", "Update", "Verify", "Write",
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

// Every terminal shows a help without breaking its lines, except those that people
// copy as they are.
func TestHelpFitsATerminal(t *testing.T) {
	for _, c := range append(allCommands(Root("1")), Root("1")) {
		var out strings.Builder
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(out.String(), "Examples:\n")
		if !found && c.GroupID != "" {
			t.Errorf("the help of %s has no examples:\n%s", c.CommandPath(), &out)
		}
		for line := range strings.Lines(strings.ReplaceAll(out.String(), strings.Split(after, "\n\n")[0], "")) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > helpWidth && !strings.HasPrefix(line, "  kairos ") && !strings.HasPrefix(line, "  {") {
				t.Errorf("the help of %s has a line of %d characters: %s", c.CommandPath(), n, line)
			}
		}
	}
}

func TestHelpBreaksDescriptionsBelowTheirBeginning(t *testing.T) {
	text := "It shows\nall that\nthere is.\n\n  kairos  stays  as  it is\n\nFlags:\n  -o, --output FORMAT   text, json or yaml\n      --all             more"
	want := "It shows all that there is.\n\n  kairos  stays  as  it is\n\nFlags:\n  -o, --output FORMAT   text,\n                        json or\n                        yaml\n      --all             more"
	if got := fit(text, 32); got != want {
		t.Errorf("fit = %q, want %q", got, want)
	}
}

// Examples are what people copy: they name the command that they are about, or one
// below it, and its flags and arguments are taken.
func TestExamplesAreCommandsThatAreTaken(t *testing.T) {
	for _, c := range append(allCommands(Root("1")), Root("1")) {
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
			if err != nil || found.HasSubCommands() || !strings.HasPrefix(found.CommandPath()+" ", c.CommandPath()+" ") {
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
