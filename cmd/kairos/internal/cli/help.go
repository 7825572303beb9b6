package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is how wide a help is: what every terminal has.
const helpWidth = 80

// printHelp prints the help of a command.
func printHelp(cmd *cobra.Command, _ []string) {
	text := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n\n" + cmd.UsageString()
	fmt.Fprint(cmd.OutOrStdout(), fit(text, helpWidth))
}

// described is a line of a list of flags, up to where the description begins.
var described = regexp.MustCompile(`^ *(?:-\w, )?--.*?\S {2,}`)

// fit breaks lines that are wider than the width: a paragraph anew, and the
// description of a flag below its beginning. Lines that are indented are not part of
// a paragraph.
func fit(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, broken(strings.Join(paragraph, " "), width))
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		head := described.FindString(line)
		switch {
		case head != "":
			end()
			indent := strings.Repeat(" ", len(head))
			out = append(out, head+strings.ReplaceAll(broken(line[len(head):], width-len(head)), "\n", "\n"+indent))
		case line == "" || strings.HasPrefix(line, " ") || strings.HasSuffix(line, ":"):
			end()
			out = append(out, line)
		default:
			paragraph = append(paragraph, line)
		}
	}
	end()
	return strings.Join(out, "\n")
}

// broken is a text on lines of at most the width, unless a word is wider.
func broken(text string, width int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}
