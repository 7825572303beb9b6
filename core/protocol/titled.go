package protocol

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Titled is the document of a file with a title.
type Titled struct {
	Document []byte
	// Title that was put in as an H1, and From, where it was taken from; both empty if the
	// document has a title.
	Title, From string
	// At is the 1-based line of the H1; Added is 1 if the lines below it moved by one.
	At, Added int
}

// TitleFile gives a document that has no title the one in the key name of its front
// matter, else the name of its file. Clients of the wire title such a document by its
// first heading, which in a file is the heading of a step, or the head of a table.
// Without a file it changes nothing.
func TitleFile(document []byte, file string) Titled {
	whole := Titled{Document: document}
	src, problem := source(document)
	if problem != nil || file == "" {
		return whole
	}
	front, rest, found := takeFrontMatter(src)
	if found.failed || front.title != "" || strings.TrimSpace(rest) == "" {
		return whole
	}
	text := outlineOf(rest)
	if text.excess != "" || slices.ContainsFunc(text.headings, func(h heading) bool { return h.level == 1 && h.text != "" }) {
		return whole
	}
	whole.Title, whole.From = front.name, `the key "name" of the front matter`
	if whole.Title == "" {
		whole.Title, whole.From = titleOfFile(file), "the name of the file"
	}
	at := front.end
	if at > 0 {
		at = min(at+1, len(src)) // the end of the line of dashes
	}
	before, below := src[:at], src[at:]
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	whole.At, whole.Added = strings.Count(before, "\n")+1, 1
	if first, after, _ := strings.Cut(below, "\n"); strings.TrimSpace(first) == "" && before+below != "" {
		below, whole.Added = after, 0
	}
	whole.Document = []byte(before + "# " + whole.Title + "\n" + below)
	return whole
}

// titleOfFile is the name of a file without its extension, or of its folder if the file
// is named for its form.
func titleOfFile(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if slices.Contains([]string{"skill", "readme", "index"}, strings.ToLower(name)) {
		if folder := filepath.Base(filepath.Dir(file)); folder != "." && folder != string(filepath.Separator) {
			name = folder
		}
	}
	return cmp.Or(orNothing(trimClosing(cut(strings.Join(strings.Fields(name), " ")))), "Memory")
}

// Finding says where the title was taken from; nil: the document has one.
func (t Titled) Finding() *Diagnostic {
	if t.Title == "" {
		return nil
	}
	return &Diagnostic{Severity: driver.SeverityWarning, Line: 1, Column: 1, Message: fmt.Sprintf(
		"the document has no H1: its title is %q, from %s; write it as a line # %s", t.Title, t.From, t.Title)}
}

// Line is the line in the file of a line of the document.
func (t Titled) Line(line int) int {
	if t.Added > 0 && line >= t.At {
		return max(line-t.Added, 1)
	}
	return line
}

// ParseFile is Parse for a document that was read from a file, which gives it a title if
// it has none. All lines are those of the file.
func ParseFile(document []byte, file string) ([]Chain, []Diagnostic) {
	titled := TitleFile(document, file)
	chains, found := Parse(titled.Document)
	for i := range found {
		found[i].Line = titled.Line(found[i].Line)
	}
	if d := titled.Finding(); d != nil {
		found = append([]Diagnostic{*d}, found...)
	}
	for i := range chains {
		for k := range chains[i].Steps {
			s := &chains[i].Steps[k]
			s.Line, s.ChallengeLine = titled.Line(s.Line), titled.Line(s.ChallengeLine)
			for n := range s.Anchors {
				at := &s.Anchors[n].Place
				at.Line = titled.Line(at.Line)
			}
		}
	}
	return chains, found
}
