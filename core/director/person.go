package director

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// yesOrNo reports whether the input asks for exactly what an approval says.
func yesOrNo(in driver.Input) bool {
	strict, err := schema.Strict(in.Schema)
	if err != nil {
		return false
	}
	takes := func(word string) bool {
		return len(schema.Validate(strict, json.RawMessage(`{"confirmation":"`+word+`"}`))) == 0
	}
	return takes(saidApproved) && takes(saidRejected) && !takes("another word")
}

// notByReport says why nobody but the person may answer.
const notByReport = "This step takes only a person's own answer, given to the server itself. Do not answer for them and do not pass their answer on"
