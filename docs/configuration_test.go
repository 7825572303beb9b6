package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const (
	configPage   = "reference/configuration.md"
	configSchema = "../cmd/kairos/internal/config/config.schema.json"
	keysBegin    = "<!-- keys: written by go test ./docs -run Configuration -update -->\n"
	keysEnd      = "<!-- end of keys -->\n"
)

// TestConfigurationIsThatOfItsSchema holds the table of keys against the schema
// that the server publishes for editors.
func TestConfigurationIsThatOfItsSchema(t *testing.T) {
	source, err := os.ReadFile(configSchema)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(configPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), keysBegin)
	_, after, ends := strings.Cut(rest, keysEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the keys", configPage)
	}
	table := keysOf(t, source)
	generated(t, configPage, before+keysBegin+table+keysEnd+after, "go test ./docs -run Configuration -update")
}

const restarts = "Needs a restart."

// stated is a default that a description states because no constant holds it.
var stated = regexp.MustCompile(` ?\b(?:Default|Not set): (.+?)\.(?: |$)`)

// keysOf is the table of keys in the order of the schema, one line for each key
// that holds a value.
func keysOf(t *testing.T, source []byte) string {
	t.Helper()
	var schema yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(source, &schema, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| key | value | default | restart | meaning |\n|---|---|---|---|---|\n")
	n := writeKeys(t, &b, "", "", schema)
	if n < 60 {
		t.Fatalf("the schema has %d keys: the test does not find them all", n)
	}
	return b.String()
}

// writeKeys writes the keys of an object, whose own keys need a restart if restart says so.
func writeKeys(t *testing.T, b *strings.Builder, prefix, restart string, object yaml.MapSlice) int {
	t.Helper()
	n := 0
	properties, _ := lookup(object, "properties").(yaml.MapSlice)
	for _, p := range properties {
		name, ok := p.Key.(string)
		of, isObject := p.Value.(yaml.MapSlice)
		if !ok || !isObject {
			t.Fatalf("%s%v is not a schema", prefix, p.Key)
		}
		key, restart := prefix+name, restart
		meaning, _ := lookup(of, "description").(string)
		if before, _, needs := strings.Cut(meaning, restarts); needs {
			restart, meaning = "yes", strings.TrimSpace(before)
		}
		below, byName := of, lookup(of, "additionalProperties")
		if each, ok := byName.(yaml.MapSlice); ok && lookup(each, "properties") != nil {
			key, below = key+".NAME", each
		}
		if lookup(below, "properties") != nil {
			n += writeKeys(t, b, key+".", restart, below)
			continue
		}
		n++
		preset := presetOf(t, of)
		if found := stated.FindStringSubmatch(meaning); found != nil && preset == "" {
			preset, meaning = found[1], strings.TrimSpace(stated.ReplaceAllString(meaning, " "))
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", key, valueOf(of), preset, restart, strings.ReplaceAll(meaning, "|", `\|`))
	}
	return n
}

func lookup(s yaml.MapSlice, key string) any {
	for _, item := range s {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

// valueOf says in a few words which values a key takes.
func valueOf(s yaml.MapSlice) string {
	if ref, ok := lookup(s, "$ref").(string); ok {
		return strings.TrimPrefix(ref, "#/$defs/")
	}
	if enum, ok := lookup(s, "enum").([]any); ok {
		words := make([]string, len(enum))
		for i, e := range enum {
			words[i] = fmt.Sprintf("`%v`", e)
		}
		return strings.Join(words, ", ")
	}
	switch kind := lookup(s, "type").(type) {
	case string:
		if kind == "array" {
			return "list"
		}
		return kind
	case []any:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(kind), " ", " or "), "[]")
	}
	return "any"
}

func presetOf(t *testing.T, s yaml.MapSlice) string {
	t.Helper()
	preset := lookup(s, "default")
	switch preset := preset.(type) {
	case nil:
		return ""
	case string:
		return "`" + preset + "`"
	}
	b, err := json.Marshal(preset)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + string(b) + "`"
}
