package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Strict returns the form of a schema for values that the server obtained
// itself: what the schema leaves unsaid is refused instead of allowed. An
// object schema with properties and no say on other keys forbids them, and one
// with properties and no say on required keys requires all of them, at every
// depth. Conditions ("if", "not", "contains") keep their meaning.
//
// Where properties are put together from parts (allOf, $ref, ...), the whole is
// closed and not the parts, which needs draft 2019-09 or newer. References must
// be JSON pointers into the schema itself, so that strictness is never lost
// behind one; anything else is an error.
func Strict(schema json.RawMessage) (json.RawMessage, error) {
	text, err := strictOf.of(string(schema), func() (string, int, error) {
		text, err := strict(schema)
		return text, len(text), err
	})
	if err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

func strict(schema json.RawMessage) (string, error) {
	doc, err := decode(schema)
	if err != nil {
		return "", err
	}
	if _, err := Compile(schema); err != nil {
		return "", err
	}
	s := stricter{root: doc, oldDraft: isOldDraft(doc)}
	if err := s.standalone(doc); err != nil {
		return "", fmt.Errorf("strict form: %w", err)
	}
	text, err := json.Marshal(doc)
	return string(text), err
}

// stricter rewrites one schema document in place.
type stricter struct {
	root any
	// oldDraft: draft-07 and older know no unevaluatedProperties and ignore
	// what stands beside $ref.
	oldDraft bool
}

func isOldDraft(doc any) bool {
	object, _ := doc.(map[string]any)
	name, _ := object["$schema"].(string)
	return strings.Contains(name, "draft-0")
}

// Keywords by what stands below them.
var (
	valueSchemas = []string{"items", "prefixItems", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
	valueMaps    = []string{"properties", "patternProperties"}

	partSchemas = []string{"then", "else", "allOf"}
	partMaps    = []string{"dependentSchemas"}
	choiceLists = []string{"anyOf", "oneOf"}

	definitions = []string{"$defs", "definitions"}
)

// standalone makes a schema strict that describes a value on its own.
func (s *stricter) standalone(v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if s.oldDraft && object["$ref"] != nil {
		return errors.Join(s.checkRef(object), eachInMaps(object, definitions, s.standalone))
	}
	declares, err := s.declares(object, map[string]bool{})
	if err != nil {
		return err
	}
	if declares && !saysMore(object) {
		if err := s.close(object); err != nil {
			return err
		}
	}
	return s.below(object, declares)
}

// part makes a schema strict that describes a value together with others: it
// is not closed, because the keys of the others are not its own.
func (s *stricter) part(v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	return s.below(object, true)
}

func saysMore(object map[string]any) bool {
	for _, key := range []string{"additionalProperties", "unevaluatedProperties", "patternProperties"} {
		if _, found := object[key]; found {
			return true
		}
	}
	return false
}

func (s *stricter) close(object map[string]any) error {
	if !hasParts(object) {
		object["additionalProperties"] = false
		return nil
	}
	if s.oldDraft {
		return errors.New("properties put together from parts need draft 2019-09 or newer")
	}
	object["unevaluatedProperties"] = false
	return nil
}

func hasParts(object map[string]any) bool {
	for _, key := range slices.Concat(partSchemas, partMaps, choiceLists, []string{"$ref"}) {
		if _, found := object[key]; found {
			return true
		}
	}
	return false
}

// declares reports whether the schema names properties, itself or through a
// part that always applies. References in seen have been looked through.
func (s *stricter) declares(object map[string]any, seen map[string]bool) (bool, error) {
	if _, found := object["properties"].(map[string]any); found {
		return true, nil
	}
	if ref, found := object["$ref"].(string); found && !seen[ref] {
		seen[ref] = true
		target, err := s.resolve(ref)
		if err != nil {
			return false, err
		}
		if t, ok := target.(map[string]any); ok {
			if yes, err := s.declares(t, seen); yes || err != nil {
				return yes, err
			}
		}
	}
	parts, _ := object["allOf"].([]any)
	for _, p := range parts {
		if part, ok := p.(map[string]any); ok {
			if yes, err := s.declares(part, seen); yes || err != nil {
				return yes, err
			}
		}
	}
	return false, nil
}

// below continues with everything inside a schema object. With closed, the
// object's own choices are parts of it; else each choice stands alone.
func (s *stricter) below(object map[string]any, closed bool) error {
	if err := s.checkRef(object); err != nil {
		return err
	}
	requireAll(object)
	choice := s.standalone
	if closed {
		choice = s.part
	}
	definition := s.part
	if s.oldDraft {
		definition = s.standalone
	}
	return errors.Join(
		eachOf(object, valueSchemas, s.standalone), eachInMaps(object, valueMaps, s.standalone),
		eachOf(object, partSchemas, s.part), eachInMaps(object, partMaps, s.part),
		eachOf(object, choiceLists, choice), eachInMaps(object, definitions, definition),
	)
}

// requireAll requires every property unless the schema or a part of it says
// what is required.
func requireAll(object map[string]any) {
	properties, _ := object["properties"].(map[string]any)
	if len(properties) == 0 || mentionsRequired(object) {
		return
	}
	names := make([]any, 0, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		names = append(names, name)
	}
	object["required"] = names
}

func mentionsRequired(object map[string]any) bool {
	if _, found := object["required"]; found {
		return true
	}
	for _, key := range slices.Concat([]string{"allOf"}, choiceLists) {
		list, _ := object[key].([]any)
		for _, v := range list {
			if part, ok := v.(map[string]any); ok && mentionsRequired(part) {
				return true
			}
		}
	}
	return false
}

// eachOf does it with what stands at the keys: a schema each, or a list of them.
func eachOf(object map[string]any, keys []string, do func(any) error) error {
	for _, key := range keys {
		list, ok := object[key].([]any)
		if !ok {
			list = []any{object[key]}
		}
		for _, v := range list {
			if err := do(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func eachInMaps(object map[string]any, keys []string, do func(any) error) error {
	for _, key := range keys {
		members, _ := object[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if err := do(members[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stricter) checkRef(object map[string]any) error {
	for _, key := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, found := object[key]; found {
			return fmt.Errorf("%s cannot be followed", key)
		}
	}
	ref, found := object["$ref"].(string)
	if !found {
		return nil
	}
	_, err := s.resolve(ref)
	return err
}

// resolve finds what a reference "#/..." points to.
func (s *stricter) resolve(ref string) (any, error) {
	if ref == "#" {
		return s.root, nil
	}
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, fmt.Errorf("cannot follow $ref %q: only pointers into the schema itself (#/...)", ref)
	}
	at := s.root
	for token := range strings.SplitSeq(pointer, "/") {
		if strings.Contains(token, "~") {
			token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		}
		next, found := member(at, token)
		if !found {
			return nil, fmt.Errorf("$ref %q points to nothing", ref)
		}
		at = next
	}
	return at, nil
}

func member(v any, token string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		next, found := v[token]
		return next, found
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}
