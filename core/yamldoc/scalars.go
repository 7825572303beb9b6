package yamldoc

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// JoinScalars makes texts of what stands as a:b, without a blank, in a list inside a mapping in
// braces. In YAML it is a text there (1.2.2, section 7.3.3), and the parser reads a mapping.
func JoinScalars(n ast.Node) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		JoinScalars(n.Value)
	case *ast.TagNode:
		JoinScalars(n.Value)
	case *ast.SequenceNode:
		for i, item := range n.Values {
			if text := joined(item); text != nil {
				n.Values[i] = text
				continue
			}
			JoinScalars(item)
		}
	case ast.MapNode:
		for i := n.MapRange(); i.Next(); {
			JoinScalars(i.Value())
		}
	}
}

// joined is the text that a mapping of one plain text to another is meant as; nil: it is a
// mapping.
func joined(item ast.Node) ast.Node {
	pair, ok := item.(*ast.MappingValueNode)
	if m, mapping := item.(*ast.MappingNode); mapping && len(m.Values) == 1 && (m.Start == nil || m.Start.Type != token.MappingStartType) {
		pair, ok = m.Values[0], true
	}
	if !ok || pair.Start == nil || pair.Value == nil {
		return nil
	}
	key, colon, value := pair.Key.GetToken(), pair.Start, pair.Value.GetToken()
	if !plainText(key) || !plainText(value) || pair.Value.Type() == ast.MappingValueType {
		return nil
	}
	at, length := key.Position, len([]rune(key.Value))
	if at.Line != value.Position.Line || colon.Position.Column != at.Column+length || value.Position.Column != colon.Position.Column+1 {
		return nil
	}
	text := *key
	text.Value += ":" + value.Value
	text.Origin = text.Value
	return ast.String(&text)
}

// plainText reports whether the token is of a scalar without quotes.
func plainText(t *token.Token) bool {
	switch t.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.BoolType, token.NullType:
		return true
	}
	return false
}
