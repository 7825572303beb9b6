package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// listener keeps the request of the last call.
type listener struct {
	*fakeDirector

	heard any
}

func (l *listener) Search(_ context.Context, _ access.Caller, in api.SearchRequest) (api.SearchReply, error) {
	l.heard = in
	return api.SearchReply{}, nil
}

func (l *listener) Begin(_ context.Context, _ access.Caller, in api.BeginRequest) (director.Round, error) {
	l.heard = in
	return director.Round{Reply: &api.StepReply{}}, nil
}

func (l *listener) Next(_ context.Context, _ access.Caller, in api.NextRequest) (director.Round, error) {
	l.heard = in
	return director.Round{Reply: &api.StepReply{}}, nil
}

func (l *listener) Attest(_ context.Context, _ access.Caller, in api.AttestRequest) (api.AttestReply, error) {
	l.heard = in
	return api.AttestReply{}, nil
}

func (l *listener) Mint(_ context.Context, _ access.Caller, in api.MintRequest) (api.MintReply, error) {
	l.heard = in
	return api.MintReply{}, nil
}

func (l *listener) Update(_ context.Context, _ access.Caller, in api.UpdateRequest) (api.UpdateReply, error) {
	l.heard = in
	return api.UpdateReply{}, nil
}

func (l *listener) Delete(_ context.Context, _ access.Caller, in api.DeleteRequest) (api.DeleteReply, error) {
	l.heard = in
	return api.DeleteReply{}, nil
}

func (l *listener) Dump(_ context.Context, _ access.Caller, in api.DumpRequest) (api.DumpReply, error) {
	l.heard = in
	return api.DumpReply{}, nil
}

func (l *listener) Part(_ context.Context, _ access.Caller, in api.DumpRequest) (api.DumpReply, error) {
	l.heard = in
	return api.DumpReply{}, nil
}

func (l *listener) Spaces(_ context.Context, _ access.Caller, in api.SpacesRequest) (api.SpacesReply, error) {
	l.heard = in
	return api.SpacesReply{}, nil
}

// wholeArgs are arguments with a value in most places.
var wholeArgs = map[string]string{
	"kairos_search": `{"query":"release","queries":["ship it"],"space":"ops","limit":3}`,
	"kairos_begin":  `{"uri":"` + stepURI + `","input":{"who":"me","count":2,"flags":["a"]},"roots":["/srv"]}`,
	"kairos_next": `{"uri":"` + stepURI + `","cancel":false,"solution":{"type":"mcp","nonce":"n","mcp":{"tool_name":"t",` +
		`"arguments":{"a":1,"b":["<c>"]},"result":{"ok":true},"success":true},"shell":{"exit_code":0,"stdout":"3","duration_seconds":1.5},"evidence":[1,{"x":"y"}]}}`,
	"kairos_attest": `{"uri":"` + stepURI + `","outcome":"success","message":"3","quality_bonus":0.5}`,
	"kairos_mint":   `{"markdown_doc":"# A\n\n## B\n","llm_model_id":"m","force_update":true}`,
	"kairos_update": `{"uris":["` + stepURI + `"],"updates":{"text":"{\"a\":1}","challenge":{"type":"shell","shell":{"cmd":"make"}}}}`,
	"kairos_delete": `{"uris":["` + stepURI + `"]}`,
	"kairos_dump":   `{"uri":"` + stepURI + `","protocol":true,"part":2,"run_id":"run-1"}`,
	"kairos_spaces": `{"include_chain_titles":true,"limit":10,"cursor":"c"}`,
}

func TestEveryLosslessFormIsTheSameRequest(t *testing.T) {
	l := &listener{fakeDirector: newDirector()}
	s, in, out := newServed(t, config(), l)
	w := speak(t, in, out)
	w.initialize(`{}`)
	ask := func(t interface{ Fatalf(string, ...any) }, tool string, args any) any {
		l.heard = nil
		m := w.reply(w.request("tools/call", obj{"name": tool, "arguments": args}))
		if l.heard == nil {
			t.Fatalf("%s(%s) = %v, want it to be taken", tool, encodedJSON(args), m)
		}
		return l.heard
	}
	for _, tool := range s.Tools() {
		t.Run(tool.Name, func(t *testing.T) {
			schema, plain := decode[obj](t, tool.Input), decode[obj](t, json.RawMessage(wholeArgs[tool.Name]))
			want := asRead(t, schema, ask(t, tool.Name, json.RawMessage(wholeArgs[tool.Name])))
			rapid.Check(t, func(r *rapid.T) {
				sent, _ := disguised(r, schema, plain, 0).(obj)
				heard := ask(r, tool.Name, sent)
				if next, ok := heard.(api.NextRequest); ok {
					if diff := cmp.Diff(decode[any](t, encodedJSON(sent["solution"])), decode[any](t, next.Solution)); diff != "" {
						r.Errorf("the solution is not as it was sent (-sent +got):\n%s", diff)
					}
				}
				if diff := cmp.Diff(want, asRead(t, schema, heard)); diff != "" {
					r.Errorf("%s(%s) (-want +got):\n%s", tool.Name, encodedJSON(sent), diff)
				}
			})
		})
	}
}

// asRead is a request whose solution is read, which the director does.
func asRead(t *testing.T, schema obj, heard any) any {
	t.Helper()
	request := decode[obj](t, encodedJSON(heard))
	if request["solution"] == nil {
		return request
	}
	properties, _ := schema["properties"].(obj)
	read, err := fields.Lossless(properties["solution"], encodedJSON(request["solution"]))
	if err != nil {
		t.Fatal(err)
	}
	request["solution"] = decode[any](t, read)
	return request
}

// disguised is the value in any of the forms in which clients may send it.
func disguised(r *rapid.T, schema, value any, depth int) any {
	s, _ := schema.(obj)
	as := rapid.IntRange(0, 2).Draw(r, "form")
	switch v := value.(type) {
	case obj:
		properties, _ := s["properties"].(obj)
		out := obj{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out[name] = v[name]
			if properties[name] != nil {
				out[name] = disguised(r, properties[name], v[name], depth+1)
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			property, _ := properties[name].(obj)
			if _, one := property["type"].(string); v[name] != nil || !one || slices.Contains(required, any(name)) {
				continue
			}
			if as == 1 {
				out[name] = nil
			}
			if as == 2 && property["type"] != "string" {
				out[name] = ""
			}
		}
		if as == 0 && depth > 0 {
			return string(encodedJSON(out))
		}
		return out
	case []any:
		items, _ := s["items"].(obj)
		if as == 0 {
			return string(encodedJSON(v))
		}
		if as == 1 && len(v) == 1 && items["type"] == "string" {
			return v[0]
		}
	case float64:
		if s["type"] == "integer" && as == 1 {
			return json.RawMessage(fmt.Sprintf("%v.0", v))
		}
		if as == 0 && s["type"] != nil {
			return fmt.Sprint(v)
		}
	case bool:
		if as == 0 && s["type"] != nil {
			return fmt.Sprint(v)
		}
	}
	return value
}

func encodedJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: was decoded from JSON
	}
	return b
}
