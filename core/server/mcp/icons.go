package mcp

import (
	"encoding/base64"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// drawings are the paths of the icons, on a square of 24.
var drawings = map[string]string{
	"server":   "M5 4v16M5 12l12-8M9 9l9 11M19 4v3M19 17v3",
	"guide":    "M6 3h12v18H6zM9 8h6M9 12h6M9 16h4",
	toolSearch: "M10 4a6 6 0 1 0 0 12a6 6 0 1 0 0-12M15 15l6 6",
	toolBegin:  "M7 4l12 8l-12 8z",
	toolNext:   "M5 5l8 7l-8 7M13 5l8 7l-8 7",
	toolAttest: "M12 3l8 3v6c0 5-4 8-8 9c-4-1-8-4-8-9v-6zM8 12l3 3l5-6",
	toolMint:   "M12 4v16M4 12h16",
	toolUpdate: "M4 20l4-1l11-11l-3-3l-11 11zM14 7l3 3",
	toolDelete: "M5 7h14M9 7v-3h6v3M7 7l1 13h8l1-13",
	toolDump:   "M2 12c5-9 15-9 20 0c-5 9-15 9-20 0M12 9a3 3 0 1 0 0 6a3 3 0 1 0 0-6",
	toolSpaces: "M4 4h6v6h-6zM14 4h6v6h-6zM4 14h6v6h-6zM14 14h6v6h-6z",
}

// icon is one of the drawings as an image that needs no network. Its grey can
// be seen on light and dark.
func icon(name string) mcp.Icon {
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#77808c" stroke-width="2" `+
		`stroke-linecap="round" stroke-linejoin="round"><path d="%s"/></svg>`, drawings[name])
	return mcp.Icon{
		Src:      "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg)),
		MIMEType: "image/svg+xml", Sizes: []string{"any"},
	}
}
