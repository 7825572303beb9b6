package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// listKeys are the keywords that a list in a form may use.
var listKeys = []string{"$comment", "type", "title", "description", "default", "examples", "items", "minItems", "maxItems", "uniqueItems"}

// Form is how a person fills in a value: a flat form as MCP elicitation
// requires, and how to read what was filled in. See FormOf.
type Form struct {
	// Schema is for the client.
	Schema json.RawMessage
	// Titles are for the text of the question: what the choices are called that the schema
	// shows by their values alone.
	Titles []Titles

	lists    map[string]list
	optional map[string]map[string]any // fields that may be left out
}

// list is a field whose value is a list.
type list struct {
	items   string // type of the items
	choices []option
}

type option struct{ value, title string }

// FormOf returns the form of a schema that Flat takes, or one that has lists of
// strings, numbers or integers besides. A list is a text field, to be filled in
// one item per line or separated by commas. With choices, the form has fields of
// several choices and choices with titles, which clients of MCP know since 2025-11-25:
// without, a list of choices is a text field, too, and a titled choice is an enum of
// its values, whose titles are in Form.Titles.
func FormOf(schema json.RawMessage, choices bool) (Form, error) {
	doc, err := decode(schema)
	if err != nil {
		return Form{}, err
	}
	top, _ := doc.(map[string]any)
	properties, _ := top["properties"].(map[string]any)
	f := Form{Schema: schema, lists: map[string]list{}, optional: map[string]map[string]any{}}
	shown, checked := map[string]any{}, maps.Clone(properties)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		field, _ := properties[name].(map[string]any)
		if !required(top, name) {
			f.optional[name] = field
		}
		switch {
		case field["type"] == "array":
			l, err := listOf(field)
			if err != nil {
				return Form{}, fmt.Errorf("field %q: %w", name, err)
			}
			f.lists[name] = l
			checked[name] = l.textField(field)
			shown[name] = checked[name]
			if choices && len(l.choices) > 0 {
				shown[name] = l.choiceField(field)
			}
		case field["oneOf"] != nil && !choices:
			shown[name] = enumField(field)
		}
	}
	if err := flatAs(top, checked); err != nil {
		return Form{}, err
	}
	if _, err := Compile(schema); err != nil { // what the lists say besides
		return Form{}, err
	}
	f.Schema, f.Titles, err = showing(schema, shown)
	return f, err
}

// required is what Strict makes of it: without a say on required keys, all are.
func required(top map[string]any, name string) bool {
	names, said := top["required"].([]any)
	return !said || slices.Contains(names, any(name))
}

// flatAs is Flat of the form with other properties.
func flatAs(top map[string]any, properties map[string]any) error {
	changed := maps.Clone(top)
	if properties != nil {
		changed["properties"] = properties
	}
	raw, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	return Flat(raw)
}

func listOf(field map[string]any) (list, error) {
	if err := onlyKeys(field, listKeys); err != nil {
		return list{}, fmt.Errorf("a list %w", err)
	}
	items, ok := field["items"].(map[string]any)
	if !ok {
		return list{}, errors.New(`a list needs "items": what each of its items is`)
	}
	items = maps.Clone(items)
	if titled, found := items["anyOf"]; found && items["oneOf"] == nil {
		items["oneOf"] = titled // titled choices, as clients write them
		delete(items, "anyOf")
	}
	if items["type"] == nil && (items["enum"] != nil || items["oneOf"] != nil) {
		items["type"] = "string"
	}
	if err := flatField(items); err != nil {
		return list{}, fmt.Errorf("items: %w", err)
	}
	l := list{items: items["type"].(string)} // flatField has seen it
	if l.items == "boolean" {
		return list{}, errors.New("items: a list of true and false cannot be filled in")
	}
	if l.items == "string" {
		l.choices = optionsOf(items)
	}
	return l, nil
}

// optionsOf lists the choices that are texts of a field or of items that flatField takes.
func optionsOf(items map[string]any) []option {
	var out []option
	values, _ := items["enum"].([]any)
	for _, v := range values {
		if text, isText := v.(string); isText {
			out = append(out, option{text, text})
		}
	}
	titled, _ := items["oneOf"].([]any)
	for _, c := range titled {
		choice := c.(map[string]any) // flatChoices has seen it
		value, isText := choice["const"].(string)
		if !isText {
			continue
		}
		o := option{value: value}
		if o.title, _ = choice["title"].(string); o.title == "" {
			o.title = o.value
		}
		out = append(out, o)
	}
	return out
}

// textField is the list as a text that Form.Value reads.
func (l list) textField(field map[string]any) map[string]any {
	hint := "One per line, or separated by commas."
	if l.items != "string" {
		hint = "Numbers, one per line or separated by commas."
	}
	if len(l.choices) > 0 {
		hint += " Possible: " + l.titles() + "."
	}
	shown := map[string]any{"type": "string", "description": sentences(field["description"], hint)}
	if title, found := field["title"]; found {
		shown["title"] = title
	}
	if least, ok := field["minItems"].(json.Number); ok && least != "0" {
		shown["minLength"] = 1
	}
	if text, ok := l.joined(field["default"]); ok {
		shown["default"] = text
	}
	return shown
}

func (l list) titles() string {
	titles := make([]string, len(l.choices))
	for i, o := range l.choices {
		titles[i] = o.title
	}
	return strings.Join(titles, ", ")
}

func sentences(description any, hint string) string {
	text, _ := description.(string)
	if text = strings.TrimSpace(text); text == "" {
		return hint
	}
	if !strings.ContainsRune(".!?:", rune(text[len(text)-1])) {
		text += "."
	}
	return text + " " + hint
}

// joined is a default as it would be typed; none, if it would be read otherwise.
func (l list) joined(fallback any) (string, bool) {
	values, ok := fallback.([]any)
	if !ok || len(values) == 0 {
		return "", false
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprint(v)
	}
	text := strings.Join(parts, ", ")
	return text, slices.Equal(l.split(text), parts)
}

// choiceField is the list as several of its choices.
func (l list) choiceField(field map[string]any) map[string]any {
	shown := map[string]any{"type": "array"}
	for _, key := range []string{"title", "description", "minItems", "maxItems", "default"} {
		if v, found := field[key]; found {
			shown[key] = v
		}
	}
	var values []string
	var titled []map[string]string
	named := false
	for _, o := range l.choices {
		values = append(values, o.value)
		titled = append(titled, map[string]string{"const": o.value, "title": o.title})
		named = named || o.title != o.value
	}
	shown["items"] = map[string]any{"type": "string", "enum": values}
	if named {
		shown["items"] = map[string]any{"anyOf": titled}
	}
	return shown
}

// Value is what a person filled in as a value for the schema that the form is
// of: texts become lists, and what is empty in a field that may be left out is left
// out. It does not judge the value, but says which part of a text cannot be one of
// its list.
func (f Form) Value(content json.RawMessage) (json.RawMessage, []driver.Diagnostic) {
	one, err := fields.DecodeOne(content)
	if err != nil {
		return nil, []driver.Diagnostic{driver.Problem("", err.Error())}
	}
	members, isObject := fields.Members(one)
	if !isObject {
		return content, nil
	}
	var found []driver.Diagnostic
	kept, changed := members[:0:0], false
	for _, m := range members {
		if l, isList := f.lists[m.Key]; isList {
			read, wrong := l.value(m)
			found = append(found, wrong...)
			changed = changed || !bytes.Equal(read, m.Value)
			m.Value = read
		}
		if field, optional := f.optional[m.Key]; optional && empty(field, m.Value) {
			changed = true
			continue
		}
		kept = append(kept, m)
	}
	switch {
	case found != nil:
		return nil, found
	case !changed:
		return content, nil
	}
	return fields.ObjectOf(kept), nil
}

// empty reports whether nothing was filled in. An empty text may be one of the choices.
func empty(field map[string]any, value json.RawMessage) bool {
	switch string(value) {
	case "null", "[]":
		return true
	case `""`:
		return !slices.ContainsFunc(optionsOf(field), func(o option) bool { return o.value == "" })
	}
	return false
}

// value is the list that a text holds; anything else stays as it is.
func (l list) value(m fields.Member) (json.RawMessage, []driver.Diagnostic) {
	var text string
	if m.Value[0] != '"' || json.Unmarshal(m.Value, &text) != nil {
		return m.Value, nil
	}
	values, wrong := l.read(text, fields.Pointer(m.Key))
	if wrong != nil {
		return m.Value, wrong
	}
	read, err := marshal(values)
	if err != nil {
		return m.Value, []driver.Diagnostic{driver.Problem(fields.Pointer(m.Key), err.Error())}
	}
	return read, nil
}

func (l list) read(text, pointer string) (values []any, wrong []driver.Diagnostic) {
	values = []any{}
	for i, part := range l.split(text) {
		if l.items == "string" {
			values = append(values, l.chosen(part))
			continue
		}
		if part[0] != '-' && (part[0] < '0' || part[0] > '9') || !json.Valid([]byte(part)) {
			wrong = append(wrong, driver.Problem(fmt.Sprintf("%s/%d", pointer, i), fmt.Sprintf("%.80q is not a number", part)))
			continue
		}
		values = append(values, json.Number(part))
	}
	return values, wrong
}

// chosen is the choice that was typed by its title or value; what is none stays
// as it is, for the schema to judge.
func (l list) chosen(typed string) string {
	for _, o := range l.choices {
		if typed == o.value || strings.EqualFold(typed, o.title) {
			return o.value
		}
	}
	return typed
}

// split reads a list that was typed: lines, or what commas separate. On one of several
// lines a text may have commas in it; a number, or one of several choices, has none.
func (l list) split(text string) []string {
	lines := strings.FieldsFunc(strings.TrimSpace(text), func(r rune) bool { return r == '\r' || r == '\n' })
	var parts []string
	for _, line := range lines {
		pieces := []string{strings.TrimSpace(line)}
		if len(lines) == 1 || l.items != "string" || len(l.choices) > 0 && !l.isChoice(pieces[0]) {
			pieces = strings.Split(line, ",")
		}
		for _, piece := range pieces {
			if piece = strings.TrimSpace(piece); piece != "" {
				parts = append(parts, piece)
			}
		}
	}
	return parts
}

func (l list) isChoice(typed string) bool {
	return slices.ContainsFunc(l.choices, func(o option) bool { return o.value == typed || strings.EqualFold(typed, o.title) })
}
