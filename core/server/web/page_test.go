package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"regexp"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/web"
)

func render(t *testing.T, p web.Page) string {
	t.Helper()
	var b strings.Builder
	if err := p.Render(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTitleIsEscapedAndBodyIsNot(t *testing.T) {
	html := render(t, web.Page{Title: `</title><script>x`, Body: template.HTML(`<h1 class="x">Run</h1>`)})
	if strings.Contains(html, "<script") {
		t.Errorf("the title became markup:\n%s", html)
	}
	if !strings.Contains(html, `<h1 class="x">Run</h1>`) {
		t.Errorf("the body is not in the page:\n%s", html)
	}
}

func TestPageLoadsNothing(t *testing.T) {
	html := render(t, web.Page{Title: "Run", Body: "<p>x</p>"})
	if found := regexp.MustCompile(`(?i)<script|<link|<img|@import|url\(|https?:|src=`).FindString(strings.ReplaceAll(html, "style-src=", "")); found != "" {
		t.Errorf("the page holds %q, which loads or runs something", found)
	}
}

func TestPolicyAllowsExactlyTheStyleOfThePage(t *testing.T) {
	html := render(t, web.Page{Title: "Run"})
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(html, -1)
	if len(styles) != 1 {
		t.Fatalf("the page has %d style sheets, want 1", len(styles))
	}
	sum := sha256.Sum256([]byte(styles[0][1]))
	if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(web.Policy(), want) {
		t.Errorf("Policy() = %q, want the style's hash %s in it", web.Policy(), want)
	}
	own := render(t, web.Page{Title: "Run", Style: "p{color:red}"})
	if !strings.Contains(own, "<style>p{color:red}</style>") {
		t.Errorf("a style of the page's own is missing:\n%s", own)
	}
}
