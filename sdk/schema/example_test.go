package schema_test

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/schema"
)

func ExampleValidate() {
	form := json.RawMessage(`{"type":"object","properties":{"minutes":{"type":"integer","minimum":5}},"required":["minutes"]}`)
	for _, d := range schema.Validate(form, json.RawMessage(`{"minutes":"30"}`)) {
		fmt.Println(d.Pointer, d.Message)
	}
	// Output: /minutes got string, want integer
}

// A value that the server obtained itself has to fit the strict form: keys that
// the schema does not name are refused.
func ExampleStrict() {
	form := json.RawMessage(`{"type":"object","properties":{"minutes":{"type":"integer"}}}`)
	strict, _ := schema.Strict(form)
	fmt.Println(len(schema.Validate(form, json.RawMessage(`{"hours":1}`))))
	for _, d := range schema.Validate(strict, json.RawMessage(`{"hours":1}`)) {
		fmt.Println(d.Message)
	}
	// Output:
	// 0
	// missing "minutes"
	// unknown key "hours"
}

func ExampleFlat() {
	fmt.Println(schema.Flat(json.RawMessage(`{"type":"object","properties":{"who":{"type":"object"}}}`)))
	// Output: field "who": type must be one of string, number, integer, boolean
}
