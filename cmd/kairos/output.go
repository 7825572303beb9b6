package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// format is how a command prints its result: for people, or as JSON and YAML,
// which have the same fields, and those are stable. For people it is text, but
// Markdown where the nine calls of agents are printed, because steps and
// protocols are Markdown. The zero value is for people.
type format string

const (
	formatText     format = "text"
	formatMarkdown format = "md"
	formatJSON     format = "json"
	formatYAML     format = "yaml"
)

// addTo gives a command and the commands below it the flag --output.
func (f *format) addTo(cmd *cobra.Command) { f.flag(cmd, formatText, formatText) }

// addToTool is addTo for a command that prints the reply of one of the nine calls.
func (f *format) addToTool(cmd *cobra.Command, usual format) { f.flag(cmd, usual, formatMarkdown) }

func (f *format) flag(cmd *cobra.Command, usual, people format) {
	*f = usual
	v := formatFlag{format: f, people: people}
	cmd.PersistentFlags().VarP(v, "output", "o", v.choices())
	complete := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []cobra.Completion{string(people), string(formatJSON), string(formatYAML)}, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag is there
	}
}

// formatFlag is --output of a command.
type formatFlag struct {
	*format
	people format // what people read there
}

func (f formatFlag) choices() string { return fmt.Sprintf("%s, json or yaml", f.people) }

// String implements pflag.Value.
func (f formatFlag) String() string {
	if f.format == nil {
		return ""
	}
	return string(*f.format)
}

// Type implements pflag.Value.
func (f formatFlag) Type() string { return "FORMAT" }

// Set implements pflag.Value.
func (f formatFlag) Set(s string) error {
	switch v := format(s); v {
	case f.people, formatJSON, formatYAML:
		*f.format = v
		return nil
	}
	return fmt.Errorf("must be %s", f.choices())
}

// forPeople: neither JSON nor YAML.
func (f *format) forPeople() bool { return *f != formatJSON && *f != formatYAML }

// print writes v as JSON or YAML, or calls people for people.
func (f *format) print(w io.Writer, v any, people func(p *printer)) error {
	switch *f {
	case formatJSON:
		return printJSON(w, v)
	case formatYAML:
		var b strings.Builder
		if err := printJSON(&b, v); err != nil {
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
	p := &printer{w: w}
	people(p)
	return p.err
}

// item prints one of many results, such as a log line: JSON and YAML one a line.
func (f *format) item(w io.Writer, v any, people func(p *printer)) error {
	if f.forPeople() {
		return f.print(w, v, people)
	}
	b, err := api.Encode(v, "")
	if err != nil {
		return err
	}
	lead := ""
	if *f == formatYAML {
		lead = "- " // a flow mapping is YAML
	}
	_, err = fmt.Fprintf(w, "%s%s\n", lead, plain.JSON(b))
	return err
}

// table prints rows in columns.
func (p *printer) table(rows [][]string) {
	if p.err != nil {
		return
	}
	t := newTable(p.w)
	for _, row := range rows {
		shown := make([]string, len(row))
		for i, cell := range row {
			shown[i] = plain.Line(cell)
		}
		fmt.Fprintln(t, strings.Join(shown, "\t"))
	}
	p.err = t.Flush()
}

// markdown prints a table of Markdown, the first row its head.
func (p *printer) markdown(rows [][]string) {
	escape := strings.NewReplacer("|", `\|`, "\r", "", "\n", " ")
	for i, row := range rows {
		for _, cell := range row {
			p.printf("| %s ", escape.Replace(cell))
		}
		p.printf("|\n")
		if i == 0 {
			p.printf("%s|\n", strings.Repeat("|---", len(row)))
		}
	}
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
