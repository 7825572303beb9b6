package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestErrorsOfWhatCannotBeDecodedHaveTheID(t *testing.T) {
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	call := func(id, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"x":` + params + `}}`
	}
	s := newSite(t, config(), newDirector())
	for name, tc := range map[string]struct{ message, id string }{
		"deep":                   {call("7", deep), "7"},
		"deep, id at the end":    {`{"params":` + deep + `,"method":"tools/call", "id" : "a\"b" }`, `"a\"b"`},
		"not UTF-8":              {call(`"one"`, "\"\xff\""), `"one"`},
		"NaN":                    {call("-1.5", "NaN"), "-1.5"},
		"a byte order mark":      {"\ufeff" + call("8", "1"), "8"},
		"cut off":                {call("9", deep)[:100], "9"},
		"the id is not UTF-8":    {call("\"\xff\"", "NaN"), "null"},
		"the id is not a number": {call("NaN", "1"), "null"},
		"the id is an object":    {call(`{"id":3}`, "NaN"), "null"},
		"the id is long":         {call(`"`+strings.Repeat("x", 2000)+`"`, "NaN"), "null"},
		"two ids":                {`{"id":1,"method":"ping","id":2,"params":NaN}`, "null"},
		"an inner id":            {`{"jsonrpc":"2.0","method":"ping","params":{"id":3,"x":NaN}}`, "null"},
		"an answer":              {`{"jsonrpc":"2.0","id":1,"result":` + deep + `}`, "null"},
		"a batch":                {`[` + call("1", "NaN") + `]`, "null"},
		"a word":                 {"nonsense", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, config(), newDirector())
			w.raw(tc.message)
			check := func(where string, m msg) {
				t.Helper()
				got := "null"
				if m.ID != nil {
					got = string(m.ID)
				}
				if got != tc.id || m.Error == nil || m.Error.Code != -32700 {
					t.Errorf("%s: id %s, %+v, want id %s and that the message cannot be parsed", where, got, m.Error, tc.id)
				}
			}
			refused := func(m msg) bool { return m.Error != nil }
			check("stdio", w.until("a refusal", refused))
			r := (&visitor{site: s}).post(tc.message, nil)
			if r.status != http.StatusBadRequest {
				t.Errorf("over HTTP = %d, want 400", r.status)
			}
			check("HTTP", r.until("a refusal", refused))
		})
	}
}

func TestAHandshakeNegotiatesOverHTTPAsOverStdio(t *testing.T) {
	s := newSite(t, config(), newDirector())
	for _, version := range []string{"2024-11-05", "2025-11-25", "2026-07-28", "2099-01-01", "soon"} {
		params := obj{"protocolVersion": version, "capabilities": obj{}, "clientInfo": obj{"name": "n", "version": "1"}}
		w := dial(t, config(), newDirector())
		var want, got struct {
			Version string `json:"protocolVersion"`
		}
		if err := json.Unmarshal(w.reply(w.request("initialize", params)).Result, &want); err != nil || want.Version == "" {
			t.Fatalf("over stdio, %s = %+v, %v", version, want, err)
		}
		r := (&visitor{site: s}).post(rpc("one", "initialize", params), obj{"Mcp-Protocol-Version": version})
		m := r.reply(`"one"`)
		if r.status != http.StatusOK || r.header.Get("Mcp-Session-Id") == "" || json.Unmarshal(m.Result, &got) != nil || got != want {
			t.Errorf("initialize with the header %s = %d %s %v, want version %s as over stdio", version, r.status, m.Result, m.Error, want.Version)
		}
	}
}
