package driverhost

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/pattern"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

const (
	// hidden replaces a secret. It is shorter than any secret, so that hiding ends.
	hidden = "***"
	// minSecret keeps values such as "true" or "8080" readable.
	minSecret = 6 // characters
	maxSchema = 64
)

// redactor hides the secrets of one driver in text. It never changes. The nil
// redactor hides nothing.
type redactor struct {
	secrets  []string // longest first
	replacer *strings.Replacer
}

// newRedactor knows the values of the environment variables that the driver
// sees (name=value), and what in its configuration the schema or the name of a
// key calls secret.
func newRedactor(env []string, config, schema json.RawMessage) *redactor {
	var values []string
	for _, variable := range env {
		_, value, _ := strings.Cut(variable, "=")
		values = append(values, value)
	}
	_, found := concealSecrets(config, schema)
	return redactorOf(append(values, found...)...)
}

// redactorOf hides the values, also as they appear in JSON, in a URL or cleaned for the
// log, and each line of a value with several lines.
func redactorOf(values ...string) *redactor {
	r := &redactor{}
	for _, v := range values {
		for _, line := range append(strings.Split(v, "\n"), v) {
			r.secrets = append(r.secrets, looksOf(line)...)
		}
	}
	r.secrets = slices.DeleteFunc(r.secrets, func(s string) bool { return utf8.RuneCountInString(s) < minSecret })
	slices.SortFunc(r.secrets, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	r.secrets = slices.Compact(r.secrets)
	pairs := make([]string, 0, 2*len(r.secrets))
	for _, s := range r.secrets {
		pairs = append(pairs, s, hidden)
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r
}

// looksOf returns the forms in which a value may appear in a line of text.
func looksOf(v string) []string {
	quoted := strconv.Quote(v)
	looks := []string{
		v, strings.TrimSpace(v), strings.TrimSpace(plain.Line(v[:min(len(v), maxLine)])), url.QueryEscape(v), url.PathEscape(v), quoted[1 : len(quoted)-1],
	}
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		if enc.Encode(v) == nil {
			text := strings.TrimSpace(b.String())
			looks = append(looks, text[1:len(text)-1])
		}
	}
	return looks
}

// hide returns the text without any secret, nor the beginning of one at its
// end, where a long line was cut.
func (r *redactor) hide(text string) string {
	if r == nil || len(r.secrets) == 0 {
		return text
	}
	for r.finds(text) { // the text on both sides of a secret may form another
		text = r.replacer.Replace(text)
	}
	for {
		cut := r.begun(text)
		if cut == len(text) {
			return text
		}
		text = text[:cut] + hidden
		for r.finds(text) {
			text = r.replacer.Replace(text)
		}
	}
}

// hideIn hides secrets in the text of an error, without changing its chain.
func (r *redactor) hideIn(err error) error {
	if err == nil {
		return nil
	}
	text := r.hide(err.Error())
	if text == err.Error() {
		return err
	}
	return &toldError{text, err}
}

func (r *redactor) finds(text string) bool {
	return slices.ContainsFunc(r.secrets, func(s string) bool { return strings.Contains(text, s) })
}

// begun returns where at the end of the text a secret begins that is cut off.
func (r *redactor) begun(text string) int {
	whole := strings.TrimRight(text, string(utf8.RuneError)) // half a character
	for _, s := range r.secrets {
		for n := min(len(s)-1, len(whole)); n >= minSecret; n-- {
			if strings.HasSuffix(whole, s[:n]) {
				return len(whole) - n
			}
		}
	}
	return len(text)
}

// hideSecrets returns a driver's configuration as it may be shown: without what
// the schema marks writeOnly or as a password, texts under keys that sound like
// secrets, and passwords in URLs. It hides a document that it cannot read as a whole.
func hideSecrets(config, schema json.RawMessage) json.RawMessage {
	shown, _ := concealSecrets(config, schema)
	return shown
}

// concealSecrets also returns the texts that it has hidden.
func concealSecrets(config, schema json.RawMessage) (shown json.RawMessage, found []string) {
	if len(bytes.TrimSpace(config)) == 0 {
		return config, nil
	}
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return json.RawMessage(strconv.Quote(hidden)), nil
	}
	c := &concealer{}
	_ = json.Unmarshal(schema, &c.root) // without a schema the names decide
	value = c.walk(value, []any{c.root}, false)
	shown, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage(strconv.Quote(hidden)), c.found
	}
	return shown, c.found
}

// secretName matches the keys of secrets.
var secretName = regexp.MustCompile(
	`(?i)token|secret|passw|passphrase|credential|api[-_]?key|private[-_]?key|access[-_]?key|signing[-_]?key|authorization|bearer|cookie`)

type concealer struct {
	root  any // the schema
	found []string
}

// walk conceals values by schema and name. named: the key of the value, or of one that
// contains it, is that of a secret.
func (c *concealer) walk(value any, schemas []any, named bool) any {
	schemas = c.expand(schemas)
	if slices.ContainsFunc(schemas, callsSecret) {
		c.note(value)
		return hidden
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = c.walk(inner, property(schemas, key), named || secretName.MatchString(key))
		}
	case []any:
		for i, inner := range v {
			v[i] = c.walk(inner, items(schemas, i), named)
		}
	case string:
		if named && v != "" {
			c.note(v)
			return hidden
		}
		return c.withoutPassword(v)
	}
	return value
}

// note remembers every text in a value.
func (c *concealer) note(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			c.note(inner)
		}
	case []any:
		for _, inner := range v {
			c.note(inner)
		}
	case string:
		c.found = append(c.found, v)
	case json.Number:
		c.found = append(c.found, v.String())
	}
}

// withoutPassword hides the password of a URL.
func (c *concealer) withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil || u.Host == "" {
		return text
	}
	password, ok := u.User.Password()
	if !ok || password == "" {
		return text
	}
	c.found = append(c.found, password)
	u.User = url.User(u.User.Username())
	return u.String()
}

// expand adds the schemas that a value has to meet as well.
func (c *concealer) expand(schemas []any) []any {
	for i := 0; i < len(schemas) && len(schemas) < maxSchema; i++ {
		s, ok := schemas[i].(map[string]any)
		if !ok {
			continue
		}
		if ref, ok := s["$ref"].(string); ok {
			schemas = append(schemas, c.resolve(ref))
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			if more, ok := s[key].([]any); ok {
				schemas = append(schemas, more...)
			}
		}
		for _, key := range []string{"then", "else"} {
			schemas = append(schemas, s[key])
		}
	}
	return schemas
}

// resolve follows a reference inside the schema; others lead nowhere.
func (c *concealer) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := c.root
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part == "" {
			continue
		}
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return at
}

func callsSecret(schema any) bool {
	s, ok := schema.(map[string]any)
	return ok && (s["writeOnly"] == true || s["format"] == "password")
}

// property returns the schemas of one key of an object.
func property(schemas []any, key string) []any {
	var out []any
	for _, schema := range schemas {
		s, ok := schema.(map[string]any)
		if !ok {
			continue
		}
		known := false
		if properties, ok := s["properties"].(map[string]any); ok && properties[key] != nil {
			known, out = true, append(out, properties[key])
		}
		if patterns, ok := s["patternProperties"].(map[string]any); ok {
			for expression, inner := range patterns {
				if re, err := pattern.Compile(expression); err != nil || re.MatchString(key) {
					known, out = true, append(out, inner)
				}
			}
		}
		if !known && s["additionalProperties"] != nil {
			out = append(out, s["additionalProperties"])
		}
	}
	return out
}

// items returns the schemas of one item of a list.
func items(schemas []any, i int) []any {
	var out []any
	for _, schema := range schemas {
		s, ok := schema.(map[string]any)
		if !ok {
			continue
		}
		if first, ok := s["prefixItems"].([]any); ok && i < len(first) {
			out = append(out, first[i])
			continue
		}
		out = append(out, s["items"])
	}
	return out
}
