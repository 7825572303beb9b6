package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// decode reads the text of a configuration file. It returns every problem of the
// file, and the rest of the file is read nevertheless. It reports false if the
// text could not be read at all.
func (c *config) decode(file string, text []byte) ([]error, bool) {
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(c)
	if err == nil || errors.Is(err, io.EOF) {
		return nil, true
	}
	*c = config{}
	first := []error{fmt.Errorf("configuration %s: %s", file, yaml.FormatError(err, false, true))}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil || len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return first, false
	}
	r := configReader{file: file}
	r.value(parsed.Docs[0].Body, reflect.ValueOf(c).Elem(), "")
	if len(r.problems) == 0 {
		return first, false // a mistake that shows only in the whole, such as one behind an alias
	}
	return r.problems, true
}

// configReader reads a file that the strict decoder has refused. The decoder
// stops at the first mistake; the reader collects all of them.
type configReader struct {
	file     string
	problems []error
}

func (r *configReader) wrong(at ast.Node, format string, args ...any) {
	p := at.GetToken().Position
	r.problems = append(r.problems, fmt.Errorf("%s:%d:%d: %s", r.file, p.Line, p.Column, fmt.Sprintf(format, args...)))
}

// value reads a node into a field of the configuration.
func (r *configReader) value(n ast.Node, into reflect.Value, path string) {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		n = anchor.Value
	}
	switch n.(type) {
	case *ast.NullNode, *ast.AliasNode: // an alias was read where its anchor is
		return
	}
	switch t := into.Type(); {
	case t.Kind() == reflect.Struct:
		r.section(n, into, path)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		into.Set(reflect.MakeMap(t))
		r.members(n, path, func(name string, key, value ast.Node) {
			place := reflect.New(t.Elem()).Elem()
			r.value(value, place, path+"."+name)
			into.SetMapIndex(reflect.ValueOf(name), place)
		})
	default:
		if yaml.NodeToValue(n, into.Addr().Interface()) != nil {
			r.wrong(n, "%s must be %s", path, inWords(t))
		}
	}
}

// section reads a mapping whose keys are the fields of a struct.
func (r *configReader) section(n ast.Node, into reflect.Value, path string) {
	var known []string
	at := map[string]reflect.Value{}
	for i := range into.NumField() {
		key := into.Type().Field(i).Tag.Get("yaml")
		known = append(known, key)
		at[key] = into.Field(i)
	}
	r.members(n, path, func(name string, key, value ast.Node) {
		full := strings.TrimPrefix(path+"."+name, ".")
		if field, ok := at[name]; ok {
			r.value(value, field, full)
			return
		}
		r.wrong(key, "unknown key %q%s", full, fields.Suggestion(name, known))
	})
}

// members calls do for each member of a mapping.
func (r *configReader) members(n ast.Node, path string, do func(name string, key, value ast.Node)) {
	mapping, ok := n.(ast.MapNode)
	if !ok {
		r.wrong(n, "%s must be a mapping of keys to values", cmp.Or(path, "the configuration"))
		return
	}
	for i := mapping.MapRange(); i.Next(); {
		key := i.KeyValue().Key
		if text, ok := key.(*ast.StringNode); ok {
			do(text.Value, key, i.Value())
		}
	}
}

// inWords says what a value of the type looks like in the file.
func inWords(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[duration]():
		return "a duration such as 90s, 10m or 24h"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map:
		return "a mapping of keys to values"
	}
	return "a whole number"
}
