package input

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// SaidAnswered is the decision of a person who answers a question that is not an approval.
const SaidAnswered = "answered"

// Field is one field of a question on the page on which a person answers it.
type Field struct {
	Name        string
	Title       string // or the name
	Description string
	Required    bool
	// Type and Format are those of JSON Schema; a list of anything but choices is a string.
	Type, Format string
	// Choices are the values that can be chosen; empty: the field is filled in freely. Many: several of
	// them can be.
	Choices []Choice
	Many    bool
	// Given is what was filled in before.
	Given []string

	list bool // the value is a list
}

// Choice is a value that can be chosen.
type Choice struct {
	Value string // as it is sent
	Title string
	Given bool

	json json.RawMessage
}

// property is what a page shows of a field of a form.
type property struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Format      string            `json:"format"`
	Const       json.RawMessage   `json:"const"`
	Enum        []json.RawMessage `json:"enum"`
	EnumNames   []string          `json:"enumNames"`
	OneOf       []titledChoice    `json:"oneOf"`
	AnyOf       []titledChoice    `json:"anyOf"` // of the items of a list
	Items       *property         `json:"items"`
}

type titledChoice struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// FieldsOf are the fields in which a person fills in the input, in the order in which they are written. An
// input that has no flat form is an error.
func FieldsOf(in driver.Input) ([]Field, error) {
	_, all, err := formOf(in)
	return all, err
}

func formOf(in driver.Input) (schema.Form, []Field, error) {
	form, err := schema.FormOf(in.Schema, true)
	if err != nil {
		return form, nil, err
	}
	asked, shown := fields.Open(in.Schema, ""), fields.Open(form.Schema, "")
	written, _ := fields.Members(asked.Raw("properties"))
	var required []string
	if asked.Has("required") {
		if err := json.Unmarshal(asked.Raw("required"), &required); err != nil {
			return form, nil, err
		}
	}
	all := make([]Field, 0, len(written))
	for _, m := range written {
		var p property
		if err := json.Unmarshal(shown.Object("properties").Raw(m.Key), &p); err != nil {
			return form, nil, err
		}
		f := p.field(m.Key)
		f.Required = !asked.Has("required") || slices.Contains(required, m.Key)
		typ, _ := fields.Open(m.Value, "").String("type")
		f.list = typ == "array"
		all = append(all, f)
	}
	return form, all, nil
}

func (p property) field(name string) Field {
	f := Field{Name: name, Title: cmp.Or(p.Title, name), Description: p.Description, Type: p.Type, Format: p.Format, Many: p.Items != nil}
	if p.Items != nil {
		p = *p.Items
	}
	switch {
	case p.Const != nil:
		f.choose(p.Const, "")
	case len(p.OneOf) > 0 || len(p.AnyOf) > 0:
		for _, c := range slices.Concat(p.OneOf, p.AnyOf) {
			f.choose(c.Const, c.Title)
		}
	case len(p.Enum) > 0:
		for i, value := range p.Enum {
			title := ""
			if i < len(p.EnumNames) {
				title = p.EnumNames[i]
			}
			f.choose(value, title)
		}
	case p.Type == "boolean":
		f.choose(json.RawMessage("true"), "Yes")
		f.choose(json.RawMessage("false"), "No")
	}
	return f
}

func (f *Field) choose(value json.RawMessage, title string) {
	c := Choice{Value: string(value), json: value}
	var text string
	if json.Unmarshal(value, &text) == nil {
		c.Value = text
	}
	c.Title = cmp.Or(title, c.Value)
	f.Choices = append(f.Choices, c)
}

// Filled are the fields with what was filled in, to be shown again.
func Filled(all []Field, given map[string][]string) []Field {
	shown := slices.Clone(all)
	for i := range shown {
		f := &shown[i]
		f.Given, f.Choices = given[f.Name], slices.Clone(f.Choices)
		for j := range f.Choices {
			f.Choices[j].Given = slices.Contains(f.Given, f.Choices[j].Value)
		}
	}
	return shown
}

// ReadFields reads what was filled in as a value for the input. It finds whatever the input does not take.
func ReadFields(in driver.Input, given map[string][]string) (json.RawMessage, []driver.Diagnostic) {
	form, all, err := formOf(in)
	if err != nil {
		return nil, []driver.Diagnostic{driver.Problem("", err.Error())}
	}
	var members []string
	var found []driver.Diagnostic
	for _, f := range all {
		switch read, wrong := f.read(given[f.Name]); {
		case wrong != "":
			found = append(found, driver.Problem(fields.Pointer(f.Name), wrong))
		case read != nil:
			members = append(members, string(quoted(f.Name))+":"+string(read))
		}
	}
	value := json.RawMessage("{" + strings.Join(members, ",") + "}")
	if found != nil {
		return nil, found
	}
	if value, found = form.Value(value); found != nil {
		return nil, found
	}
	strict, err := schema.Strict(in.Schema)
	if err != nil {
		return nil, []driver.Diagnostic{driver.Problem("", err.Error())}
	}
	return value, schema.Validate(strict, value)
}

// read is what was filled in as JSON; nil: nothing was. Characters that cannot be seen are not an answer.
func (f Field) read(given []string) (value json.RawMessage, wrong string) {
	given = slices.DeleteFunc(slices.Clone(given), func(text string) bool { return plain.Empty(text) && !f.offers(text) })
	switch {
	case f.Many:
		if len(given) == 0 && !f.Required {
			return nil, ""
		}
		chosen := make([]string, len(given))
		for i, text := range given {
			chosen[i] = string(f.value(text))
		}
		return json.RawMessage("[" + strings.Join(chosen, ",") + "]"), ""
	case len(given) > 1:
		return nil, "is answered more than once"
	case len(given) == 1:
		return f.value(given[0]), ""
	case !f.Required:
		return nil, ""
	case f.list:
		return json.RawMessage(`""`), "" // an empty list
	}
	return nil, "needs an answer"
}

func (f Field) offers(text string) bool {
	return slices.ContainsFunc(f.Choices, func(c Choice) bool { return c.Value == text })
}

// value is a text as the field takes it, or as a JSON string, which its schema then judges.
func (f Field) value(text string) json.RawMessage {
	for _, c := range f.Choices {
		if c.Value == text {
			return c.json
		}
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	number := json.RawMessage(strings.TrimSpace(text))
	if (f.Type == "number" || f.Type == "integer") && json.Valid(number) && fields.TypeOf(number) == "a number" {
		return number
	}
	return quoted(text)
}

// quoted is a text in JSON.
func quoted(text string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a text always is
	return bytes.TrimSpace(b.Bytes())
}

// WrongFields says what is wrong with what was filled in.
func WrongFields(found []driver.Diagnostic) string {
	return fmt.Sprintf("This is not an answer yet: %s. Nothing was decided.", strings.TrimSuffix(Describe(found), "."))
}
