package fields_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

const manyTypes = `{"type":"object","required":["name"],"properties":{
	"name":{"type":"string"}, "note":{"type":"string"}, "word":{"type":"string","minLength":1}, "kind":{"type":"string","enum":["a","b"]},
	"count":{"type":"integer"}, "share":{"type":"number"}, "done":{"type":"boolean"}, "names":{"type":"array","items":{"type":"string"}},
	"sizes":{"type":"array","items":{"type":"integer"}}, "part":{"type":"object","properties":{"count":{"type":"integer"},"any":{}}},
	"any":{"description":"anything"}, "either":{"anyOf":[{"type":"string"},{"type":"object"}]}, "none":{"type":["object","null"]},
	"fixed":{"const":1}}, "additionalProperties":{"type":"boolean"}}`

func TestLosslessFormsAreRead(t *testing.T) {
	for name, tc := range map[string]struct{ sent, want string }{
		"as it is":                    {`{"name":"n","count":1}`, ""},
		"all of it as text":           {`"{\"name\":\"n\",\"count\":\"1\"}"`, `{"name":"n","count":1}`},
		"a number as text":            {`{"count":"3","share":"-2.50"}`, `{"count":3,"share":-2.50}`},
		"a whole number with a point": {`{"count":3.0}`, `{"count":3}`},
		"one with an exponent":        {`{"count":"2e3"}`, `{"count":2000}`},
		"a half":                      {`{"count":3.5}`, ""},
		"a half as text":              {`{"count":"3.5"}`, ""},
		"no number":                   {`{"count":"three","share":"0x10"}`, ""},
		"zeros in front":              {`{"count":"007"}`, ""},
		"a boolean as text":           {`{"done":"true"}`, `{"done":true}`},
		"a word for a boolean":        {`{"done":"yes"}`, ""},
		"text that looks like JSON":   {`{"name":"{\"a\":1}","note":"3"}`, ""},
		"one for a list":              {`{"names":"n"}`, `{"names":["n"]}`},
		"a list as text":              {`{"names":"[\"n\",\"m\"]","sizes":"[1,\"2\"]"}`, `{"names":["n","m"],"sizes":[1,2]}`},
		"one number for a list":       {`{"sizes":"2"}`, ""},
		"an object in an object":      {`{"part":"{\"count\":\"2\",\"any\":\"[1]\"}"}`, `{"part":{"count":2,"any":[1]}}`},
		"anything":                    {`{"any":" [1]"}`, `{"any":[1]}`},
		"anything that is a text":     {`{"any":"3"}`, ""},
		"a text in a text":            {`{"any":"\"{}\""}`, ""},
		"in doubt":                    {`{"either":"{}","fixed":"1"}`, ""},
		"null where it is a value":    {`{"none":null}`, ""},
		"null as text":                {`{"none":"null"}`, `{"none":null}`},
		"null for a member left out":  {`{"name":null,"note":null,"count":null,"any":null}`, `{"name":null,"any":null}`},
		"an empty text for absent":    {`{"name":"","note":"","word":"","kind":"","count":"","names":"","part":"","any":""}`, `{"name":"","note":"","any":""}`},
		"members of no name":          {`{"other":"false","more":"no"}`, `{"other":false,"more":"no"}`},
		"a key twice in the text":     {`{"part":"{\"count\":1,\"count\":2}"}`, ""},
		"half of an object":           {`{"part":"{\"count\":1"}`, ""},
		"order and space":             {"{ \"part\" : {\"x\": 1} ,\n\"done\":\"true\" }", `{"part":{"x": 1},"done":true}`},
		"escaped keys":                {`{"\u0064one":"true"}`, `{"\u0064one":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			var schema any
			if err := json.Unmarshal([]byte(manyTypes), &schema); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				tc.want = tc.sent
			}
			got, err := fields.Lossless(schema, json.RawMessage(tc.sent))
			if err != nil || string(got) != tc.want {
				t.Errorf("Lossless(%s) = %s, %v, want %s", tc.sent, got, err, tc.want)
			}
		})
	}
}

func TestWhatIsOpenedIsLimited(t *testing.T) {
	text := func(v string) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	schema := map[string]any{"type": "array"}
	for name, sent := range map[string]json.RawMessage{
		"bytes":  text(`["` + strings.Repeat("x", 2*fields.MaxOpened) + `"]`),
		"values": text(`[` + strings.Repeat("1,", 200_000) + `1]`),
	} {
		if _, err := fields.Lossless(schema, sent); err == nil || !strings.Contains(err.Error(), "8388608 bytes and 100000 values") {
			t.Errorf("twice as many %s: error = %v, want one that names the limit", name, err)
		}
	}
}

func TestMembersHaveTheOrderOfTheText(t *testing.T) {
	members, ok := fields.Members(json.RawMessage(` { "b" : [1, {"x":"}"}] , "a\"":"\\" , "c":-1.5e3,"d":{} } `))
	var got []string
	for _, m := range members {
		got = append(got, m.Key, string(m.Value))
	}
	if diff := cmp.Diff([]string{"b", `[1, {"x":"}"}]`, `a"`, `"\\"`, "c", "-1.5e3", "d", "{}"}, got); diff != "" || !ok {
		t.Errorf("Members (-want +got), %v:\n%s", ok, diff)
	}
	if members, ok := fields.Members(json.RawMessage("{}")); !ok || len(members) != 0 {
		t.Errorf("Members of an empty object = %v, %v", members, ok)
	}
	for _, other := range []string{`[]`, `"{}"`, `null`, ``, `1`} {
		if _, ok := fields.Members(json.RawMessage(other)); ok {
			t.Errorf("Members(%s) takes it for an object", other)
		}
	}
}

func FuzzLossless(f *testing.F) {
	f.Add(manyTypes, `{"name":"n","part":"{\"count\":\"2\"}","names":"[\"a\"]","sizes":["1"]}`)
	f.Add(`{"type":"array","items":{"type":"array","items":{"type":"string"}}}`, `["[\"a\"]","b"]`)
	f.Add(`{}`, `"{\"a\":[1,{\"b\":\"[]\"}]}"`)
	f.Add(`{"type":["integer","boolean"]}`, `"1.0"`)
	f.Fuzz(func(t *testing.T, of, sent string) {
		var schema any
		if json.Unmarshal([]byte(of), &schema) != nil || !json.Valid([]byte(sent)) {
			t.Skip()
		}
		read, err := fields.Lossless(schema, json.RawMessage(sent))
		if err != nil {
			return
		}
		if !json.Valid(read) {
			t.Fatalf("Lossless(%s, %s) = %s, which is not JSON", of, sent, read)
		}
		again, err := fields.Lossless(schema, read)
		if err != nil || string(again) != string(read) {
			t.Errorf("Lossless(%s, %s) = %s, and that is read as %s, %v", of, sent, read, again, err)
		}
	})
}

func BenchmarkLossless(b *testing.B) {
	inner, _ := json.Marshal(map[string]any{"part": map[string]any{"any": strings.Repeat("line \"of\" output\n", 60_000)}})
	sent, _ := json.Marshal(string(inner))
	var schema any
	if err := json.Unmarshal([]byte(manyTypes), &schema); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(sent)))
	for b.Loop() {
		if _, err := fields.Lossless(schema, sent); err != nil {
			b.Fatal(err)
		}
	}
}
