package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// form is a flat JSON Schema as a list of fields to ask for.
type form struct {
	fields []field
	schema *schema.Schema
}

type field struct {
	name        string
	title       string
	description string
	typ         string
	choices     []choice // of the value, or of the items of an array
	required    bool
	fallback    any // nil: none
	schema      *schema.Schema
}

type choice struct {
	value any
	title string
}

// fieldSchema is what of a property's schema a form shows.
type fieldSchema struct {
	Type        any           `json:"type"`
	Title       string        `json:"title"`
	Description string        `json:"description"`
	Default     any           `json:"default"`
	Enum        []any         `json:"enum"`
	EnumNames   []string      `json:"enumNames"`
	OneOf       []titledConst `json:"oneOf"`
	AnyOf       []titledConst `json:"anyOf"`
	Items       *fieldSchema  `json:"items"`
}

type titledConst struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// parseForm reads a form from a schema, which is a stranger's: nothing is
// loaded for it, and what is not flat is refused.
func parseForm(raw json.RawMessage) (form, error) {
	var top struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(raw, &top); err != nil {
		return form{}, fmt.Errorf("form schema: %w", err)
	}
	if top.Type != "object" || len(top.Properties) == 0 {
		return form{}, errors.New("form schema: not an object with properties")
	}
	compiled, err := schema.Compile(raw)
	if err != nil {
		return form{}, fmt.Errorf("form schema: %w", err)
	}
	f := form{schema: compiled}
	for _, name := range fieldOrder(top.Required, top.Properties) {
		fd, err := parseField(name, top.Properties[name])
		if err != nil {
			return form{}, fmt.Errorf("form schema: property %q: %w", name, err)
		}
		fd.required = slices.Contains(top.Required, name)
		f.fields = append(f.fields, fd)
	}
	return f, nil
}

// fieldOrder is the required fields as listed, then the others by name: the
// order in the schema is lost on the way.
func fieldOrder(required []string, properties map[string]json.RawMessage) []string {
	var order []string
	for _, name := range required {
		if _, ok := properties[name]; ok && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

func parseField(name string, raw json.RawMessage) (field, error) {
	var s fieldSchema
	if err := decode(raw, &s); err != nil {
		return field{}, err
	}
	compiled, err := schema.Compile(raw)
	if err != nil {
		return field{}, err
	}
	typ, _ := s.Type.(string)
	if typ == "" && len(s.Enum)+len(s.OneOf) > 0 {
		typ = "string"
	}
	fd := field{name: name, title: s.Title, description: s.Description, typ: typ, fallback: s.Default, schema: compiled}
	switch typ {
	case "string", "integer", "number", "boolean":
		fd.choices = s.choices()
	case "array":
		if s.Items != nil {
			fd.choices = s.Items.choices()
		}
	default:
		return field{}, fmt.Errorf("type %v cannot be asked for in a form", s.Type)
	}
	return fd, nil
}

func (s fieldSchema) choices() []choice {
	var out []choice
	for i, value := range s.Enum {
		c := choice{value: value, title: fmt.Sprint(value)}
		if i < len(s.EnumNames) {
			c.title = s.EnumNames[i]
		}
		out = append(out, c)
	}
	for _, tc := range append(slices.Clone(s.OneOf), s.AnyOf...) {
		if tc.Const == nil {
			continue
		}
		c := choice{value: tc.Const, title: tc.Title}
		if c.title == "" {
			c.title = fmt.Sprint(tc.Const)
		}
		out = append(out, c)
	}
	return out
}

// validate checks a value that was made here or by encoding/json.
func validate(s *schema.Schema, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if wrong := s.Validate(raw); len(wrong) > 0 {
		return errors.New(fields.Text(wrong))
	}
	return nil
}

// content is an answer as the form's object: the object itself, or the value
// of the form's only field.
func (f form) content(answer json.RawMessage) (map[string]any, error) {
	var value any
	if err := decode(answer, &value); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		if len(f.fields) != 1 {
			return nil, fmt.Errorf("answer is not an object, and the form has %d fields", len(f.fields))
		}
		object = map[string]any{f.fields[0].name: value}
	}
	return object, validate(f.schema, object)
}

// text shows the form below its message, as part of the question.
func (f form) text() string {
	var b strings.Builder
	for _, fd := range f.fields {
		fmt.Fprintf(&b, "\n%s", fd.label())
	}
	return b.String()
}

func (fd field) label() string { return fd.meaning() + fd.howTo() }

// meaning is what a person should know of the field.
func (fd field) meaning() string {
	label := fd.name
	if fd.title != "" && fd.title != fd.name {
		label = fd.title + " (" + fd.name + ")"
	}
	if fd.description != "" {
		label += ": " + fd.description
	}
	return label
}

// howTo says in brackets what may be typed. Empty means any text.
func (fd field) howTo() string {
	how := map[string]string{
		"integer": "a whole number", "number": "a number", "boolean": "y or n", "array": "separated by commas", typeJSON: "as JSON",
	}[fd.typ]
	if len(fd.choices) > 0 {
		var titles []string
		for i, c := range fd.choices {
			titles = append(titles, fmt.Sprintf("%d = %s", i+1, c.title))
		}
		how = strings.Join(titles, ", ")
	}
	if how == "" {
		return ""
	}
	return " [" + how + "]"
}

// parse turns what was typed into the field's value.
func (fd field) parse(typed string) (any, error) {
	var value any
	var err error
	if fd.typ == typeJSON {
		if !json.Valid([]byte(typed)) {
			return nil, errors.New("not JSON; a text needs quotes")
		}
		return json.RawMessage(typed), nil
	}
	if fd.typ == "array" {
		items := []any{}
		for _, part := range strings.FieldsFunc(typed, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
			if part = strings.TrimSpace(part); part != "" {
				items = append(items, fd.pick(part))
			}
		}
		value = items
	} else if value, err = fd.scalar(typed); err != nil {
		return nil, err
	}
	return value, validate(fd.schema, value)
}

func (fd field) scalar(typed string) (any, error) {
	if len(fd.choices) > 0 {
		return fd.pick(strings.TrimSpace(typed)), nil
	}
	switch fd.typ {
	case "integer", "number":
		number := json.Number(strings.TrimSpace(typed))
		if _, err := number.Float64(); err != nil || !json.Valid([]byte(number)) {
			return nil, fmt.Errorf("%q is not a number", typed)
		}
		return number, nil
	case "boolean":
		switch typed := strings.ToLower(strings.TrimSpace(typed)); {
		case typed == "true", slices.Contains(yesWords, typed):
			return true, nil
		case typed == "false", slices.Contains(noWords, typed):
			return false, nil
		}
		return nil, fmt.Errorf("%q is neither yes nor no", typed)
	}
	return typed, nil
}

// pick returns the choice that was typed by number, value or title, by another word
// for yes or no, or by a first letter that no other choice has; what fits none is
// returned as it is, for the schema to refuse.
func (fd field) pick(typed string) any {
	for _, c := range fd.choices {
		if strings.EqualFold(typed, c.title) || typed == fmt.Sprint(c.value) {
			return c.value
		}
	}
	if i, err := strconv.Atoi(typed); err == nil && i >= 1 && i <= len(fd.choices) {
		return fd.choices[i-1].value
	}
	for _, words := range [][]string{yesWords, noWords} {
		if c := fd.choicesAmong(words); len(c) == 1 && slices.Contains(words, strings.ToLower(typed)) {
			return c[0].value
		}
	}
	begin := slices.DeleteFunc(slices.Clone(fd.choices), func(c choice) bool {
		return utf8.RuneCountInString(typed) != 1 || !strings.HasPrefix(strings.ToLower(c.title), strings.ToLower(typed))
	})
	if len(begin) == 1 {
		return begin[0].value
	}
	return typed
}

// choicesAmong are the choices whose value is one of the words.
func (fd field) choicesAmong(words []string) []choice {
	return slices.DeleteFunc(slices.Clone(fd.choices), func(c choice) bool {
		return !slices.Contains(words, strings.ToLower(fmt.Sprint(c.value)))
	})
}

// Words that a person types instead of a value.
const (
	typedDecline = ":decline"
	typedCancel  = ":cancel"
)

// fill asks for every field until its value is valid. The caller has the dialog.
func (f form) fill(ctx context.Context, c *console, by asker) (decision, error) {
	if slices.ContainsFunc(f.fields, by.types) {
		c.say("  (%s declines, %s closes the form)", typedDecline, typedCancel)
	}
	for {
		object := map[string]any{}
		for _, fd := range f.fields {
			v, value, err := fd.ask(ctx, c, by)
			if err != nil || v != verbAnswer {
				return decision{verb: v}, err
			}
			if value != nil {
				object[fd.name] = value
			}
		}
		if err := validate(f.schema, object); err != nil {
			c.say("  not valid: %v", err)
			continue
		}
		raw, err := json.Marshal(object)
		return decision{verb: verbAnswer, answer: raw}, err
	}
}

func (fd field) ask(ctx context.Context, c *console, by asker) (verb, any, error) {
	prompt := "  " + strings.TrimRight(fd.label(), ".:")
	if fd.fallback != nil {
		prompt += fmt.Sprintf(" (empty: %v)", fd.fallback)
	} else if !fd.required {
		prompt += " (may be empty)"
	}
	for {
		typed, err := by.value(ctx, prompt+":", fd)
		if err != nil {
			return "", nil, err
		}
		switch strings.TrimSpace(typed) {
		case typedDecline:
			return verbDecline, nil, nil
		case typedCancel:
			return verbCancel, nil, nil
		case "":
			if fd.fallback != nil || !fd.required {
				return verbAnswer, fd.fallback, nil
			}
		}
		value, err := fd.parse(typed)
		if err == nil {
			return verbAnswer, value, nil
		}
		c.say("  not valid: %v", err)
	}
}

// typeJSON is the type of a field whose value is typed as JSON.
const typeJSON = "json"

// missingArguments are the arguments that a tool requires and that are not given,
// as fields to ask for. The tool itself checks an argument whose schema no form
// can express.
func missingArguments(tool json.RawMessage, given map[string]any) []field {
	var top struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(tool, &top) != nil {
		return nil // the tool's own error says more
	}
	var missing []field
	for _, name := range slices.Compact(top.Required) {
		if _, ok := given[name]; ok {
			continue
		}
		fd, err := parseField(name, top.Properties[name])
		var shown fieldSchema
		_ = json.Unmarshal(top.Properties[name], &shown) // says nothing if it is not a schema
		if err != nil || fd.typ == "array" && !shown.hasTexts() {
			fd = field{name: name, title: shown.Title, description: shown.Description, typ: typeJSON}
		}
		fd.required = true
		missing = append(missing, fd)
	}
	return missing
}

// hasTexts: the array's items are texts, which can be typed with commas between them.
func (s fieldSchema) hasTexts() bool { return s.Items != nil && s.Items.Type == "string" }
