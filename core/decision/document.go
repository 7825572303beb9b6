package decision

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxSize bounds the text of a tree, in bytes. The parser's time grows faster
// than its input.
const maxSize = 64 << 10

// document reads YAML nodes and collects their problems.
type document struct {
	file     string
	problems []Problem
}

func (d *document) problem(n ast.Node, rule, format string, args ...any) {
	line, column := position(n)
	d.problemAt(line, column, rule, fmt.Sprintf(format, args...))
}

func (d *document) problemAt(line, column int, rule, message string) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Column: column, Rule: rule, Message: message})
}

// err returns the problems in the order of the file, or nil.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		if a.Column != b.Column {
			return a.Column - b.Column
		}
		return strings.Compare(a.Message, b.Message)
	})
	return &LoadError{Problems: d.problems}
}

func position(n ast.Node) (line, column int) {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1, 1
	}
	p := n.GetToken().Position
	return max(p.Line, 1), max(p.Column, 1)
}

// parse returns the only document of the text, or nil after noting a problem.
func (d *document) parse(text []byte) (root ast.Node) {
	if len(text) > maxSize {
		d.problemAt(1, 1, "", fmt.Sprintf("the tree has %d bytes; at most %d are allowed", len(text), maxSize))
		return nil
	}
	defer func() {
		// A panic of the YAML parser is reported as a problem of the file.
		if r := recover(); r != nil {
			d.problemAt(1, 1, "", fmt.Sprintf("the YAML cannot be read: %v", r))
			root = nil
		}
	}()
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		d.syntaxError(err)
		return nil
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		d.problemAt(1, 1, "", "the tree is empty")
		return nil
	case 1:
		return bodies[0]
	}
	d.problem(bodies[1], "", "a tree is one YAML document, this is a second one")
	return nil
}

func (d *document) syntaxError(err error) {
	var located yaml.Error
	if errors.As(err, &located) {
		line, column := 1, 1
		if tk := located.GetToken(); tk != nil && tk.Position != nil {
			line, column = max(tk.Position.Line, 1), max(tk.Position.Column, 1)
		}
		d.problemAt(line, column, "", "bad YAML: "+located.GetMessage())
		return
	}
	d.problemAt(1, 1, "", "bad YAML: "+strings.ReplaceAll(err.Error(), "\n", " "))
}

// entry is one key of a mapping with its value.
type entry struct {
	name  string
	key   ast.Node
	value ast.Node
}

// entries reads a mapping whose keys are not known beforehand.
func (d *document) entries(n ast.Node, rule, what string) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.problem(n, rule, "%s must be a mapping, this is %s", what, kindOf(n))
		return nil, false
	}
	var entries []entry
	for _, v := range values {
		name, ok := v.Key.(*ast.StringNode)
		if !ok {
			d.problem(v.Key, rule, "a key of %s must be plain text, this is %s", what, kindOf(v.Key))
			continue
		}
		entries = append(entries, entry{name: name.Value, key: v.Key, value: v.Value})
	}
	return entries, true
}

// mapping reads a mapping with strict keys.
func (d *document) mapping(n ast.Node, rule, what string, known ...string) (map[string]entry, bool) {
	list, ok := d.entries(n, rule, what)
	fields := make(map[string]entry, len(list))
	for _, e := range list {
		if !slices.Contains(known, e.name) {
			hint := suggest(e.name, known)
			if hint == "" {
				hint = "; known are " + strings.Join(known, ", ")
			}
			d.problem(e.key, rule, "unknown key %q in %s%s", e.name, what, hint)
			continue
		}
		fields[e.name] = e
	}
	return fields, ok
}

func (d *document) sequence(n ast.Node, rule, what string) []ast.Node {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.problem(n, rule, "%s must be a list, this is %s", what, kindOf(n))
		return nil
	}
	return list.Values
}

// text reads the string of a field; empty if the field is missing.
func (d *document) text(fields map[string]entry, key, rule string) string {
	e, ok := fields[key]
	if !ok {
		return ""
	}
	s, ok := textOf(e.value)
	if !ok {
		d.problem(e.value, rule, "%s must be text, this is %s", key, kindOf(e.value))
		return ""
	}
	if s == "" {
		d.problem(e.value, rule, "%s is empty", key)
	}
	return s
}

func textOf(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	}
	return "", false
}

// count reads a whole number within 0 and limit.
func (d *document) count(e entry, rule string, limit int) int {
	if v, ok := e.value.(*ast.IntegerNode); ok {
		n, err := strconv.Atoi(fmt.Sprint(v.Value))
		if err == nil && n >= 0 && n <= limit {
			return n
		}
	}
	d.problem(e.value, rule, "%s must be a whole number from 0 to %d, not %s", e.name, limit, shown(e.value))
	return 0
}

// duration reads a duration in Go's notation, above 0 and at most limit.
func (d *document) duration(e entry, rule string, limit time.Duration) time.Duration {
	if s, ok := textOf(e.value); ok {
		v, err := time.ParseDuration(s)
		if err == nil && v > 0 && v <= limit {
			return v
		}
	}
	d.problem(e.value, rule, `%s must be a duration like "30s" or "5m", above 0 and at most %s, not %s`,
		e.name, limit, shown(e.value))
	return 0
}

// shown returns a scalar as bounded text.
func shown(n ast.Node) string {
	switch v := n.(type) {
	case *ast.StringNode:
		return fmt.Sprintf("%.40q", v.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return fmt.Sprintf("%.40s", v.GetToken().Value)
	}
	return kindOf(n)
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "an anchor or alias, which a tree does not take"
	case *ast.TagNode:
		return "a tag, which a tree does not take"
	}
	return "something else"
}
