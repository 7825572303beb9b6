package connect

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"
)

// insertJSON adds members in the style of the document: its indentation, and a
// line each.
func insertJSON(document []byte, servers string, e entry) ([]byte, error) {
	root, err := hujson.Parse(document)
	if err != nil {
		return nil, err
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errUnsafe
	}
	unit := indentOf(object)
	text, err := json.MarshalIndent(e, unit+unit, unit)
	if err != nil {
		return nil, err
	}
	value, err := hujson.Parse(text)
	if err != nil {
		return nil, err
	}
	table := member(object, servers)
	if table == nil {
		table = add(object, servers, hujson.Value{Value: &hujson.Object{}}, "\n"+unit, "\n")
	}
	inner, ok := table.Value.(*hujson.Object)
	if !ok {
		return nil, errUnsafe
	}
	if present := member(inner, serverName); present != nil {
		present.Value = value.Value
	} else {
		add(inner, serverName, value, "\n"+unit+unit, "\n"+unit)
	}
	return root.Pack(), nil
}

func member(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if literal, ok := o.Members[i].Name.Value.(hujson.Literal); ok && literal.String() == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// add appends a member between the whitespace that goes before it and the one
// before the closing brace. A trailing comma and comments stay.
func add(o *hujson.Object, name string, v hujson.Value, before, after string) *hujson.Value {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: v}
	m.Name.BeforeExtra = append(bytes.TrimRight(o.AfterExtra, " \t\r\n"), before...)
	m.Value.BeforeExtra = hujson.Extra(" ")
	if n := len(o.Members); n > 0 {
		m.Value.AfterExtra = o.Members[n-1].Value.AfterExtra // not nil: a comma follows
	}
	o.AfterExtra = hujson.Extra(after)
	o.Members = append(o.Members, m)
	return &o.Members[len(o.Members)-1].Value
}

// indentOf is the indentation of the document's first member.
func indentOf(o *hujson.Object) string {
	if len(o.Members) > 0 {
		before := string(o.Members[0].Name.BeforeExtra)
		if i := strings.LastIndexByte(before, '\n'); i >= 0 && strings.TrimSpace(before[i:]) == "" && len(before) > i+1 {
			return before[i+1:]
		}
	}
	return "  "
}

// header is the first line of a TOML table.
var header = regexp.MustCompile(`^\s*\[`)

// insertTOML replaces the server's table, or appends it.
func insertTOML(document []byte, servers string, e entry) ([]byte, error) {
	text, err := encodeTOML(servers, e)
	if err != nil {
		return nil, err
	}
	name := `^\s*\[\s*` + servers + `\s*\.\s*"?` + serverName + `"?\s*`
	own, below := regexp.MustCompile(name+`\]`), regexp.MustCompile(name+`\.`)
	lines := strings.SplitAfter(string(document), "\n")
	for i, line := range lines {
		if !own.MatchString(line) {
			continue
		}
		end := i + 1
		for end < len(lines) && (!header.MatchString(lines[end]) || below.MatchString(lines[end])) {
			end++
		}
		// Empty lines and comments above the next table belong to that.
		for end > i+1 && (strings.TrimSpace(lines[end-1]) == "" || strings.HasPrefix(strings.TrimSpace(lines[end-1]), "#")) {
			end--
		}
		return []byte(strings.Join(lines[:i], "") + string(text) + strings.Join(lines[end:], "")), nil
	}
	return []byte(strings.TrimRight(string(document), "\n") + "\n\n" + string(text)), nil
}

// insertYAML replaces the server's lines below the table of servers, or adds
// them as its first.
func insertYAML(document []byte, servers string, e entry) ([]byte, error) {
	text, err := encodeYAML(servers, e)
	if err != nil {
		return nil, err
	}
	_, block, _ := strings.Cut(string(text), "\n") // without the key of the table
	lines := strings.SplitAfter(string(document), "\n")
	at := -1
	for i, line := range lines {
		if strings.HasPrefix(line, servers+":") {
			at = i
		}
	}
	if at < 0 {
		return []byte(strings.TrimRight(string(document), "\n") + "\n" + string(text)), nil
	}
	if rest := strings.TrimSpace(strings.TrimPrefix(lines[at], servers+":")); rest == "{}" || rest == "null" || rest == "~" {
		lines[at] = servers + ":\n"
	}
	first := at + 1
	for first < len(lines) && strings.TrimSpace(lines[first]) == "" {
		first++
	}
	indent := "  "
	if first < len(lines) && width(lines[first]) > 0 {
		indent = lines[first][:width(lines[first])]
	}
	block = strings.ReplaceAll("\n"+strings.TrimSuffix(block, "\n"), "\n  ", "\n"+indent)[1:] + "\n"
	from, to := at+1, at+1
	for i := at + 1; i < len(lines) && (strings.TrimSpace(lines[i]) == "" || width(lines[i]) > 0); i++ {
		if strings.HasPrefix(lines[i], indent+serverName+":") {
			from, to = i, i+1
			for to < len(lines) && (width(lines[to]) > len(indent)) {
				to++
			}
		}
	}
	return []byte(strings.Join(lines[:from], "") + block + strings.Join(lines[to:], "")), nil
}

// width of the indentation of a line.
func width(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
