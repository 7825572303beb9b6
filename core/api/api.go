// Package api holds the requests and replies of the tools as Go structs. It is
// pure: it has no rules, and it knows no face, no store and no engine.
package api

import (
	"encoding/json"
)

// NextCall is next_action for programs: the call that comes next. Texts in
// angle brackets in Arguments are placeholders. Each has to be replaced, or left
// out where it says that it is optional; one that is sent as it is, is refused.
type NextCall struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}
