package clients_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// api is one of the four ways in which programs speak with models.
type api struct {
	read  func(req map[string]any) *talk
	write func(t *talk, a answer, n int) string
}

// answer is what the model says: a call of a tool, or its last words.
type answer struct {
	words string
	tool  tool
	args  map[string]any
}

func toolOf(x map[string]any, space, schema string) tool {
	raw, _ := json.Marshal(x) // it was JSON
	return tool{name: text(x, "name"), space: space, schema: object(x, schema), raw: raw}
}

// anthropic is the Messages API.
var anthropic = api{
	read: func(req map[string]any) *talk {
		t := &talk{system: textOf(req["system"])}
		for _, x := range objects(req["tools"]) {
			t.tools = append(t.tools, toolOf(x, "", "input_schema"))
		}
		for _, m := range objects(req["messages"]) {
			if s, ok := m["content"].(string); ok {
				m["content"] = []any{map[string]any{"type": "text", "text": s}}
			}
			for _, p := range objects(m["content"]) {
				switch text(p, "type") {
				case "tool_use":
					t.turns = append(t.turns, turn{kind: called, id: text(p, "id"), name: text(p, "name"), args: object(p, "input")})
				case "tool_result":
					t.turns = append(t.turns, turn{kind: result, id: text(p, "tool_use_id"), text: textOf(p["content"])})
				case "text":
					if text(m, "role") != "assistant" {
						t.turns = append(t.turns, turn{kind: said, text: text(p, "text")})
					}
				}
			}
		}
		return t
	},
	write: func(t *talk, a answer, n int) string {
		usage := map[string]any{"input_tokens": 10, "output_tokens": 5}
		message := map[string]any{"id": fmt.Sprint("msg_", n), "type": "message", "role": "assistant", "model": "fake", "stop_sequence": nil, "stop_reason": nil, "usage": usage}
		block, whole := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text", "text": a.words}
		delta, stop := map[string]any{"type": "text_delta", "text": a.words}, "end_turn"
		if a.args != nil {
			args, _ := json.Marshal(a.args) // it was JSON
			block = map[string]any{"type": "tool_use", "id": fmt.Sprint("toolu_", n), "name": a.tool.name, "input": map[string]any{}}
			whole = map[string]any{"type": "tool_use", "id": fmt.Sprint("toolu_", n), "name": a.tool.name, "input": a.args}
			delta, stop = map[string]any{"type": "input_json_delta", "partial_json": string(args)}, "tool_use"
		}
		if !t.stream {
			message["content"], message["stop_reason"] = []any{whole}, stop
			return encoded(message)
		}
		message["content"] = []any{}
		return events("message_start", map[string]any{"message": message}) +
			events("content_block_start", map[string]any{"index": 0, "content_block": block}) +
			events("content_block_delta", map[string]any{"index": 0, "delta": delta}) + events("content_block_stop", map[string]any{"index": 0}) +
			events("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage}) + events("message_stop", map[string]any{})
	},
}

// responses is OpenAI's Responses API.
var responses = api{
	read: func(req map[string]any) *talk {
		t := &talk{system: text(req, "instructions")}
		for _, x := range objects(req["tools"]) {
			if text(x, "type") != "namespace" {
				t.tools = append(t.tools, toolOf(x, "", "parameters"))
			}
			for _, in := range objects(x["tools"]) {
				t.tools = append(t.tools, toolOf(in, text(x, "name"), "parameters"))
			}
		}
		if s, ok := req["input"].(string); ok {
			t.turns = append(t.turns, turn{kind: said, text: s})
		}
		for _, i := range objects(req["input"]) {
			switch kind := text(i, "type"); {
			case kind == "function_call":
				t.turns = append(t.turns, turn{kind: called, id: text(i, "call_id"), name: text(i, "name"), args: decoded(text(i, "arguments"))})
			case strings.HasSuffix(kind, "_output"):
				t.turns = append(t.turns, turn{kind: result, id: text(i, "call_id"), text: textOf(i["output"])})
			case (kind == "message" || kind == "") && text(i, "role") != "assistant":
				t.turns = append(t.turns, turn{kind: said, text: textOf(i["content"])})
			}
		}
		return t
	},
	write: func(t *talk, a answer, n int) string {
		item := map[string]any{"type": "message", "role": "assistant", "id": fmt.Sprint("m", n), "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": a.words, "annotations": []any{}}}}
		if a.args != nil {
			item = map[string]any{"type": "function_call", "id": fmt.Sprint("fc_", n), "call_id": fmt.Sprint("call_", n), "name": a.tool.name, "arguments": encoded(a.args), "status": "completed"}
			if a.tool.space != "" {
				item["namespace"] = a.tool.space
			}
		}
		usage := map[string]any{"input_tokens": 10, "input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 15}
		whole := map[string]any{"id": fmt.Sprint("resp_", n), "object": "response", "created_at": 1, "model": "fake", "status": "completed", "output": []any{item}, "usage": usage}
		if !t.stream {
			return encoded(whole)
		}
		began := map[string]any{"id": whole["id"], "object": "response", "created_at": 1, "model": "fake", "status": "in_progress", "output": []any{}}
		return events("response.created", map[string]any{"response": began}) +
			events("response.output_item.added", map[string]any{"output_index": 0, "item": item}) +
			events("response.output_item.done", map[string]any{"output_index": 0, "item": item}) +
			events("response.completed", map[string]any{"response": whole})
	},
}

// completions is OpenAI's Chat Completions API.
var completions = api{
	read: func(req map[string]any) *talk {
		t := &talk{}
		for _, x := range objects(req["tools"]) {
			if f := object(x, "function"); f != nil {
				f := toolOf(f, "", "parameters")
				f.raw, _ = json.Marshal(x) // it was JSON
				t.tools = append(t.tools, f)
			}
		}
		for _, m := range objects(req["messages"]) {
			switch text(m, "role") {
			case "system", "developer":
				t.system += textOf(m["content"])
			case "tool":
				t.turns = append(t.turns, turn{kind: result, id: text(m, "tool_call_id"), text: textOf(m["content"])})
			case "user":
				t.turns = append(t.turns, turn{kind: said, text: textOf(m["content"])})
			}
			for _, c := range objects(m["tool_calls"]) {
				f := object(c, "function")
				t.turns = append(t.turns, turn{kind: called, id: text(c, "id"), name: text(f, "name"), args: decoded(text(f, "arguments"))})
			}
		}
		return t
	},
	write: func(t *talk, a answer, n int) string {
		usage := map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
		message, stop := map[string]any{"role": "assistant", "content": a.words}, "stop"
		if a.args != nil {
			call := map[string]any{"index": 0, "id": fmt.Sprint("call_", n), "type": "function", "function": map[string]any{"name": a.tool.name, "arguments": encoded(a.args)}}
			message, stop = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
		}
		chunk := func(part string, value, reason any) map[string]any {
			kind := "chat.completion"
			if part == "delta" {
				kind += ".chunk"
			}
			return map[string]any{"id": fmt.Sprint("chat_", n), "created": 1, "model": "fake", "object": kind, "usage": usage,
				"choices": []any{map[string]any{"index": 0, part: value, "finish_reason": reason}}}
		}
		if !t.stream {
			return encoded(chunk("message", message, stop))
		}
		return events("", chunk("delta", message, nil)) + events("", chunk("delta", map[string]any{}, stop)) + "data: [DONE]\n\n"
	},
}

// gemini is Google's API.
var gemini = api{
	read: func(req map[string]any) *talk {
		t := &talk{system: textOf(object(req, "systemInstruction")["parts"])}
		for _, x := range objects(req["tools"]) {
			for _, f := range objects(x["functionDeclarations"]) {
				schema := "parametersJsonSchema"
				if object(f, schema) == nil {
					schema = "parameters"
				}
				t.tools = append(t.tools, toolOf(f, "", schema))
			}
		}
		n, done := 0, 0 // this API has no ids: results come in the order of the calls
		for _, c := range objects(req["contents"]) {
			for _, p := range objects(c["parts"]) {
				if f := object(p, "functionCall"); f != nil {
					n++
					t.turns = append(t.turns, turn{kind: called, id: fmt.Sprint(n), name: text(f, "name"), args: object(f, "args")})
				} else if f := object(p, "functionResponse"); f != nil {
					done++
					r := object(f, "response")
					out, ok := r["output"]
					if !ok {
						out = r["error"]
					}
					t.turns = append(t.turns, turn{kind: result, id: fmt.Sprint(done), text: textOf(out)})
				} else if words := text(p, "text"); words != "" && text(c, "role") == "user" {
					t.turns = append(t.turns, turn{kind: said, text: words})
				}
			}
		}
		return t
	},
	write: func(t *talk, a answer, _ int) string {
		part := map[string]any{"text": a.words}
		if a.args != nil {
			part = map[string]any{"functionCall": map[string]any{"name": a.tool.name, "args": a.args}}
		}
		r := map[string]any{"modelVersion": "fake", "usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
			"candidates": []any{map[string]any{"index": 0, "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": []any{part}}}}}
		if !t.stream {
			return encoded(r)
		}
		return events("", r)
	},
}

func encoded(v any) string {
	text, _ := json.Marshal(v) // it is JSON
	return string(text)
}

// events is a server-sent event; without a name as OpenAI and Google send them.
func events(name string, data map[string]any) string {
	if name == "" {
		return "data: " + encoded(data) + "\n\n"
	}
	data["type"] = name
	return "event: " + name + "\ndata: " + encoded(data) + "\n\n"
}
