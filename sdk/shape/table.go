package shape

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Table is a Markdown table of the members, nested ones with dotted names.
func (s *Shape[T]) Table() string {
	var b strings.Builder
	b.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
	s.root.rows(&b, "")
	return b.String()
}

func (n *node) rows(b *strings.Builder, prefix string) {
	for _, f := range n.members {
		name := prefix + f.name
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, cell(f.node.inWords()), cell(f.fallbackInWords()), cell(f.meaning()))
		inner, below := f.node, name
		for inner.elem != nil {
			below += map[form]string{list: "[]", dictionary: ".*"}[inner.form]
			inner = inner.elem
		}
		inner.rows(b, below+".")
	}
}

// cell keeps a text inside its cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

func (f field) meaning() string {
	if f.secret {
		return strings.TrimSpace(f.doc + " (secret)")
	}
	return f.doc
}

func (f field) fallbackInWords() string {
	switch {
	case f.required:
		return "required"
	case f.fallback == nil:
		return "none"
	}
	var s string
	if json.Unmarshal(f.fallback, &s) == nil && s != "" {
		return "`" + s + "`"
	}
	return "`" + string(f.fallback) + "`"
}

// inWords is the type with its bounds.
func (n *node) inWords() string {
	switch n.form {
	case text:
		if n.enum != nil {
			return "one of `" + strings.Join(n.enum, "`, `") + "`"
		}
		return "string" + n.span(" characters")
	case boolean:
		return "true or false"
	case whole:
		return "whole number" + n.span("")
	case number:
		return "number" + n.span("")
	case duration:
		return "duration" + n.span("")
	case list:
		return "list" + n.span(" entries") + ": " + n.elem.inWords()
	case dictionary:
		return "object" + n.span(" entries") + " of " + n.elem.inWords()
	case anything:
		return "any JSON value"
	}
	return "object"
}

func (n *node) span(of string) string {
	switch {
	case n.min != nil && n.max != nil:
		return fmt.Sprintf(", %s to %s%s", n.min.literal, n.max.literal, of)
	case n.min != nil:
		return fmt.Sprintf(", at least %s%s", n.min.literal, of)
	case n.max != nil:
		return fmt.Sprintf(", at most %s%s", n.max.literal, of)
	}
	return ""
}
