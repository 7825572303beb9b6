package sessions

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// named are the capabilities that every id keeps, each as a bit at its place. The list only
// grows at its end, unless the label of ids changes.
var named = []struct {
	pointer string
	of      func(*driver.Client) *bool // nil: it follows from others
}{
	{"/elicitation/form", func(c *driver.Client) *bool { return &c.ElicitationForm }},
	{"/elicitation/url", func(c *driver.Client) *bool { return &c.ElicitationURL }},
	{"/sampling", func(c *driver.Client) *bool { return &c.Sampling }},
	{"/roots", func(c *driver.Client) *bool { return &c.Roots }},
	{"/elicitation", nil},
}

func isNamed(pointer string) bool {
	for _, n := range named {
		if n.pointer == pointer {
			return true
		}
	}
	return false
}

// flags are the capabilities of named that the client has.
func flags(c driver.Client) (all byte) {
	for i, n := range named {
		if n.of != nil && *n.of(&c) {
			all |= 1 << i
		}
	}
	return all
}

// client returns a client that declared these capabilities and no others.
func client(flags byte, pointers []string) driver.Client {
	var c driver.Client
	declared := map[string]any{}
	for i, n := range named {
		if n.of != nil && flags&(1<<i) != 0 {
			*n.of(&c) = true
			driver.DeclareCapability(declared, n.pointer)
		}
	}
	for _, pointer := range pointers {
		driver.DeclareCapability(declared, pointer)
	}
	if len(declared) == 0 {
		return c
	}
	document, err := json.Marshal(declared)
	if err != nil {
		panic(err) // objects with names alone
	}
	c.Capabilities = document
	return c
}
