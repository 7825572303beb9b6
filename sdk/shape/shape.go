// Package shape makes JSON Schemas of Go structs, and reads JSON into a struct as
// its schema says. Settings, challenges and the tools of the server have their
// schemas from it. Package settings documents the tags.
package shape

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// form is what a value looks like in JSON.
type form int

const (
	text form = iota
	boolean
	whole
	number
	duration
	list
	dictionary
	object
	anything // any JSON value, kept as it stands
)

// node is one type of value with its bounds. A node is never changed once built.
type node struct {
	typ  reflect.Type // without the pointer
	form form
	min  *bound
	max  *bound
	enum []string

	elem    *node   // of a list or dictionary
	members []field // of an object, in the order of the struct

	pattern string
	types   []string // the types in JSON where null is one of them
	open    bool     // an object may have other members
	opaque  bool     // an object of which nothing more is said
}

// bound is a limit of a number, a length or a duration.
type bound struct {
	literal string   // as it stands in the tag
	exact   *big.Rat // seconds for a duration
}

// field is a member of an object.
type field struct {
	name     string
	index    int // in the struct
	node     *node
	optional bool // a pointer: nil when it is not there
	required bool
	secret   bool
	doc      string
	fallback json.RawMessage // nil: none
}

// Shape is a struct type T as JSON. It is safe for concurrent use.
type Shape[T any] struct {
	root     *node
	schema   json.RawMessage
	defaults T
}

// Of reads the type of a struct. It panics when T cannot be read: that is a
// mistake in the program, which no input brings about.
func Of[T any]() *Shape[T] {
	typ := reflect.TypeFor[T]()
	if typ.Kind() != reflect.Struct {
		panic(fmt.Sprintf("%s is not a struct", typ))
	}
	root, err := builder{}.build(typ, "")
	if err != nil {
		panic(fmt.Sprintf("%s cannot be read from JSON: %v", typ, err))
	}
	s := &Shape[T]{root: root, schema: root.schema().JSON()}
	if found := root.fillDefaults(reflect.ValueOf(&s.defaults).Elem(), ""); len(found) > 0 {
		panic(fmt.Sprintf("the defaults of %s are not valid: %s", typ, fields.Text(found)))
	}
	return s
}

// Schema is the JSON Schema of the documents that Read takes.
func (s *Shape[T]) Schema() json.RawMessage { return slices.Clone(s.schema) }

// Defaults is the struct as it is when nothing is said.
func (s *Shape[T]) Defaults() T {
	var value T
	s.root.fillDefaults(reflect.ValueOf(&value).Elem(), "")
	return value
}

// Empty reports whether the struct has no members at all.
func (s *Shape[T]) Empty() bool { return len(s.root.members) == 0 }

// Read reads a document with its defaults filled in. Pointers of diagnostics
// begin with pointer. With an error among the diagnostics the value is not to
// be used.
func (s *Shape[T]) Read(raw json.RawMessage, pointer string) (T, []driver.Diagnostic) {
	return s.read(raw, pointer, reader{})
}

// ReadTemplated is Read for a document that is not filled in yet: texts with a
// template in them are not held to their bounds.
func (s *Shape[T]) ReadTemplated(raw json.RawMessage, pointer string) (T, []driver.Diagnostic) {
	return s.read(raw, pointer, reader{templates: true})
}

// ReadLenient is Read that passes over keys which the struct does not have and
// takes null for not there.
func (s *Shape[T]) ReadLenient(raw json.RawMessage, pointer string) (T, []driver.Diagnostic) {
	return s.read(raw, pointer, reader{lenient: true})
}

func (s *Shape[T]) read(raw json.RawMessage, pointer string, r reader) (T, []driver.Diagnostic) {
	var value T
	one, err := fields.DecodeOne(raw)
	if err != nil {
		return value, []driver.Diagnostic{driver.Problem(pointer, err.Error())}
	}
	r.object(s.root, one, reflect.ValueOf(&value).Elem(), pointer)
	return value, r.found
}

var durationType = reflect.TypeFor[time.Duration]()

// builder makes nodes of types.
type builder struct {
	wire   bool           // for SchemaOf
	within []reflect.Type // the structs around the type, as one that holds itself has no end
}

func (b builder) build(typ reflect.Type, tag reflect.StructTag) (*node, error) {
	if b.wire && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	n := &node{typ: typ}
	var err error
	switch kind := typ.Kind(); {
	case typ == rawType, b.wire && kind == reflect.Interface:
		n.form = anything
	case typ == durationType && !b.wire:
		n.form = duration
	case typ == timeType && b.wire:
		n.form = text
	case !b.wire && readsItself(typ):
		return nil, fmt.Errorf("a %s reads JSON in its own way, which a schema cannot say; use a string, or json.RawMessage for any JSON value", typ)
	case kind == reflect.String:
		n.form = text
	case kind == reflect.Bool:
		n.form = boolean
	case kind >= reflect.Int && kind <= reflect.Int64, kind >= reflect.Uint && kind <= reflect.Uint64:
		n.form = whole
		n.min, n.max = naturalBounds(typ)
	case kind == reflect.Float32, kind == reflect.Float64:
		n.form = number
	case kind == reflect.Slice && typ.Elem().Kind() == reflect.Uint8 && !b.wire:
		return nil, fmt.Errorf("a %s is a string in JSON and would be read as a list; use a string, or json.RawMessage for any JSON value", typ)
	case kind == reflect.Slice:
		n.form = list
		n.elem, err = b.build(typ.Elem(), "")
	case kind == reflect.Map && typ.Key().Kind() == reflect.String:
		n.form = dictionary
		n.elem, err = b.build(typ.Elem(), "")
	case kind == reflect.Struct:
		n.form, n.open = object, b.wire
		n.members, err = b.members(typ)
	default:
		return nil, fmt.Errorf("a %s has no form in JSON here; use a string, bool, number, time.Duration, slice, "+
			"map with string keys, struct, or json.RawMessage for any JSON value", typ)
	}
	if err != nil {
		return nil, err
	}
	return n, n.bounds(tag)
}

// readsItself reports whether encoding/json would leave the reading to the type.
func readsItself(typ reflect.Type) bool {
	pointer := reflect.PointerTo(typ)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (b builder) members(typ reflect.Type) ([]field, error) {
	if slices.Contains(b.within, typ) {
		return nil, fmt.Errorf("%s holds itself", typ)
	}
	b.within = append(slices.Clone(b.within), typ)
	var members []field
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && b.wire:
			embedded, err := b.members(f.Type)
			if err != nil {
				return nil, err
			}
			members = append(members, embedded...)
			continue
		case f.Anonymous:
			return nil, fmt.Errorf("field %s is embedded; give it a name", f.Name)
		case name == "":
			return nil, fmt.Errorf("field %s has no json tag", f.Name)
		case slices.ContainsFunc(members, func(m field) bool { return m.name == name }):
			return nil, fmt.Errorf("two fields are named %q", name)
		}
		m := field{name: name, index: i, doc: f.Tag.Get("doc")}
		if err := b.tags(&m, f, typ); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		members = append(members, m)
	}
	return members, nil
}

// tags reads the tags of a field of a struct.
func (b builder) tags(m *field, f reflect.StructField, in reflect.Type) error {
	if b.wire {
		return b.written(m, f, in)
	}
	typ := f.Type
	if typ.Kind() == reflect.Pointer {
		m.optional, typ = true, typ.Elem()
	}
	var err error
	if m.node, err = b.build(typ, f.Tag); err != nil {
		return err
	}
	if m.required, err = flag(f.Tag, "required"); err != nil {
		return err
	}
	if m.secret, err = flag(f.Tag, "secret"); err != nil {
		return err
	}
	fallback, found := f.Tag.Lookup("default")
	if !found {
		return nil
	}
	if m.required {
		return fmt.Errorf("is required and has a default")
	}
	m.fallback, err = m.node.literal(fallback)
	return err
}

func flag(tag reflect.StructTag, key string) (bool, error) {
	value, found := tag.Lookup(key)
	if found && value != "true" {
		return false, fmt.Errorf(`tag %s is %q, want "true" or no tag`, key, value)
	}
	return found, nil
}

// literal makes JSON of a default as a tag holds it: texts and durations bare,
// all else as JSON.
func (n *node) literal(tag string) (json.RawMessage, error) {
	if n.form == text || n.form == duration {
		return json.Marshal(tag)
	}
	if !json.Valid([]byte(tag)) {
		return nil, fmt.Errorf("the default %q is not JSON", tag)
	}
	return json.RawMessage(tag), nil
}

// naturalBounds are what an integer type holds. Those of 64 bits are not told:
// nobody is helped by them, and Read says it where they are passed.
func naturalBounds(typ reflect.Type) (low, high *bound) {
	bits := typ.Bits()
	unsigned := typ.Kind() >= reflect.Uint
	switch {
	case unsigned && bits < 64:
		return newBound(0), newBound(1<<bits - 1)
	case unsigned:
		return newBound(0), nil
	case bits < 64:
		return newBound(-1 << (bits - 1)), newBound(1<<(bits-1) - 1)
	}
	return nil, nil
}

func newBound(n int64) *bound {
	return &bound{literal: fmt.Sprint(n), exact: new(big.Rat).SetInt64(n)}
}

// bounds reads the tags min, max and enum.
func (n *node) bounds(tag reflect.StructTag) error {
	var err error
	if n.min, err = n.bound(tag, "min", n.min); err != nil {
		return err
	}
	if n.max, err = n.bound(tag, "max", n.max); err != nil {
		return err
	}
	if n.min != nil && n.max != nil && n.min.exact.Cmp(n.max.exact) > 0 {
		return fmt.Errorf("min %s is more than max %s", n.min.literal, n.max.literal)
	}
	enum, found := tag.Lookup("enum")
	if found && n.form != text {
		return fmt.Errorf("only a string has an enum")
	}
	if found {
		n.enum = strings.Split(enum, ",")
	}
	return nil
}

func (n *node) bound(tag reflect.StructTag, key string, natural *bound) (*bound, error) {
	literal, found := tag.Lookup(key)
	if !found {
		return natural, nil
	}
	b := &bound{literal: literal}
	switch n.form {
	case boolean, object, anything:
		return nil, fmt.Errorf("a %s has no %s", n.typ, key)
	case duration:
		d, err := time.ParseDuration(literal)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		b.exact = big.NewRat(int64(d), int64(time.Second))
		return b, nil
	}
	var ok bool
	if b.exact, ok = new(big.Rat).SetString(literal); !ok || !json.Valid([]byte(literal)) {
		return nil, fmt.Errorf("%s %q is not a number", key, literal)
	}
	counts := n.form == text || n.form == list || n.form == dictionary
	if whole := b.exact.IsInt(); counts && (!whole || b.exact.Sign() < 0) || n.form != number && !whole {
		return nil, fmt.Errorf("%s %s must be a whole number", key, literal)
	}
	if natural != nil && (key == "min" && b.exact.Cmp(natural.exact) < 0 || key == "max" && b.exact.Cmp(natural.exact) > 0) {
		return nil, fmt.Errorf("%s %s is beyond a %s", key, literal, n.typ)
	}
	if n.typ.Kind() == reflect.Float32 {
		if f, _ := b.exact.Float64(); math.Abs(f) > math.MaxFloat32 {
			return nil, fmt.Errorf("%s %s is beyond a %s", key, literal, n.typ)
		}
	}
	return b, nil
}
