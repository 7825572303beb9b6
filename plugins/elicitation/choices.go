package main

import (
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// choicesSince is the first revision of MCP whose forms offer several choices, and
// choices with titles.
const choicesSince = "2025-11-25"

// formOf is the input as this client shows it. Revisions are dates, so that
// they compare as texts; a client that names none is taken for an old one.
func formOf(in driver.Input, c driver.Client) (schema.Form, error) {
	return schema.FormOf(in.Schema, c.Era >= choicesSince)
}

// titles tells the person what the choices are called that the form shows by their
// values alone, unless the question says it already.
func titles(shown schema.Form, said string) string {
	var b strings.Builder
	for _, t := range shown.Titles {
		if !strings.Contains(said, t.Choices) {
			b.WriteString("\n\n" + t.Field + ": " + t.Choices)
		}
	}
	return b.String()
}
