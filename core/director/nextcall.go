package director

import (
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// unfilled lists the places of a submission that still hold a placeholder.
func (s *solution) unfilled(in driver.Input) []string {
	if !input.MayBeForm(s.raw) {
		return nil
	}
	form := input.Form(in.Schema)
	found := input.Untouched(form, input.Value(s.params), "/"+s.Type)
	return append(found, input.Untouched(form, input.Value(s.Evidence), "/evidence")...)
}
