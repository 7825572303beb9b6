package api

import (
	"cmp"
	"strings"
)

// Route says how REST serves a tool. The zero value is the usual one: a POST of
// the request as JSON to /api/<name>.
type Route struct {
	// Path follows /api/<name>.
	Path string
	// Failed is the error name of a failure of the server; empty: that of the
	// tool, such as SEARCH_FAILED.
	Failed string
	// Document makes the body one field of the request. If it is nil the body is the request.
	Document *DocumentBody
}

// DocumentBody is a body that is one text of the request. Parameters carry the
// other fields.
type DocumentBody struct {
	Field string // of the request, in JSON
	Media string // the media type of the text
	What  string // the text, in words
	// Parameters are in order of precedence: the first that is not empty gives
	// its field. Clients send the first of each field.
	Parameters []Parameter
}

// Parameter is a field of a request in the query or in a header.
type Parameter struct {
	In, Name string // In is query or header
	Field    string // of the request, in JSON
	// Description is for OpenAPI. Without it the parameter is not part of the interface.
	Description string
	// Flag: the field is a boolean, true for "true" and "1".
	Flag bool
	// Default is the text of a parameter that nobody sent.
	Default string
	// Echo: the metadata of the reply repeat the field.
	Echo bool
}

// Where a parameter is.
const (
	InQuery  = "query"
	InHeader = "header"
)

// Path is where REST serves the tool.
func (d Declaration) Path() string { return "/api/" + d.Name + d.Route.Path }

// Failed is the error name in REST of a failure of the server.
func (d Declaration) Failed() string {
	return cmp.Or(d.Route.Failed, strings.ToUpper(strings.TrimPrefix(d.Name, "kairos_"))+"_FAILED")
}
