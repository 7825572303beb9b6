package output

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Pages prints a list that arrives in pages, each page at once, so that a long list
// need not fit in memory: JSON and YAML as one list, text as one table.
type Pages[T any] struct {
	format *Format
	w      io.Writer
	head   []string // until it is printed, with the first page
	row    func(T) []string
	widths []int // of the columns so far
	any    bool  // something was printed
}

// NewPages begins a list. The head and the row of each item are for people.
func NewPages[T any](f *Format, w io.Writer, head []string, row func(T) []string) *Pages[T] {
	return &Pages[T]{format: f, w: w, head: head, row: row, widths: make([]int, len(head))}
}

// Print prints the next items. The columns of a table become wider where an item
// needs it, but never narrower.
func (p *Pages[T]) Print(items []T) error {
	if len(items) == 0 {
		return nil
	}
	if p.format.ForPeople() {
		return p.table(items)
	}
	list, err := p.list(items)
	if err != nil {
		return err
	}
	p.any = true
	_, err = io.WriteString(p.w, list)
	return err
}

// list is a part of the list.
func (p *Pages[T]) list(items []T) (string, error) {
	var printed strings.Builder
	if err := p.format.Print(&printed, items, nil); err != nil {
		return "", err
	}
	part, whole := strings.CutPrefix(printed.String(), "[\n")
	switch {
	case !whole: // block entries of YAML
		return part, nil
	case *p.format == FormatYAML: // it has what is escaped in JSON only
		printed.Reset()
		for _, item := range items {
			if err := p.format.Item(&printed, item, nil); err != nil {
				return "", err
			}
		}
		return printed.String(), nil
	case p.any:
		return ",\n" + strings.TrimSuffix(part, "\n]\n"), nil
	}
	return "[\n" + strings.TrimSuffix(part, "\n]\n"), nil
}

// End ends the list.
func (p *Pages[T]) End() error {
	var end string
	switch {
	case p.format.ForPeople() && p.head != nil:
		return p.table(nil)
	case !p.format.ForPeople() && !p.any:
		end = "[]\n"
	case *p.format == FormatJSON:
		end = "\n]\n"
	}
	_, err := io.WriteString(p.w, end)
	return err
}

func (p *Pages[T]) table(items []T) error {
	var rows [][]string
	if p.head != nil {
		rows, p.head = append(rows, p.head), nil
	}
	for _, item := range items {
		rows = append(rows, p.row(item))
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plain.Line(cell)
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			text.WriteString(cell)
			if i < len(row)-1 {
				text.WriteString(strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(p.w, text.String())
	return err
}
