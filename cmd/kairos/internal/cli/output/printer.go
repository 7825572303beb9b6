package output

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Moment is a time as people of this machine read it, with its offset from UTC.
func Moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 -07:00") }

// List writes process ids, or words, as people do.
func List[T any](all []T) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = fmt.Sprint(one)
	}
	return strings.Join(words, ", ")
}

// ShortSum is the beginning of a SHA-256 sum, enough to tell two apart.
func ShortSum(sum string) string { return sum[:min(12, len(sum))] }

// Document prints Markdown so that the next output starts on a line of its own.
func (p *Printer) Document(text string) { p.Verbatim(strings.TrimRight(text, "\n") + "\n") }

// Count is a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Table prints rows in columns.
func (p *Printer) Table(rows [][]string) {
	if p.Err != nil {
		return
	}
	t := newTable(p.W)
	for _, row := range rows {
		shown := make([]string, len(row))
		for i, cell := range row {
			shown[i] = plain.Line(cell)
		}
		fmt.Fprintln(t, strings.Join(shown, "\t"))
	}
	p.Err = t.Flush()
}

// Rows prints a table, the first row its head: in Markdown where that is asked
// for, otherwise in columns.
func (p *Printer) Rows(rows [][]string) {
	if !p.markdown {
		p.Table(rows)
		return
	}
	escape := strings.NewReplacer("|", `\|`, "\r", "", "\n", " ")
	for i, row := range rows {
		for _, cell := range row {
			p.Printf("| %s ", escape.Replace(cell))
		}
		p.Printf("|\n")
		if i == 0 {
			p.Printf("%s|\n", strings.Repeat("|---", len(row)))
		}
	}
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }

// Printer keeps the first error of many writes.
type Printer struct {
	W        io.Writer
	Err      error
	markdown bool // the reader asked for Markdown
}

// Printf prints texts of files, statements and the database so that they stay
// within their line and steer no terminal; only lines may have several.
func (p *Printer) Printf(format string, args ...any) {
	if p.Err != nil {
		return
	}
	shown := make([]any, len(args))
	for i, a := range args {
		shown[i] = harmless(a)
	}
	_, p.Err = fmt.Fprintf(p.W, format, shown...)
}

// Tell prints a note beside a command's result, such as a warning. A note
// that cannot be written is lost.
func Tell(w io.Writer, format string, args ...any) { (&Printer{W: w}).Printf(format, args...) }

// Lines is a text that may have several lines.
type Lines string

// Quotation is a text of somebody else, set off from the program's own lines as
// kairos run sets it off.
type Quotation string

// harmless is the argument without what could steer a terminal.
func harmless(a any) any {
	switch a := a.(type) {
	case Lines:
		return plain.Text(string(a))
	case Quotation:
		return "  | " + strings.ReplaceAll(plain.Text(strings.TrimSpace(string(a))), "\n", "\n  | ")
	case error:
		return plain.Line(a.Error())
	case fmt.Stringer:
		return plain.Line(a.String())
	}
	switch v := reflect.ValueOf(a); {
	case v.Kind() == reflect.String:
		return plain.Line(v.String())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8: // JSON
		return plain.Line(string(v.Bytes()))
	}
	return a
}

// Verbatim prints a text as it is where it goes to a file or a pipe, and at a
// terminal without what would steer that.
func (p *Printer) Verbatim(text string) {
	if IsTerminal(p.W) {
		text = plain.Text(text)
	}
	if p.Err == nil {
		_, p.Err = io.WriteString(p.W, text)
	}
}

// Field prints a name and its value on a line, unless the value is empty.
func (p *Printer) Field(name, value string) {
	if value == "" {
		return
	}
	p.Broken(strings.Repeat(" ", 18), "       %-10s %s", name, value)
}

// Broken is Printf of whole lines that break between words at the edge of the
// terminal; the rest of a broken line begins with indent.
func (p *Printer) Broken(indent, format string, args ...any) {
	var text strings.Builder
	Tell(&text, format, args...)
	p.Printf("%s\n", Lines(p.Wrapped(text.String(), indent)))
}

// Wrapped breaks the lines of a text between words at the edge of the terminal,
// where one is. The rest of a broken line begins with indent.
func (p *Printer) Wrapped(text, indent string) string { return tty.Wrap(text, tty.Width(p.W), indent) }

// Short is the text on one line of a terminal.
func Short(s string) string {
	const limit = 160
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// CompactJSON is JSON on one line.
func CompactJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return api.Readable(raw)
}
