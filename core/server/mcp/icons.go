package mcp

import (
	"encoding/base64"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// The drawings of what is not a tool: paths on a square of 24.
const (
	serverDrawing = "M5 4v16M5 12l12-8M9 9l9 11M19 4v3M19 17v3"
	guideDrawing  = "M6 3h12v18H6zM9 8h6M9 12h6M9 16h4"
)

// icon is a drawing as an image that needs no network. Its grey can
// be seen on light and dark.
func icon(drawing string) mcp.Icon {
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#77808c" stroke-width="2" `+
		`stroke-linecap="round" stroke-linejoin="round"><path d="%s"/></svg>`, drawing)
	return mcp.Icon{
		Src:      "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg)),
		MIMEType: "image/svg+xml", Sizes: []string{"any"},
	}
}
