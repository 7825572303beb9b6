package mcp_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

// Errors about a message use the terms of JSON: a client cannot look up the names
// of Go types.
func TestNoReplyNamesAGoType(t *testing.T) {
	for _, params := range []string{
		`"tools/call","params":{"name":5}`, `"tools/call","params":[1]`, `"tools/call","params":{"name":"kairos_dump","arguments":"x"}`,
		`"tools/call","params":{"name":"kairos_begin","arguments":{"uri":7}}`, `"resources/read","params":{"uri":[]}`,
		`"initialize","params":{"protocolVersion":7}`, `"prompts/get","params":{"name":{}}`, `"completion/complete","params":{"ref":5}`,
		`"logging/setLevel","params":{"level":5}`,
	} {
		t.Run(params, func(t *testing.T) {
			in, out := serve(t, config(), &fakeDirector{})
			go fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":%s}`+"\n", params)
			reply, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			for _, foreign := range []string{"Go struct", "Go value", "mcp.", "unmarshal", "engine."} {
				if strings.Contains(reply, foreign) {
					t.Errorf("reply contains %q: %s", foreign, reply)
				}
			}
		})
	}
}
