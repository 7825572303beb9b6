package mcp

import (
	"encoding/json"
	"testing"
)

func TestOnlyPlainCallsOfOurToolsPutTheirArgumentsAside(t *testing.T) {
	ts := &tools{checks: map[string]func() (inputCheck, error){"kairos_next": func() (inputCheck, error) { return inputCheck{}, nil }}}
	const arguments = `{"uri":"u", "solution":{"a":[1]}}`
	for name, tc := range map[string]struct{ message, call string }{
		"a call": {
			`{"jsonrpc":"2.0","id":"7\"","method":"tools/call","params":{"name":"kairos_next","arguments":` + arguments + `}}`,
			`{"jsonrpc":"2.0","method":"tools/call","id":"7\"","params":{"name":"kairos_next"}}`,
		},
		"with its metadata": {
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":1},"arguments":` + arguments + `,"name":"kairos_next"}}`,
			`{"jsonrpc":"2.0","method":"tools/call","id":7,"params":{"name":"kairos_next","_meta":{"progressToken":1}}}`,
		},
		"an answer to a question": {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"kairos_next","requestState":"s","arguments":` + arguments + `}}`, ""},
		"another spelling":        {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"kairos_next","Arguments":` + arguments + `}}`, ""},
		"a tool of nobody":        {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"no\"","arguments":` + arguments + `}}`, ""},
		"no arguments":            {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"kairos_next"}}`, ""},
		"no parameters":           {`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, ""},
		"another method":          {`{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"kairos_next","arguments":` + arguments + `}}`, ""},
		"another version":         {`{"jsonrpc":"1.0","id":7,"method":"tools/call","params":{"name":"kairos_next","arguments":` + arguments + `}}`, ""},
	} {
		m, kind, problem := read([]byte(tc.message))
		if problem != nil || kind != isRequest {
			t.Fatalf("%s: read = %v, %+v", name, kind, problem)
		}
		call, got, ok := ts.putAside(m)
		if string(call) != tc.call || ok != (tc.call != "") {
			t.Errorf("%s: putAside = %s, %v, want %s", name, call, ok, tc.call)
		}
		if ok && (string(got) != arguments || !json.Valid(call)) {
			t.Errorf("%s: arguments are %s, want %s", name, got, arguments)
		}
	}
}
