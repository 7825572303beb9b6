package tree

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// readClient reads a client's facts as conditions name them. An unknown
// key is an error: otherwise the client would lack a capability without notice.
func readClient(text []byte) (c decision.ClientFacts, err error) {
	o := fields.Open(text, "")
	c.Name, _ = o.String("name")
	c.Version, _ = o.String("version")
	c.Era, _ = o.String("era")
	c.Transport, _ = o.String("transport")
	c.Sampling, _ = o.Bool("sampling")
	c.Roots, _ = o.Bool("roots")
	ways := o.Object("elicitation")
	c.Elicitation.Form, _ = ways.Bool("form")
	c.Elicitation.URL, _ = ways.Bool("url")
	if o.Has("capabilities") {
		if c.Capabilities = decision.Object(o.Raw("capabilities")); c.Capabilities == nil {
			o.Wrong("capabilities", "must be an object, as the client declares it in MCP")
		}
	}
	refuseUnknown(o, "name", "version", "era", "transport", "elicitation", "sampling", "roots", "capabilities")
	refuseUnknown(ways, "form", "url")
	if problems := o.Problems(); len(problems) > 0 {
		return c, errors.New(fields.Text(problems))
	}
	return c, nil
}

func refuseUnknown(o *fields.Object, known ...string) {
	for _, key := range o.Unknown() {
		meant := ""
		if closest := fields.Closest(key, known); closest != "" {
			meant = fmt.Sprintf(" did you mean %q?", closest)
		}
		o.Wrong(key, fmt.Sprintf("is not a fact of a client;%s there are %s", meant, strings.Join(known, ", ")))
	}
}
