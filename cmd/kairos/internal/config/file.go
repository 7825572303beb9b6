package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/yamldoc"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// decode reads the text of a configuration file. It returns every problem of the
// file, and the rest of the file is read nevertheless. It reports false if the
// text could not be read at all.
func (c *Config) decode(file string, text []byte) ([]error, bool) {
	body, err := parseYAML(text)
	if second := (*secondDocument)(nil); errors.As(err, &second) {
		return []error{fmt.Errorf("%s:%d: %w", file, second.line, second)}, false
	}
	if err != nil {
		return []error{misread(file, err)}, false
	}
	if n := expanded(body, map[string]int{}); n > maxExpanded {
		return []error{fmt.Errorf("configuration %s: its aliases expand to more than %d values: write the values out instead", file, maxExpanded)}, false
	}
	if body == nil {
		return nil, true
	}
	err = yaml.NewDecoder(strings.NewReader(""), yaml.DisallowUnknownField()).DecodeFromNode(body, c)
	if err == nil {
		// The decoder takes a mapping where a text belongs, and leaves the text empty.
		r := configReader{file: file}
		r.value(body, reflect.New(reflect.TypeFor[Config]()).Elem(), "")
		return r.problems, true
	}
	*c = Config{}
	first := []error{misread(file, err)}
	r := configReader{file: file}
	r.value(body, reflect.ValueOf(c).Elem(), "")
	if len(r.problems) == 0 {
		return first, false // a mistake that shows only in the whole, such as one behind an alias
	}
	return r.problems, true
}

// readYAML reads a file without the mark that some editors put before the text.
func readYAML(path string) ([]byte, error) {
	text, err := files.Read(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s is UTF-16: save it as UTF-8", path)
	}
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), nil
}

// secondDocument is about a text with more than one document, of which only the first
// would be read.
type secondDocument struct{ line int }

func (e *secondDocument) Error() string {
	return "a second document begins here, behind ---, and only one is read: put everything into one, or remove it"
}

// parseYAML returns the document of a text, or nil.
func parseYAML(text []byte) (ast.Node, error) {
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return nil, emptyDocument(text)
	}
	for _, more := range parsed.Docs[1:] {
		if more.Body != nil {
			return nil, &secondDocument{more.Body.GetToken().Position.Line}
		}
	}
	yamldoc.JoinScalars(parsed.Docs[0].Body)
	return parsed.Docs[0].Body, nil
}

// emptyDocument reports text behind a first document that is empty.
func emptyDocument(text []byte) error {
	line := 0
	for content := range bytes.Lines(text) {
		line++
		content = bytes.TrimSpace(content)
		if len(content) > 0 && content[0] != '#' && !bytes.HasPrefix(content, []byte("---")) && !bytes.HasPrefix(content, []byte("...")) {
			return &secondDocument{line}
		}
	}
	return nil
}

// misread is a mistake that the YAML library found, without the lines around it:
// they may hold a secret.
func misread(file string, err error) error {
	if at := (yaml.Error)(nil); errors.As(err, &at) && at.GetToken() != nil {
		p := at.GetToken().Position
		return fmt.Errorf("%s:%d:%d: %s", file, p.Line, p.Column, at.GetMessage())
	}
	return fmt.Errorf("configuration %s: %w", file, err)
}

// maxExpanded is the limit of values in a configuration whose aliases are expanded.
// Aliases of aliases can double the values with each line.
const maxExpanded = 100_000

// expanded counts the values of a node with its aliases replaced; more than
// maxExpanded is maxExpanded+1. It adds the anchors that it meets to sizes.
func expanded(n ast.Node, sizes map[string]int) int {
	total := 1
	add := func(parts ...ast.Node) {
		for _, part := range parts {
			total = min(total+expanded(part, sizes), maxExpanded+1)
		}
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		add(n.Value)
		sizes[n.Name.GetToken().Value] = total
	case *ast.AliasNode:
		total += sizes[n.Value.GetToken().Value]
	case *ast.TagNode:
		add(n.Value)
	case *ast.SequenceNode:
		add(n.Values...)
	case ast.MapNode:
		for i := n.MapRange(); i.Next(); {
			add(i.Key(), i.Value())
		}
	}
	return min(total, maxExpanded+1)
}

// places says where the values of a configuration file stand.
type places struct {
	file string
	root ast.Node // nil: nobody knows
}

// placesIn reads the file again, for the messages about it.
func placesIn(file string) places {
	if file == "" {
		return places{}
	}
	text, err := readYAML(file)
	if err != nil {
		return places{}
	}
	root, _ := parseYAML(text) // without it no place is known
	return places{file, root}
}

// of is what a message about the value at a path begins with: the place of its
// key, or of the innermost key around it that the file has.
func (p places) of(path ...string) string {
	at, n := "", p.root
	for _, name := range path {
		key, value := memberOf(n, name)
		if key == nil {
			break
		}
		position := key.GetToken().Position
		at, n = fmt.Sprintf("%s:%d:%d: ", p.file, position.Line, position.Column), value
	}
	return at
}

// memberOf returns the member of a mapping or the item of a list, and the node
// of its key, or nil.
func memberOf(n ast.Node, name string) (key, value ast.Node) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		return memberOf(n.Value, name)
	case *ast.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Values) {
			return n.Values[i], n.Values[i]
		}
	case ast.MapNode:
		for i := n.MapRange(); i.Next(); {
			if text, ok := i.KeyValue().Key.(*ast.StringNode); ok && text.Value == name {
				return text, i.Value()
			}
		}
	}
	return nil, nil
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
	case t.Kind() == reflect.Pointer:
		into.Set(reflect.New(t.Elem()))
		r.value(n, into.Elem(), path)
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
		_, isMapping := n.(ast.MapNode)
		_, isList := n.(*ast.SequenceNode)
		if t.Kind() == reflect.String && (isMapping || isList) {
			r.wrong(n, "%s must be %s", path, inWords(t))
			return
		}
		// An alias inside has a value only in the whole file.
		if yaml.NodeToValue(n, into.Addr().Interface()) != nil && len(ast.Filter(ast.AliasType, n)) == 0 {
			r.wrong(n, "%s must be %s", path, inWords(t))
		}
	}
}

// section reads a mapping whose keys are the fields of a struct.
func (r *configReader) section(n ast.Node, into reflect.Value, path string) {
	var known []string
	at := map[string]reflect.Value{}
	for i := range into.NumField() {
		if !into.Type().Field(i).IsExported() {
			continue
		}
		key := into.Type().Field(i).Tag.Get("yaml")
		if key == "-" {
			continue
		}
		known = append(known, key)
		at[key] = into.Field(i)
	}
	r.members(n, path, func(name string, key, value ast.Node) {
		full := strings.TrimPrefix(path+"."+name, ".")
		if field, ok := at[name]; ok {
			r.value(value, field, full)
			return
		}
		r.wrong(key, "unknown key %q%s", full, cmp.Or(fields.Suggestion(name, known), "; the keys here are "+strings.Join(known, ", ")))
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
	switch {
	case t == reflect.TypeFor[Duration]():
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
