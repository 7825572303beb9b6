package director

import (
	"bytes"
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// unfilled lists the places of a submission that still hold a placeholder.
func (s *solution) unfilled(in driver.Input) []string {
	if !mayBeForm(s.raw) {
		return nil
	}
	form := formOf(in.Schema)
	found := untouched(form, value(s.params), "/"+s.Type)
	return append(found, untouched(form, value(s.Evidence), "/evidence")...)
}

// mayBeForm is cheap, and false for nearly everything without a placeholder.
func mayBeForm(raw json.RawMessage) bool {
	return bytes.ContainsRune(raw, '<') || bytes.Contains(raw, []byte(`\u003`))
}

func value(raw json.RawMessage) any {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}
