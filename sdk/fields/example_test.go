package fields_test

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

func ExampleOpen() {
	o := fields.Open(json.RawMessage(`{"cmd": "make", "timeout_seconds": "30", "shel": "sh"}`), "/shell")
	command, _ := o.String("cmd")
	_, found := o.Number("timeout_seconds")
	o.Unread()
	fmt.Println(command, found)
	fmt.Println(fields.Text(o.Diagnostics()))
	// Output:
	// make false
	// /shell/timeout_seconds: must be a number, not a string; /shell/shel: unknown key "shel"
}

func ExampleDecodeOne() {
	for _, text := range []string{` {"a": 1} `, `{"a": 1, "a": 2}`, `Sure! {"a": 1}`} {
		one, err := fields.DecodeOne([]byte(text))
		fmt.Println(string(one), err)
	}
	// Output:
	// {"a": 1} <nil>
	//  the key "a" occurs twice in one object
	//  not JSON: the text begins with "Sure! {\"a\": 1}"
}

func ExampleWithParam() {
	out, _ := fields.WithParam(json.RawMessage(`{"required": false}`), "comment", "min_length", 10)
	fmt.Println(string(out))
	// Output: {"comment":{"min_length":10},"required":false,"type":"comment"}
}
