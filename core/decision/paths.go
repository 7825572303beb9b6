package decision

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// factPath names a fact: client, elicitation, form. A path that ends at a map or
// above it includes all facts below.
type factPath []string

func (p factPath) String() string { return strings.Join(p, ".") }

// Looked is a fact that a condition read, with its value.
type Looked struct {
	Path  string          `json:"path"` // as in CEL: client.elicitation.form
	Value json.RawMessage `json:"value"`
}

// LookedAt lists the facts that a condition mentions, in that order. It omits
// free-form values that are missing. It returns nothing for a condition of
// another version that cannot be parsed.
func LookedAt(condition string, f Facts) []Looked {
	c, errs := compileCondition(condition)
	if c == nil || len(errs) > 0 {
		return nil
	}
	var out []Looked
	for _, p := range c.looksAt {
		value, ok := lookup(reflect.ValueOf(f), p)
		if !ok {
			continue
		}
		if b, err := json.Marshal(value); err == nil {
			out = append(out, Looked{Path: p.String(), Value: b})
		}
	}
	return out
}

// lookup follows JSON names through structs and keys through maps.
func lookup(v reflect.Value, p factPath) (any, bool) {
	for _, name := range p {
		for v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Struct:
			v = field(v, name)
		case reflect.Map:
			v = v.MapIndex(reflect.ValueOf(name))
		default:
			return nil, false
		}
		if !v.IsValid() {
			return nil, false
		}
	}
	return v.Interface(), true
}

func field(v reflect.Value, name string) reflect.Value {
	for i := range v.NumField() {
		if jsonName(v.Type().Field(i)) == name {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// pathsIn lists the facts that an expression mentions, each once.
func pathsIn(e ast.Expr) []factPath {
	var c pathCollector
	c.visit(e)
	return c.paths
}

type pathCollector struct{ paths []factPath }

func (c *pathCollector) add(p factPath) {
	if _, ok := lookup(reflect.ValueOf(Facts{}), p[:1]); !ok {
		return // a variable of the expression's own
	}
	if !slices.ContainsFunc(c.paths, func(q factPath) bool { return slices.Equal(p, q) }) {
		c.paths = append(c.paths, p)
	}
}

func (c *pathCollector) visit(e ast.Expr) {
	if p, ok := pathOf(e); ok {
		c.add(p)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		c.visit(e.AsSelect().Operand())
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			c.visit(e.AsCall().Target())
		}
		for _, arg := range e.AsCall().Args() {
			c.visit(arg)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			c.visit(item)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			c.visit(entry.AsMapEntry().Key())
			c.visit(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			c.visit(f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		for _, part := range []ast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()} {
			c.visit(part)
		}
	case ast.IdentKind, ast.LiteralKind, ast.UnspecifiedExprKind:
	}
}

// pathOf returns the path of an expression such as a.b, a["b"] or "b" in a.
func pathOf(e ast.Expr) (factPath, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return factPath{e.AsIdent()}, true
	case ast.SelectKind:
		p, ok := pathOf(e.AsSelect().Operand())
		return append(p, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		if len(call.Args()) != 2 {
			return nil, false
		}
		of, key := call.Args()[0], call.Args()[1]
		switch call.FunctionName() {
		case operators.Index:
		case operators.In:
			of, key = key, of
		default:
			return nil, false
		}
		name, ok := literal(key)
		if !ok {
			return nil, false
		}
		p, ok := pathOf(of)
		return append(p, name), ok
	default:
		return nil, false
	}
}

// spacesIn lists the names with which an expression compares protocol.space.
func spacesIn(e ast.Expr) (names []string) {
	take := func(e ast.Expr) {
		if name, ok := literal(e); ok {
			names = append(names, name)
		}
	}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
			return
		}
		switch e.AsCall().FunctionName() {
		case operators.Equals, operators.NotEquals, operators.In:
		default:
			return
		}
		for i, side := range e.AsCall().Args() {
			if p, ok := pathOf(side); !ok || p.String() != "protocol.space" {
				continue
			}
			if other := e.AsCall().Args()[1-i]; other.Kind() == ast.ListKind {
				for _, item := range other.AsList().Elements() {
					take(item)
				}
			} else {
				take(other)
			}
		}
	}))
	return names
}

// literal is the text that an expression is, if it is one.
func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}
