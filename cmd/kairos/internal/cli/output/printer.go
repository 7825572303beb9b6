// Package output prints results and errors: as text for people, and as JSON and
// YAML for programs. Texts of others cannot steer the terminal.
package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
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

// shortID is how many digits of an id are shown. The beginning of a UUIDv7 is
// the time, so runs of one minute differ at the end alone.
const shortID = 8

// shortestID is how many digits at least name something.
const shortestID = 4

// ShortID is the end of a UUID or of a URI that ends in one.
func ShortID(id string) string { return id[max(0, len(id)-shortID):] }

// EndsID reports whether the argument is the end of an id, long enough to be meant.
func EndsID(id, arg string) bool {
	return len(arg) >= shortestID && strings.HasSuffix(id, strings.ToLower(arg)) &&
		strings.Trim(strings.ToLower(arg), "0123456789abcdef-") == ""
}

// Ending is the one of all that an argument names by the end of its id. An error calls them by
// their noun and names the command that lists them.
func Ending[T any](all []T, id func(T) string, arg, noun, list string) (one T, err error) {
	var found []T
	var ids []string
	for _, each := range all {
		if EndsID(id(each), arg) {
			found, ids = append(found, each), append(ids, id(each))
		}
	}
	switch len(found) {
	case 0:
		return one, fmt.Errorf("there is no %s %.80q: `%s` lists them", noun, arg, list)
	case 1:
		return found[0], nil
	}
	return one, fmt.Errorf("%.80q names %d %ss; name one by its id:\n  %s", arg, len(ids), noun, strings.Join(ids, "\n  "))
}

// Digest is a digest: its beginning at a terminal, and whole where a program reads it.
func (p *Printer) Digest(sum string) string {
	if IsTerminal(p.W) {
		return ShortSum(sum)
	}
	return sum
}

// ID is an id in a list: short at a terminal, and whole where a program reads it.
func (p *Printer) ID(id string) string {
	if IsTerminal(p.W) {
		return ShortID(id)
	}
	return id
}

// HasColours reports whether a terminal is at the stream that shows colours, and
// whose user wants them (https://no-color.org).
func HasColours(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// IsTerminal reports whether a person is at the stream. The null device is a
// character device, too, and nobody is there.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Commands is a text that the server words for agents with the commands of people
// in it: "call kairos_next with URI" becomes "run `kairos runs next URI`".
func Commands(text string) string {
	return toolCall.ReplaceAllStringFunc(text, func(found string) string {
		m := toolCall.FindStringSubmatch(found)
		command := "`kairos " + cmp.Or(commandOf[m[2]], "call "+m[2])
		if m[3] != "" {
			command += " " + m[3]
		}
		if m[4] != "" {
			command += " --run-id " + m[4]
		}
		return strings.NewReplacer("calling", "running", "call", "run").Replace(m[1]) + command + "`"
	})
}

// commandOf are the commands that do what the tools of agents do.
var commandOf = map[string]string{
	"kairos_search": "search", "kairos_begin": "runs begin", "kairos_next": "runs next", "kairos_attest": "runs attest",
	"kairos_mint": "mint", "kairos_update": "protocols update", "kairos_delete": "protocols delete", "kairos_dump": "protocols dump", "kairos_spaces": "spaces list",
}

// toolCall finds a tool, the verb before it, and URI and run behind it.
var toolCall = regexp.MustCompile(`\b(call(?:ing)? )?(` + strings.Join(toolset.Names(), "|") + `)\b(?: with (kairos://mem/[0-9a-f-]{36})(?: and run_id ([0-9a-f-]{36}))?)?`)

// ExitStatus is 1 for an error that has none of its own.
func ExitStatus(err error) int {
	var with withStatus
	if errors.As(err, &with) {
		return with.status
	}
	return 1
}

// Message is what a person at a terminal can use of an error. Its first line is
// the program's; the others are indented, because a text that the error quotes
// may have lines that look like the program's.
func Message(err error) string {
	text := err.Error()
	var f *fault.Error
	if errors.As(err, &f) {
		text += "\n  next: " + f.ForPeople()
	}
	return continuation.ReplaceAllString(plain.Text(Commands(text)), "\n  $1")
}

var continuation = regexp.MustCompile(`\n([^ \n])`)

// withStatus is an error with the exit status that tells it from others.
type withStatus struct {
	status int
	error
}

// Failure is err with an exit status of its own.
func Failure(status int, err error) error { return withStatus{status, err} }

func (e withStatus) Unwrap() error { return e.error }

// WriteFile writes to a file that only its owner reads, or for "" and "-" to standard
// output. what is written is for the error.
func WriteFile(stdout io.Writer, path, what string, data []byte) error {
	if path == "" || path == "-" {
		p := &Printer{W: stdout}
		p.Verbatim(string(data))
		return p.Err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write the %s: %s is a directory", what, path)
	}
	if err := files.Replace(path, data, 0o600); err != nil {
		return fmt.Errorf("write the %s into %s: %w", what, path, err)
	}
	return nil
}
