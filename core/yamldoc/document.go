// Package yamldoc reads the lists that operators write in YAML with strict keys, and keeps
// every mistake with its line and the closest right spelling. It knows none of the lists.
package yamldoc

import (
	"bytes"
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

// MaxSize bounds the text of a document, in bytes. The parser's time grows faster
// than its input.
const MaxSize = 64 << 10

// Document reads YAML nodes and collects their problems.
type Document struct {
	File string // for the problems
	What string // what the whole is, with its article: "the tree"
	// MayBeEmpty: a text without a document is not a mistake.
	MayBeEmpty bool

	problems []Problem
}

// Problems is how many were found so far.
func (d *Document) Problems() int { return len(d.problems) }

// Problem notes a mistake at a node, in the part of the document that rule names.
func (d *Document) Problem(n ast.Node, rule, format string, args ...any) {
	line, column := Position(n)
	d.ProblemAt(line, column, rule, fmt.Sprintf(format, args...))
}

// ProblemAt is Problem at a place.
func (d *Document) ProblemAt(line, column int, rule, message string) {
	d.problems = append(d.problems, Problem{File: d.File, Line: line, Column: column, Rule: rule, Message: message})
}

// Err returns the problems in the order of the file, or nil.
func (d *Document) Err() error {
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

// Position is where the node stands, both from 1.
func Position(n ast.Node) (line, column int) {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1, 1
	}
	p := n.GetToken().Position
	return max(p.Line, 1), max(p.Column, 1)
}

// Parse returns the only document of the text, or nil after noting a problem.
func (d *Document) Parse(text []byte) (root ast.Node) {
	if len(text) > MaxSize {
		d.ProblemAt(1, 1, "", fmt.Sprintf("%s has %d bytes; at most %d are allowed", d.What, len(text), MaxSize))
		return nil
	}
	defer func() {
		// A panic of the YAML parser is reported as a problem of the file.
		if r := recover(); r != nil {
			d.ProblemAt(1, 1, "", fmt.Sprintf("the YAML cannot be read: %v", r))
			root = nil
		}
	}()
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // some editors put this mark before UTF-8
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
		if d.MayBeEmpty {
			return nil
		}
		d.ProblemAt(1, 1, "", d.What+" is empty")
		return nil
	case 1:
		JoinScalars(bodies[0])
		return bodies[0]
	}
	d.Problem(bodies[1], "", "%s is one YAML document, this is a second one", d.What)
	return nil
}

func (d *Document) syntaxError(err error) {
	var located yaml.Error
	if errors.As(err, &located) {
		line, column := 1, 1
		if tk := located.GetToken(); tk != nil && tk.Position != nil {
			line, column = max(tk.Position.Line, 1), max(tk.Position.Column, 1)
		}
		d.ProblemAt(line, column, "", "bad YAML: "+located.GetMessage())
		return
	}
	d.ProblemAt(1, 1, "", "bad YAML: "+strings.ReplaceAll(err.Error(), "\n", " "))
}

// Entry is one key of a mapping with its value.
type Entry struct {
	Name  string
	Key   ast.Node
	Value ast.Node
}

// Entries reads a mapping whose keys are not known beforehand.
func (d *Document) Entries(n ast.Node, rule, what string) ([]Entry, bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.Problem(n, rule, "%s must be a mapping, this is %s", what, KindOf(n))
		return nil, false
	}
	var entries []Entry
	for _, v := range values {
		name, ok := v.Key.(*ast.StringNode)
		if !ok {
			d.Problem(v.Key, rule, "a key of %s must be plain text, this is %s", what, KindOf(v.Key))
			continue
		}
		entries = append(entries, Entry{Name: name.Value, Key: v.Key, Value: v.Value})
	}
	return entries, true
}

// Mapping reads a mapping with strict keys.
func (d *Document) Mapping(n ast.Node, rule, what string, known ...string) (map[string]Entry, bool) {
	list, ok := d.Entries(n, rule, what)
	fields := make(map[string]Entry, len(list))
	for _, e := range list {
		if !slices.Contains(known, e.Name) {
			hint := Suggest(e.Name, known)
			if hint == "" {
				hint = "; known are " + strings.Join(known, ", ")
			}
			d.Problem(e.Key, rule, "unknown key %q in %s%s", e.Name, what, hint)
			continue
		}
		fields[e.Name] = e
	}
	return fields, ok
}

// Sequence reads a list.
func (d *Document) Sequence(n ast.Node, rule, what string) []ast.Node {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.Problem(n, rule, "%s must be a list, this is %s", what, KindOf(n))
		return nil
	}
	return list.Values
}

// Text reads the string of a field; empty if the field is missing.
func (d *Document) Text(fields map[string]Entry, key, rule string) string {
	e, ok := fields[key]
	if !ok {
		return ""
	}
	s, ok := TextOf(e.Value)
	if !ok {
		d.Problem(e.Value, rule, "%s must be text, this is %s", key, KindOf(e.Value))
		return ""
	}
	if s == "" {
		d.Problem(e.Value, rule, "%s is empty", key)
	}
	return s
}

// TextOf is the text of a node that is one.
func TextOf(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	}
	return "", false
}

// Count reads a whole number within 0 and limit.
func (d *Document) Count(e Entry, rule string, limit int) int {
	if v, ok := e.Value.(*ast.IntegerNode); ok {
		n, err := strconv.Atoi(fmt.Sprint(v.Value))
		if err == nil && n >= 0 && n <= limit {
			return n
		}
	}
	d.Problem(e.Value, rule, "%s must be a whole number from 0 to %d, not %s", e.Name, limit, Shown(e.Value))
	return 0
}

// Duration reads a duration in Go's notation, above 0 and at most limit.
func (d *Document) Duration(e Entry, rule string, limit time.Duration) time.Duration {
	if s, ok := TextOf(e.Value); ok {
		v, err := time.ParseDuration(s)
		if err == nil && v > 0 && v <= limit {
			return v
		}
	}
	d.Problem(e.Value, rule, `%s must be a duration like "30s" or "5m", above 0 and at most %s, not %s`,
		e.Name, limit, Shown(e.Value))
	return 0
}

// Shown returns a scalar as bounded text.
func Shown(n ast.Node) string {
	switch v := n.(type) {
	case *ast.StringNode:
		return fmt.Sprintf("%.40q", v.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return fmt.Sprintf("%.40s", v.GetToken().Value)
	}
	return KindOf(n)
}

// KindOf says what a node is, for messages.
func KindOf(n ast.Node) string {
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
		return "an anchor or alias, which is not taken here"
	case *ast.TagNode:
		return "a tag, which is not taken here"
	}
	return "something else"
}
