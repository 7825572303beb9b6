package filecheck

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Local reports whether a client runs on this machine as the same user, so
// that it can read nothing through the server that it cannot read itself.
func Local(c driver.Client) bool { return c.Transport == "stdio" || c.Transport == "cli" }

// Named lists the folders that a client of this machine lists in its reply to
// roots/list or, if it has no roots, those that the run began with. Other texts are
// left out. Clients elsewhere only choose among what the operator allows.
func Named(in driver.Input, c driver.Client, reply json.RawMessage) []string {
	if !Local(c) || in.Kind != driver.KindFiles {
		return nil
	}
	var listed struct {
		Roots []struct {
			URI string `json:"uri"`
		} `json:"roots"`
	}
	if json.Unmarshal(reply, &listed) == nil && len(listed.Roots) > 0 {
		var out []string
		for _, r := range listed.Roots {
			if root, err := Root(r.URI); err == nil {
				out = append(out, root)
			}
		}
		return out
	}
	var begun struct {
		Roots []string `json:"roots"`
	}
	if c.Roots || json.Unmarshal(in.Display, &begun) != nil {
		return nil
	}
	return begun.Roots
}
