// Package web is how our web pages look: one layout and one style sheet, for
// light and dark, phone and desk, without scripts and without anything from
// elsewhere. It knows nothing of what a page shows, and serves nothing.
package web

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.css
var style string

// The policy inside the page holds where a file is opened without a server;
// a server adds Policy, which is stricter.
const layout = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="same-origin">
<meta name="robots" content="noindex, nofollow">
<title>{{.Title}}</title>
<style>{{.Common}}</style>
{{- with .Style}}
<style>{{.}}</style>
{{- end}}
</head>
<body>
<main>
{{.Body}}
</main>
</body>
</html>
`

var outline = template.Must(template.New("page").Parse(layout))

// Page is one page. Its classes are those of page.css.
type Page struct {
	Title string
	// Style is put after the common style sheet; a page behind Policy has none.
	Style template.CSS
	// Body is the content of <main>. The caller escapes the texts of others.
	Body template.HTML
}

// Render writes the page as one self-contained HTML document.
func (p Page) Render(w io.Writer) error {
	err := outline.Execute(w, struct {
		Page
		Common template.CSS
	}{p, template.CSS(style)}) // #nosec G203 -- our own file
	if err != nil {
		return fmt.Errorf("render page %q: %w", p.Title, err)
	}
	return nil
}

// Policy is the Content-Security-Policy of a page without a Style of its own:
// nothing runs, nothing is loaded, forms go to this server only, and no other
// page frames it.
func Policy() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}
