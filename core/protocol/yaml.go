package protocol

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// yamlBlock is a block of YAML as JSON with one member on a line, which is how its
// challenge is kept, or the problem with it.
func (o outline) yamlBlock(f fence) (block, *Diagnostic) {
	w := yamlWriter{outline: o, fence: f}
	values, problem := parseYAML(f.content)
	if problem != nil {
		at := w.place(Place{problem.Line, problem.Column})
		d := finding(driver.SeverityError, at, "", "invalid YAML: "+problem.Message+yamlHint(problem.Message, w.written(problem.Line)))
		return block{fence: f}, &d
	}
	w.object(values, 0)
	if len(w.anchors) == 0 || w.anchors[0].Offset > 0 {
		w.anchors = append([]Anchor{{0, o.placeOf(f.start)}}, w.anchors...)
	}
	return block{fence: f, json: w.out.Bytes(), anchors: w.anchors}, w.problem
}

// yamlHint says what to do about a mistake that people make in YAML.
func yamlHint(message, line string) string {
	switch {
	case strings.Contains(line, "\t"):
		return "; YAML is indented with spaces, not with tabs"
	case strings.Contains(line, "{{"):
		return "; put a text that begins with a template in quotes"
	case strings.Contains(message, "escape"):
		return "; write the text in single quotes, or below |, where a backslash is a backslash"
	case strings.Contains(message, "reserved"), strings.Contains(message, "mapping value"):
		return "; put the text in quotes, or write it below |"
	}
	return ""
}

// yamlWriter writes YAML as JSON.
type yamlWriter struct {
	outline outline
	fence   fence
	out     bytes.Buffer
	anchors []Anchor
	problem *Diagnostic // the first
}

// place is the place in the document of one in the block.
func (w *yamlWriter) place(at Place) Place {
	if len(w.fence.lines) == 0 {
		return w.outline.placeOf(w.fence.start)
	}
	line := w.outline.placeOf(w.fence.lines[min(at.Line, len(w.fence.lines))-1])
	line.Column += at.Column - 1
	return line
}

// written is a line of the block as it is in the document.
func (w *yamlWriter) written(line int) string {
	if line > len(w.fence.lines) {
		return ""
	}
	start := w.fence.lines[line-1]
	return w.outline.src[start:w.outline.lineEnd(w.outline.lineStart(start))]
}

// anchor says where the next byte stands.
func (w *yamlWriter) anchor(tk *token.Token) {
	w.anchors = append(w.anchors, Anchor{w.out.Len(), w.place(placeOf(tk))})
}

func (w *yamlWriter) fail(tk *token.Token, format string, args ...any) {
	if w.problem == nil {
		d := finding(driver.SeverityError, w.place(placeOf(tk)), "", fmt.Sprintf(format, args...))
		w.problem = &d
	}
}

// object writes a mapping. The depth is bounded here, before walkJSON bounds it, because
// the indentation of what is written grows with it.
func (w *yamlWriter) object(values []*ast.MappingValueNode, depth int) {
	w.out.WriteByte('{')
	for i, v := range values {
		w.separate(i, depth+1)
		if w.tooDeep(v.Key.GetToken(), depth) {
			return
		}
		w.key(v.Key)
		w.out.WriteString(": ")
		w.value(v.Value, depth+1)
	}
	w.close(len(values), depth, '}')
}

func (w *yamlWriter) array(values []ast.Node, depth int) {
	w.out.WriteByte('[')
	for i, v := range values {
		w.separate(i, depth+1)
		if w.tooDeep(v.GetToken(), depth) {
			return
		}
		w.value(v, depth+1)
	}
	w.close(len(values), depth, ']')
}

func (w *yamlWriter) tooDeep(tk *token.Token, depth int) bool {
	if depth < maxDepth {
		return false
	}
	w.fail(tk, "nested deeper than %d levels", maxDepth)
	return true
}

// separate begins the line of the i-th member.
func (w *yamlWriter) separate(i, depth int) {
	if i > 0 {
		w.out.WriteByte(',')
	}
	w.line(depth)
}

func (w *yamlWriter) close(members, depth int, bracket byte) {
	if members > 0 {
		w.line(depth)
	}
	w.out.WriteByte(bracket)
}

func (w *yamlWriter) line(depth int) {
	w.out.WriteString("\n" + strings.Repeat("  ", depth))
}

func (w *yamlWriter) key(key ast.MapKeyNode) {
	tk := key.GetToken()
	switch key.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		w.anchor(tk)
		w.string(tk.Value)
	default:
		w.fail(tk, "a key must be a plain word or stand in quotes")
	}
}

func (w *yamlWriter) value(n ast.Node, depth int) {
	tk := n.GetToken()
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			tk = n.Values[0].Key.GetToken()
		}
		w.anchor(tk)
		w.object(n.Values, depth)
	case *ast.MappingValueNode:
		w.anchor(n.Key.GetToken())
		w.object([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		w.anchor(tk)
		w.array(n.Values, depth)
	case *ast.StringNode:
		w.anchor(tk)
		if tk.Type == token.StringType { // no quote stands before it
			w.anchors = append(w.anchors, Anchor{w.out.Len() + 1, w.place(placeOf(tk))})
		}
		w.string(n.Value)
	case *ast.LiteralNode:
		w.anchor(tk)
		w.anchors = append(w.anchors, Anchor{w.out.Len() + 1, w.below(placeOf(tk))})
		w.string(n.Value.Value)
	default:
		w.anchor(tk)
		w.scalar(n)
	}
}

// below is the place of the text on the line below a place of the block.
func (w *yamlWriter) below(at Place) Place {
	at.Line, at.Column = at.Line+1, 1
	text := w.written(at.Line)
	at.Column += len(text) - len(strings.TrimLeft(text, " "))
	return w.place(at)
}

func (w *yamlWriter) scalar(n ast.Node) {
	tk := n.GetToken()
	switch n := n.(type) {
	case *ast.NullNode:
		w.out.WriteString("null")
	case *ast.BoolNode:
		w.out.WriteString(strconv.FormatBool(n.Value))
	case *ast.IntegerNode:
		if tk.Type != token.IntegerType {
			w.fail(tk, "%s is a number in octal, hexadecimal or binary notation: write it in decimals, or in quotes if it is a text", tk.Value)
		}
		fmt.Fprint(&w.out, n.Value)
	case *ast.FloatNode:
		w.out.WriteString(strconv.FormatFloat(n.Value, 'f', -1, 64))
	case *ast.InfinityNode, *ast.NanNode:
		w.fail(tk, "%s is not a number of JSON", tk.Value)
	default:
		w.fail(tk, "tags, anchors and aliases are not allowed")
	}
}

func (w *yamlWriter) string(s string) {
	quoted, err := quote(s)
	if err != nil { // a string can always be written
		quoted = []byte(`""`)
	}
	w.out.Write(quoted)
}
