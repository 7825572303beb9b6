package connect

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// insertJSON adds members in the style of the document: its indentation, and a
// line each.
func insertJSON(document []byte, servers string, c change) ([]byte, error) {
	root, err := hujson.Parse(document)
	if err != nil {
		return nil, err
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errUnsafe
	}
	unit := indentOf(object)
	table := member(object, servers)
	if table == nil {
		table = add(object, servers, hujson.Value{Value: &hujson.Object{}}, "\n"+unit, "\n")
	}
	inner, ok := table.Value.(*hujson.Object)
	if !ok {
		return nil, errUnsafe
	}
	present := member(inner, serverName)
	if present != nil && !c.all {
		own, ok := present.Value.(*hujson.Object)
		if !ok {
			return nil, errUnsafe
		}
		if err := edit(own, c, unit); err != nil {
			return nil, err
		}
		return root.Pack(), nil
	}
	value, err := laidOut(c.entry, unit+unit, unit)
	if err != nil {
		return nil, err
	}
	if present != nil {
		present.Value = value.Value
	} else {
		add(inner, serverName, value, "\n"+unit+unit, "\n"+unit)
	}
	return root.Pack(), nil
}

// edit makes the change within the entry, so that its other members keep their layout.
func edit(own *hujson.Object, c change, unit string) error {
	trailing := hujson.Extra(nil) // whether a comma follows the last member
	if n := len(own.Members); n > 0 {
		trailing = own.Members[n-1].Value.AfterExtra
	}
	own.Members = slices.DeleteFunc(own.Members, func(m hujson.ObjectMember) bool {
		literal, ok := m.Name.Value.(hujson.Literal)
		return ok && slices.Contains(c.without, literal.String()) && !c.entry.has(literal.String())
	})
	if n := len(own.Members); n > 0 {
		own.Members[n-1].Value.AfterExtra = trailing
	}
	for _, s := range c.entry {
		value, err := laidOut(s.value, unit+unit+unit, unit)
		if err != nil {
			return err
		}
		if m := member(own, s.key); m != nil {
			m.Value = value.Value
		} else {
			add(own, s.key, value, "\n"+unit+unit+unit, "\n"+unit+unit)
		}
	}
	return nil
}

// laidOut is a value with its lines indented.
func laidOut(value any, prefix, unit string) (hujson.Value, error) {
	text, err := json.MarshalIndent(value, prefix, unit)
	if err != nil {
		return hujson.Value{}, err
	}
	return hujson.Parse(text)
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

// header is the first line of a TOML table, and assigned the first line of a value.
var (
	header   = regexp.MustCompile(`^\s*\[`)
	assigned = regexp.MustCompile(`^\s*"?([A-Za-z0-9_-]+)"?\s*[=.]`)
)

// insertTOML replaces what changes of the server's table, or appends it.
func insertTOML(document []byte, servers string, c change) ([]byte, error) {
	text, err := encodeTOML(servers, c.entry)
	if err != nil {
		return nil, err
	}
	name := `^\s*\[\s*` + servers + `\s*\.\s*"?` + serverName + `"?\s*`
	own, below := regexp.MustCompile(name+`\]`), regexp.MustCompile(name+`\.\s*"?([A-Za-z0-9_-]+)`)
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
		stays := staying(lines[i+1:end], c, func(line string) (key string, begins bool) {
			if m := below.FindStringSubmatch(line); m != nil {
				return m[1], true
			}
			if m := assigned.FindStringSubmatch(line); m != nil {
				return m[1], true
			}
			return "", false
		}, header.MatchString)
		return []byte(strings.Join(lines[:i], "") + string(text) + stays + strings.Join(lines[end:], "")), nil
	}
	return []byte(strings.TrimRight(string(document), "\n") + "\n\n" + string(text)), nil
}

// staying are the lines of an entry that a change leaves. begins names the key whose value
// begins in a line; wide, which may be nil, reports a line after which all keys belong to the one
// that it names.
func staying(lines []string, c change, begins func(line string) (key string, ok bool), wide func(string) bool) string {
	if c.all {
		return ""
	}
	var out strings.Builder
	drops, within := false, false
	for _, line := range lines {
		opens := wide != nil && wide(line)
		if key, ok := begins(line); ok && (opens || !within) {
			drops = slices.Contains(c.without, key)
		}
		within = within || opens
		if !drops {
			out.WriteString(line)
		}
	}
	return out.String()
}

// insertYAML replaces the server's lines below the table of servers, or adds
// them as its first.
func insertYAML(document []byte, servers string, c change) ([]byte, error) {
	text, err := encodeYAML(servers, c.entry)
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
	if from < to {
		block = besideYAML(block, lines[from+1:to], c)
	}
	return []byte(strings.Join(lines[:from], "") + block + strings.Join(lines[to:], "")), nil
}

// besideYAML is the block of the entry with the lines of the present one that stay, at their
// indentation.
func besideYAML(block string, present []string, c change) string {
	if len(present) == 0 || c.all {
		return block
	}
	own := width(present[0])
	stays := staying(present, c, func(line string) (key string, ok bool) {
		key, _, ok = strings.Cut(strings.TrimSpace(line), ":")
		return key, ok && width(line) == own && !strings.HasPrefix(key, "-") && !strings.HasPrefix(key, "#")
	}, nil)
	lines := strings.SplitAfter(block, "\n")
	first := width(lines[1])
	for i, line := range lines[1:] {
		if line != "" {
			lines[i+1] = strings.Repeat(" ", own) + line[first:]
		}
	}
	return strings.Join(lines, "") + stays
}

// width of the indentation of a line.
func width(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
