package main

import (
	"encoding/json"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// actionSchema declares what actionOf states.
const actionSchema = `{"type":"object","properties":{` +
	`"tool":{"type":"string","pattern":"^[^A-Z./:]+$","description":"the name of the tool in lower case, without the name of its server in front"},` +
	`"server":{"type":"string","minLength":1,"description":"the server of the tool, where its name is in front, as in calendar/create_event"},` +
	`"arguments":{"type":"object","description":"what the tool is called with"}}}`

// actionOf states the call that the challenge asks for. A member that is not said may be
// anything.
func actionOf(p params) (json.RawMessage, error) {
	name := plain.Normal(p.Name)
	return json.Marshal(struct {
		Server    string          `json:"server,omitempty"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}{serverOf(name), strings.ToLower(bareName(name)), p.Arguments})
}

// serverOf is the server that the name of a tool says in the way of a host
// ("mcp__calendar__create_event") or of KAIROS ("calendar/create_event"); empty: it says
// none, or the separators may belong to the tool.
func serverOf(name string) string {
	for _, separator := range []string{"__", "/"} {
		parts := strings.Split(strings.TrimPrefix(name, "mcp__"), separator)
		if len(parts) == 2 && parts[0] != "" && parts[1] != "" && !strings.ContainsAny(parts[1], "./:") && !strings.Contains(parts[1], "__") {
			return parts[0]
		}
	}
	return ""
}
