package drivertest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// hostileJSON is valid JSON that a naive driver trips over.
func hostileJSON() []string {
	return []string{
		`null`, `true`, `0`, `-1`, `1e308`, `9223372036854775808`, `""`, `"\u0000"`, `"\ud800"`, `[]`, `[null]`, `{}`,
		`{"":null}`, `[[[[[[[[{}]]]]]]]]`, `"{{ steps.a.b }}"`, `"'; rm -rf / #"`,
	}
}

// hostileBytes is what a stranger may put where a reply is expected.
func hostileBytes() []json.RawMessage {
	texts := append(hostileJSON(),
		``, ` `, `{`, `"`, "\xff\xfe", "\x00", `{"a":1}{"b":2}`, `{"type":"a","type":"b"}`, "1\n2", `NaN`,
		`{"action":"accept"}`, `{"action":"accept","content":null}`, `{"action":42}`, `{"action":"ACCEPT","content":[]}`,
		`{"role":"assistant","content":{"type":"text","text":"{"},"model":7}`,
		`{"content":[{"type":"text","text":42}]}`, `{"content":{"type":"image","data":"","mimeType":""}}`,
		`{"roots":[{"uri":"file:///etc/shadow"}]}`, `{"type":[],"nonce":{}}`,
		strings.Repeat("[", 20_000), `"`+strings.Repeat("a", 1<<16)+`"`,
	)
	out := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		out[i] = json.RawMessage(text)
	}
	return out
}

// hostileVariants are copies of a request in which one thing is broken: a JSON
// document as a whole, or one value somewhere in it.
func hostileVariants(request any) []any {
	switch req := request.(type) {
	case driver.ValidateRequest:
		return variants(req, req.Challenge, func(r *driver.ValidateRequest, raw json.RawMessage) { r.Challenge = raw })
	case driver.AdvanceRequest:
		return hostileAdvances(req)
	case driver.RenderRequest:
		return hostileRenders(req)
	case driver.InterpretRequest:
		out := variants(req, req.Raw, func(r *driver.InterpretRequest, raw json.RawMessage) { r.Raw = raw })
		return append(out, variants(req, req.Input.Schema,
			func(r *driver.InterpretRequest, raw json.RawMessage) { r.Input.Schema = raw })...)
	}
	return nil
}

// hostileRenders keep to valid JSON: schema and display come from a challenge
// driver through the host, not from a stranger.
func hostileRenders(req driver.RenderRequest) []any {
	var out []any
	for _, text := range hostileJSON() {
		schema, display := req, req
		schema.Input.Schema, display.Input.Display = json.RawMessage(text), json.RawMessage(text)
		out = append(out, schema, display)
	}
	return out
}

func hostileAdvances(req driver.AdvanceRequest) []any {
	out := variants(req, req.Challenge, func(r *driver.AdvanceRequest, raw json.RawMessage) { r.Challenge = raw })
	out = append(out, variants(req, req.State.Data, func(r *driver.AdvanceRequest, raw json.RawMessage) {
		r.State = driver.State{Version: 1 << 20, Data: raw}
	})...)
	for i := range req.Answers {
		out = append(out, variants(req, req.Answers[i].Value, func(r *driver.AdvanceRequest, raw json.RawMessage) {
			r.Answers = slices.Clone(req.Answers)
			r.Answers[i].Value = raw
		})...)
	}
	return out
}

// variants puts hostile documents, and the document with one value made
// hostile, into copies of the request.
func variants[Req any](req Req, document json.RawMessage, put func(*Req, json.RawMessage)) []any {
	raws := append(hostileBytes(), brokenCopies(document)...)
	out := make([]any, len(raws))
	for i, raw := range raws {
		r := req
		put(&r, raw)
		out[i] = r
	}
	return out
}

// maxCopies bounds the work on a large document.
const maxCopies = 400

// brokenCopies replaces each value in the document, one at a time, by each hostile value.
func brokenCopies(document json.RawMessage) []json.RawMessage {
	var root any
	if json.Unmarshal(document, &root) != nil {
		return nil
	}
	var out []json.RawMessage
	emit := func() {
		if b, err := json.Marshal(root); err == nil && len(out) < maxCopies {
			out = append(out, b)
		}
	}
	breakValues(root, emit)
	return out
}

// breakValues walks the children of v and calls emit with each of them broken in turn.
func breakValues(v any, emit func()) {
	switch node := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			child := node[key]
			for _, bad := range hostileJSON() {
				node[key] = json.RawMessage(bad)
				emit()
			}
			delete(node, key)
			emit()
			node[key] = child
			breakValues(child, emit)
		}
	case []any:
		for i, child := range node {
			for _, bad := range hostileJSON() {
				node[i] = json.RawMessage(bad)
				emit()
			}
			node[i] = child
			breakValues(child, emit)
		}
	}
}
