package clients_test

import (
	"encoding/json"
	"regexp"
	"strings"
)

// talk is what a program sends to its model, the same for each API.
type talk struct {
	raw    string
	system string
	tools  []tool
	turns  []turn
	stream bool
}

// tool is one that the program offers to its model.
type tool struct {
	name, space string // space: the namespace in which Codex puts the tools of a server
	schema      map[string]any
	raw         json.RawMessage
}

type kind int

const (
	said   kind = iota // by the person
	called             // by the model
	result             // of a call
)

type turn struct {
	kind kind
	id   string
	name string         // of a called tool
	args map[string]any // of a call
	text string         // of the person, or the result
}

// tool finds a tool of a server: programs put the server's name before it.
func (t *talk) tool(name string) (tool, bool) {
	suffix := regexp.MustCompile(`(^|[_./:-])` + regexp.QuoteMeta(name) + `$`)
	for _, x := range t.tools {
		if suffix.MatchString(x.name) {
			return x, true
		}
	}
	return tool{}, false
}

// shell is the program's own tool that runs commands.
func (t *talk) shell() (tool, bool) {
	for _, name := range []string{"Bash", "bash", "exec_command", "shell_command", "run_shell_command", "execute_command", "run_commands", "shell"} {
		for _, x := range t.tools {
			if x.name == name {
				return x, true
			}
		}
	}
	return tool{}, false
}

// kairos are the tools of KAIROS as the program passes them.
func (t *talk) kairos() (found []tool) {
	for _, x := range t.tools {
		if strings.Contains(x.name, "kairos_") {
			found = append(found, x)
		}
	}
	return found
}

// hears says whether the person said this.
func (t *talk) hears(words string) bool {
	for _, x := range t.turns {
		if x.kind == said && strings.Contains(x.text, words) {
			return true
		}
	}
	return false
}

// outcome is a result with its call.
type outcome struct {
	name string
	args map[string]any
	text string
}

// ours says whether the call was one of KAIROS's tools.
func (o outcome) ours() bool { return strings.Contains(o.name, "kairos_") }

// outcomes are the results in their order, without those of the programs' search for deferred tools.
func (t *talk) outcomes() (all []outcome) {
	calls := make(map[string]turn)
	for _, x := range t.turns {
		switch x.kind {
		case said:
		case called:
			calls[x.id] = x
		case result:
			c := unwrapped(calls[x.id])
			if !finds(c.name) && !awaits(c) {
				all = append(all, outcome{c.name, c.args, x.text})
			}
		}
	}
	return all
}

// finders load a tool of which a program has shown only the name.
var finders = []string{"ToolSearch", "tool_search"}

func finds(name string) bool {
	for _, f := range finders {
		if name == f {
			return true
		}
	}
	return false
}

// caller is Qwen's tool that calls a deferred one.
const caller = "tool_call"

// wrapped is a call of a deferred tool by the program's caller.
func wrapped(through tool, name string, args map[string]any) answer {
	a := answer{tool: through, args: make(map[string]any)}
	for key, p := range object(through.schema, "properties") {
		schema, _ := p.(map[string]any)
		switch {
		case strings.Contains(key, "name") || key == "tool":
			a.args[key] = name
		case text(schema, "type") == "string":
			a.args[key] = encoded(args)
		default:
			a.args[key] = args
		}
	}
	return a
}

func unwrapped(c turn) turn {
	if c.name != caller {
		return c
	}
	for key, v := range c.args {
		switch x := v.(type) {
		case string:
			if strings.Contains(key, "name") || key == "tool" {
				c.name = x
			}
		case map[string]any:
			c.args = x
		}
	}
	return c
}

// pause is what the agent does while the program is still starting the servers.
const pause = "sleep 3 # until the tools are there"

func awaits(c turn) bool { return strings.Contains(encoded(c.args), pause) }

// textOf is the text of a message or a result: a text, or a list of parts.
func textOf(content any) string {
	switch c := content.(type) {
	case nil:
		return ""
	case string:
		return c
	case map[string]any:
		if text, ok := c["text"].(string); ok {
			return text
		}
	case []any:
		parts := make([]string, 0, len(c))
		for _, p := range c {
			parts = append(parts, textOf(p))
		}
		return strings.Join(parts, "\n")
	}
	text, _ := json.Marshal(content) // it was JSON
	return string(text)
}

// objects are the JSON objects of a list.
func objects(list any) (all []map[string]any) {
	items, _ := list.([]any)
	for _, x := range items {
		if o, ok := x.(map[string]any); ok {
			all = append(all, o)
		}
	}
	return all
}

func text(o map[string]any, key string) string { s, _ := o[key].(string); return s }

func object(o map[string]any, key string) map[string]any { m, _ := o[key].(map[string]any); return m }

// decoded is the object in a text; nil: there is none.
func decoded(text string) (o map[string]any) {
	_ = json.Unmarshal([]byte(text), &o) // nil says it
	return o
}

// jsonIn is the first JSON object in a text: programs put words, or a fence, before it, and Cline the whole result of MCP around it.
func jsonIn(text string) map[string]any {
	for i := range text {
		if text[i] != '{' {
			continue
		}
		var found map[string]any
		if json.NewDecoder(strings.NewReader(text[i:])).Decode(&found) != nil {
			continue
		}
		if parts, ok := found["content"].([]any); ok {
			return jsonIn(textOf(parts))
		}
		return found
	}
	return nil
}
