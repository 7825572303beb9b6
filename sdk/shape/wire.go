package shape

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

const uriPattern = "^kairos://mem/[0-9a-fA-F-]{36}$"

// Shaped is a struct with fields of raw JSON that a schema describes: Shapes gives
// each, by its name in JSON, a struct.
type Shaped interface{ Shapes() map[string]any }

// SchemaOf returns the schema of what encoding/json writes of a struct. Objects are
// open, and a field is required if its json tag never omits it. It reads the tags
// doc, min, max and enum, and beyond these:
//
//	required  "true" although the json tag may omit the field, or "false"
//	form      "uri": a kairos://mem/ URI; "opaque": an object about which nothing more
//	          is said; "null": an object or null
//	items     the tags min and form for the items of a slice, such as "min=1" or "uri"
//
// The doc tag of a blank field describes the struct where a field of it has none.
// SchemaOf panics if the struct has no schema, which is a mistake in the program.
func SchemaOf(value any) *Schema {
	typ := reflect.TypeOf(value)
	n, err := builder{wire: true}.build(typ, "")
	if err != nil {
		panic(fmt.Sprintf("%s has no JSON Schema: %v", typ, err))
	}
	return n.schema()
}

// ClosedSchemaOf is SchemaOf for a value to which nobody adds members: its objects
// have no others.
func ClosedSchemaOf(value any) *Schema {
	s := SchemaOf(value)
	s.close()
	return s
}

func (s *Schema) close() {
	switch more, dictionary := s.AdditionalProperties.(*Schema); {
	case dictionary:
		more.close()
	case len(s.Properties) > 0:
		s.AdditionalProperties = false
	}
	for _, p := range s.Properties {
		p.Schema.close()
	}
	if s.Items != nil {
		s.Items.close()
	}
}

// written reads the tags of a field that encoding/json writes.
func (b builder) written(m *field, f reflect.StructField, in reflect.Type) error {
	typ := f.Type
	if shaped, ok := reflect.Zero(in).Interface().(Shaped); ok && shaped.Shapes()[m.name] != nil {
		typ = reflect.TypeOf(shaped.Shapes()[m.name])
	}
	var err error
	if m.node, err = b.build(typ, f.Tag); err != nil {
		return err
	}
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	m.required = !strings.Contains(options, "omit")
	if typ.Kind() == reflect.Pointer && m.required {
		m.node.types = []string{"null", typeNames[m.node.form]}
	}
	if required, found := f.Tag.Lookup("required"); found {
		if m.required, err = strconv.ParseBool(required); err != nil {
			return fmt.Errorf("tag required is %q, want true or false", required)
		}
	}
	if m.doc == "" && m.node.form == object {
		blank, _ := m.node.typ.FieldByName("_")
		m.doc = blank.Tag.Get("doc")
	}
	return m.node.reshape(f.Tag)
}

// reshape applies the tags form and items.
func (n *node) reshape(tag reflect.StructTag) error {
	if items, found := tag.Lookup("items"); found {
		if n.elem == nil {
			return fmt.Errorf("a %s has no items", n.typ)
		}
		if least, ok := strings.CutPrefix(items, "min="); ok {
			return n.elem.bounds(reflect.StructTag(`min:"` + least + `"`))
		}
		return n.elem.reshape(reflect.StructTag(`form:"` + items + `"`))
	}
	switch form, found := tag.Lookup("form"); {
	case !found:
	case form == "uri":
		n.pattern = uriPattern
	case form == "opaque":
		*n = node{typ: n.typ, form: object, opaque: true}
	case form == "null":
		n.types, n.opaque = []string{"object", "null"}, true
	default:
		return fmt.Errorf("there is no form %q", form)
	}
	return nil
}
