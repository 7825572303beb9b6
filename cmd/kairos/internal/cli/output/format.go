package output

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// PrintJSON writes v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	b, err := api.Encode(v, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(plain.JSON(b), '\n'))
	return err
}

// Format is how a command prints its result: as text for people, or as JSON and
// YAML, which have the same fields, and those are stable. The nine calls of
// agents have Markdown as well. The zero value is text.
type Format string

// The formats.
const (
	FormatText     Format = "text"
	FormatMarkdown Format = "md"
	FormatJSON     Format = "json"
	FormatYAML     Format = "yaml"
)

// AddTo gives a command and the commands below it the flag --output, and returns it.
func (f *Format) AddTo(cmd *cobra.Command) *cobra.Command {
	return f.flag(cmd, formatFlag{f, []Format{FormatText, FormatJSON, FormatYAML}})
}

// AddToTool is AddTo for a command that prints the reply of one of the nine calls.
func (f *Format) AddToTool(cmd *cobra.Command) *cobra.Command {
	return f.flag(cmd, formatFlag{f, []Format{FormatText, FormatMarkdown, FormatJSON, FormatYAML}})
}

func (f *Format) flag(cmd *cobra.Command, v formatFlag) *cobra.Command {
	*f = FormatText
	cmd.PersistentFlags().VarP(v, "output", "o", v.choices())
	complete := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var names []cobra.Completion
		for _, format := range v.formats {
			names = append(names, string(format))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

// formatFlag is --output of a command.
type formatFlag struct {
	*Format
	formats []Format
}

func (f formatFlag) choices() string {
	last := len(f.formats) - 1
	return fmt.Sprintf("%s or %s", List(f.formats[:last]), f.formats[last])
}

// String implements pflag.Value.
func (f formatFlag) String() string {
	if f.Format == nil {
		return ""
	}
	return string(*f.Format)
}

// Type implements pflag.Value.
func (f formatFlag) Type() string { return "FORMAT" }

// Set implements pflag.Value.
func (f formatFlag) Set(s string) error {
	if slices.Contains(f.formats, Format(s)) {
		*f.Format = Format(s)
		return nil
	}
	return fmt.Errorf("must be %s", f.choices())
}

// ForPeople reports whether the format is neither JSON nor YAML.
func (f *Format) ForPeople() bool { return *f != FormatJSON && *f != FormatYAML }

// Print writes v as JSON or YAML, or calls people for people.
func (f *Format) Print(w io.Writer, v any, people func(p *Printer)) error {
	switch *f {
	case FormatJSON:
		return PrintJSON(w, v)
	case FormatYAML:
		var b strings.Builder
		if err := PrintJSON(&b, v); err != nil {
			return err
		}
		out, err := yaml.JSONToYAML([]byte(b.String()))
		if err != nil {
			return fmt.Errorf("encode as YAML: %w", err)
		}
		if bytes.ContainsFunc(out, func(r rune) bool { return r != '\n' && plain.Hidden(r) }) {
			out = []byte(b.String()) // JSON is YAML, and has escapes for what is hidden
		}
		_, err = w.Write(out)
		return err
	}
	p := &Printer{W: w, markdown: *f == FormatMarkdown}
	people(p)
	return p.Err
}

// Reply prints what a call returned, for people by the given function, or returns its error.
func Reply[T any](cmd *cobra.Command, f *Format, people func(*Printer, T)) func(T, error) error {
	return func(reply T, err error) error {
		if err != nil {
			return err
		}
		return f.Print(cmd.OutOrStdout(), reply, func(p *Printer) { people(p, reply) })
	}
}

// Item prints one of many results, such as a log line: JSON and YAML one a line.
func (f *Format) Item(w io.Writer, v any, people func(p *Printer)) error {
	if f.ForPeople() {
		return f.Print(w, v, people)
	}
	b, err := api.Encode(v, "")
	if err != nil {
		return err
	}
	lead := ""
	if *f == FormatYAML {
		lead = "- " // a flow mapping is YAML
	}
	_, err = fmt.Fprintf(w, "%s%s\n", lead, plain.JSON(b))
	return err
}
