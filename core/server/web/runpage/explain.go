// Package runpage draws a run as a web page: its steps in order, for each the
// part of the decision tree that was walked, and what was asked and answered.
// It is pure: it is given what is known of a run and writes HTML. The page needs
// no scripts and nothing from elsewhere, so it can be sent to somebody.
package runpage

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/server/web"
)

var (
	//go:embed body.html
	bodyText string
	//go:embed style.css
	style string
)

var body = template.Must(template.New("body").Funcs(template.FuncMap{
	"clean": clean, "took": took, "clock": clock, "icon": icon, "words": words,
}).Parse(bodyText))

// Run is what is known of a run.
type Run struct {
	Timeline  archive.Timeline
	Decisions []archive.Decided
	// Tree is the one in use now. Where another one decided, what is drawn is
	// only what that one looked at.
	Tree decision.Outline
}

// Page writes the run as one self-contained HTML document.
func (r Run) Page(w io.Writer) error {
	var b strings.Builder
	if err := body.Execute(&b, r.view()); err != nil {
		return fmt.Errorf("draw run %s: %w", r.Timeline.Run.ID, err)
	}
	p := web.Page{
		Title: clean(r.Timeline.Run.Title) + ": what happened",
		Style: template.CSS(style),       // #nosec G203 -- our own file
		Body:  template.HTML(b.String()), // #nosec G203 -- made by html/template
	}
	return p.Render(w)
}
