package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// format is how a command prints its result. The zero value is text for people;
// JSON and YAML have the same fields, which are stable.
type format string

const (
	formatText format = "text"
	formatJSON format = "json"
	formatYAML format = "yaml"
)

// addTo gives a command and the commands below it the flag --output.
func (f *format) addTo(cmd *cobra.Command, usual format) {
	*f = usual
	cmd.PersistentFlags().VarP(f, "output", "o", "text, json or yaml")
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "FORMAT" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch v := format(s); v {
	case formatText, formatJSON, formatYAML:
		*f = v
		return nil
	}
	return fmt.Errorf("must be text, json or yaml")
}

// print writes v as JSON or YAML, or calls text for people.
func (f *format) print(w io.Writer, v any, text func(p *printer)) error {
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
		_, err = w.Write(out)
		return err
	}
	p := &printer{w: w}
	text(p)
	return p.err
}

// item prints one of many results, such as a log line: JSON and YAML one a line.
func (f *format) item(w io.Writer, v any, text func(p *printer)) error {
	if *f == formatText || *f == "" {
		return f.print(w, v, text)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	lead := ""
	if *f == formatYAML {
		lead = "- " // a flow mapping is YAML
	}
	_, err = fmt.Fprintf(w, "%s%s\n", lead, b)
	return err
}

// table prints rows in columns.
func (p *printer) table(rows [][]string) {
	if p.err != nil {
		return
	}
	t := newTable(p.w)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	p.err = t.Flush()
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
