package runpage

import (
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// maxText bounds one text of the page, in bytes; the JSON form has all of it.
const maxText = 16 << 10

// clean makes a text of others fit to be read: what cannot be seen, or would
// turn the direction of what follows, is named instead of done.
func clean(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + fmt.Sprintf("\n… %d bytes more: kairos runs show -o json has them", len(s)-maxText)
	}
	return plain.Text(s)
}

// words is a name of ours as people read it.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// took is a duration as people read it; empty for none.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// pretty is JSON with one member a line; a text alone is shown as itself.
func pretty(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	b, err := api.Encode(raw, "  ")
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// The icons are drawn, because not each font has them.
var icons = map[string]template.HTML{
	markGood: `<path class="ring" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z"/><path class="sign" d="M4.6 8.3l2.3 2.3 4.5-4.9"/>`,
	markBad:  `<path class="ring" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z"/><path class="sign" d="M5.3 5.3l5.4 5.4M10.7 5.3l-5.4 5.4"/>`,
	markWarn: `<path class="ring" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z"/><path class="sign" d="M8 4.2v4.6M8 11.4v.4"/>`,
	markTake: `<path class="ring" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z"/><path class="sign" d="M4.5 8h6.6M8.4 5.2L11.2 8l-2.8 2.8"/>`,
	markPass: `<path class="ring" d="M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z"/><path class="sign" d="M5 8h6"/>`,
	markNone: `<path class="ring" d="M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11z"/>`,
}

// icon is the picture of a mark.
func icon(mark string) template.HTML {
	return `<svg class="icon ` + template.HTML(mark) + `" viewBox="0 0 16 16" aria-hidden="true">` + icons[mark] + `</svg>` // #nosec G203 -- marks are ours
}
