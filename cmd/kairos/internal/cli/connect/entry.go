package connect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

// entry is what the configuration of a client says of one server, in the order in which it is
// written. Each client has its own keys; values are a string, a bool, an int, a list of strings,
// or variables of the environment.
type entry []setting

type setting struct {
	key   string
	value any
	// ifAbsent: a value that the person has set stays.
	ifAbsent bool
}

// variables of the environment that the client adds, by name.
type variables map[string]any

// filled is the entry without empty variables.
func (e entry) filled() entry {
	return slices.DeleteFunc(slices.Clone(e), func(m setting) bool {
		env, ok := m.value.(variables)
		return ok && len(env) == 0
	})
}

// has reports whether the entry sets the key.
func (e entry) has(key string) bool {
	return slices.ContainsFunc(e, func(s setting) bool { return s.key == key })
}

// MarshalJSON implements json.Marshaler.
func (e entry) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range e {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", m.key, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// connection is what the entry comes down to.
func (e entry) connection() (connection, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return connection{}, err
	}
	var v map[string]any
	err = json.Unmarshal(b, &v)
	return connectionOf(v), err
}

// command is how a client starts the server.
type command struct {
	program string
	args    []string
	env     map[string]string // added to what the client passes on
}

// String is the command line.
func (c command) String() string { return strings.Join(append([]string{c.program}, c.args...), " ") }

// is reports whether both start the same.
func (c command) is(other command) bool {
	return c.program == other.program && slices.Equal(c.args, other.args) && maps.Equal(c.env, other.env)
}

// connection is what an entry comes down to: a command, or an address where it has none.
type connection struct {
	command
	address string
	bearer  bool // with the token in session.TokenEnv
}

// String is the command line or the address.
func (c connection) String() string {
	if c.program != "" {
		return c.command.String()
	}
	return c.address
}

// Keys with the same meaning.
var (
	commandKeys = []string{"command", "cmd"}
	envKeys     = []string{"env", "envs", "environment"}
	addressKeys = []string{"url", "uri", "httpUrl", "serverUrl"}
	headersKey  = "headers"
	nestedKey   = "transport" // some clients have all of it in a table of its own
	// connecting are the keys that say how a client connects. They are those of the entry
	// that is written; the others are the person's.
	connecting = slices.Concat([]string{"type", "source", "name", "args", "enabled", "disabled", nestedKey}, commandKeys, envKeys, addressKeys)
)

// connectionOf reads an entry of any client.
func connectionOf(present map[string]any) connection {
	if nested := tableOf(present[nestedKey]); nested != nil {
		present = nested
	}
	var c connection
	for _, key := range commandKeys {
		switch v := present[key].(type) {
		case string:
			c.program = v
		case []any: // with its arguments
			if words := texts(v); len(words) > 0 {
				c.program, c.args = words[0], words[1:]
			}
		}
	}
	if args, ok := present["args"].([]any); ok {
		c.args = append(c.args, texts(args)...)
	}
	for _, key := range envKeys {
		for name, value := range tableOf(present[key]) {
			if c.env == nil {
				c.env = map[string]string{}
			}
			c.env[name] = fmt.Sprint(value)
		}
	}
	for _, key := range addressKeys {
		if v, ok := present[key].(string); ok {
			c.address = v
		}
	}
	c.bearer = c.address != "" && len(references(present)) > 0
	return c
}

// references are the keys of an entry that have the reference to the token in session.TokenEnv and
// nothing else.
func references(present map[string]any) (keys []string) {
	for _, key := range []string{headersKey, "bearer_token_env_var", "env_keys"} {
		only := present[key]
		switch v := only.(type) {
		case map[string]any:
			if only = nil; len(v) == 1 {
				only = v["Authorization"]
			}
		case []any:
			if only = nil; len(v) == 1 {
				only = v[0]
			}
		}
		if text, ok := only.(string); ok && strings.Contains(text, session.TokenEnv) {
			keys = append(keys, key)
		}
	}
	return keys
}

func texts(values []any) (out []string) {
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func tableOf(value any) map[string]any {
	table, _ := value.(map[string]any)
	return table
}

// ofThisServer reports whether the entry connects to a KAIROS server. Then the additions of a
// person stay; those to the entry of another program do not.
func (c connection) ofThisServer() bool {
	return c.program == "" && c.address != "" || strings.HasPrefix(filepath.Base(c.program), serverName)
}

// change is an entry that takes the place of the present one.
type change struct {
	entry entry
	// without are the keys of the present entry that are replaced or removed; the rest stays.
	without []string
	// all: nothing of the present entry stays.
	all bool
}

// over is the change from the present entry, or from none, to this one. The additions of a person
// stay: other keys, and variables that connect does not write.
func (e entry) over(present map[string]any) change {
	was := connectionOf(present)
	if !was.ofThisServer() {
		return change{entry: e.filled(), all: true}
	}
	c := change{without: append(references(present), connecting...)}
	starts := !slices.ContainsFunc(e, func(m setting) bool { return slices.Contains(addressKeys, m.key) })
	if starts {
		c.without = append(c.without, headersKey)
	} else {
		c.without = append(c.without, "cwd")
	}
	for _, m := range e {
		if _, ok := present[m.key]; ok && m.ifAbsent {
			continue
		}
		switch v := m.value.(type) {
		case variables:
			m.value = v.beside(present)
		case headers:
			m.value = v.beside(present)
		}
		c.entry = append(c.entry, m)
		c.without = append(c.without, m.key)
	}
	c.entry = c.entry.filled()
	return c
}

// beside are the variables together with those that a person has added to the present entry.
func (v variables) beside(present map[string]any) variables {
	all := variables{}
	for _, key := range envKeys {
		maps.Copy(all, tableOf(tableOf(present[nestedKey])[key]))
		maps.Copy(all, tableOf(present[key]))
	}
	maps.DeleteFunc(all, func(name string, _ any) bool { return slices.Contains(carried, name) })
	maps.Copy(all, v)
	return all
}

// beside are the headers together with those that a person has added to the present entry.
func (h headers) beside(present map[string]any) headers {
	all := headers{}
	maps.Copy(all, tableOf(present[headersKey]))
	maps.DeleteFunc(all, func(name string, _ any) bool { return strings.EqualFold(name, "Authorization") })
	maps.Copy(all, h)
	return all
}

// on is the present entry after the change, of which added is the decoded entry.
func (c change) on(present, added map[string]any) map[string]any {
	after := maps.Clone(added)
	if c.all {
		return after
	}
	for key, value := range present {
		if _, ok := after[key]; !ok && !slices.Contains(c.without, key) {
			after[key] = value
		}
	}
	return after
}

// keptAndLost name what of the entry before is in the one after, and is not, besides the
// connection itself. Values may be secrets.
func keptAndLost(before, after map[string]any) (kept, lost []string) {
	if nested := tableOf(before[nestedKey]); nested != nil {
		before = maps.Clone(before)
		maps.Copy(before, nested)
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		_, stays := after[key]
		switch {
		case slices.Contains(envKeys, key):
			now := connectionOf(after).env
			for _, name := range slices.Sorted(maps.Keys(tableOf(before[key]))) {
				if _, ok := now[name]; !ok {
					lost = append(lost, key+" "+name)
				} else if !slices.Contains(carried, name) {
					kept = append(kept, key+" "+name)
				}
			}
		case slices.Contains(connecting, key):
			if key == "disabled" && before[key] == true {
				lost = append(lost, key)
			}
		case stays:
			kept = append(kept, key)
		default:
			lost = append(lost, key)
		}
	}
	return kept, lost
}
