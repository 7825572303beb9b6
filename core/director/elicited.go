package director

import (
	"path"

	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// readable is the request with the texts that a person reads of it fit to be
// shown, whichever driver wrote them. Values stay as they are: the answer is
// compared with them, and schema.Flat refuses those with hidden characters.
func readable(req driver.ClientRequest) (driver.ClientRequest, error) {
	if req.Method != plan.MethodElicitation {
		return req, nil
	}
	var err error
	req.Params, err = protocol.EditStrings(req.Params, func(pointer, text string) string {
		switch {
		case pointer == "/message":
			return plain.Text(text)
		case path.Base(pointer) == "title", path.Base(pointer) == "description", path.Base(path.Dir(pointer)) == "enumNames":
			return plain.Line(text)
		}
		return text
	})
	return req, err
}
