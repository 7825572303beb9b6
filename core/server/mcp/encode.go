package mcp

import (
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

// encode returns a message as it is sent. The reply of a tool is copied, not encoded
// again: it is JSON already, and has itself as text.
func encode(v any) ([]byte, error) {
	r, ok := v.(*reply)
	if !ok {
		return api.Encode(v, "")
	}
	result, ok := r.Result.(replyResult)
	if !ok || r.Error != nil {
		return api.Encode(v, "")
	}
	text, ok := onlyText(result.Content)
	if !ok {
		return api.Encode(v, "")
	}
	out := make([]byte, 0, len(text)*9/8+len(result.StructuredContent)+256)
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, r.ID...)
	out = append(out, `,"result":{`...)
	if result.Meta != nil {
		meta, err := api.Encode(result.Meta, "")
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, `"_meta":`...), meta...), ',')
	}
	out = append(out, `"content":[{"type":"text","text":`...)
	out = append(appendQuoted(out, text), `}],`...)
	if result.IsError {
		out = append(out, `"isError":true,`...)
	}
	if result.ResultType != "" {
		out = append(appendQuoted(append(out, `"resultType":`...), string(result.ResultType)), ',')
	}
	out = append(out, `"structuredContent":`...)
	out = append(out, result.StructuredContent...)
	return append(out, "}}"...), nil
}

// onlyText returns the text of content that is one text and nothing else.
func onlyText(content []mcp.Content) (string, bool) {
	if len(content) != 1 {
		return "", false
	}
	text, ok := content[0].(mcp.TextContent)
	return text.Text, ok && text.Type == "text" && text.Meta == nil && text.Annotations == nil
}

// appendQuoted appends text as a JSON string. The text is valid UTF-8, as JSON is.
func appendQuoted(to []byte, text string) []byte {
	to = append(to, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		to = append(to, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, `\n`...)
		default:
			const hex = "0123456789abcdef"
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(to, text[from:]...), '"')
}
