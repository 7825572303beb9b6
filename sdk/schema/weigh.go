package schema

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/pattern"
)

// Limits of a schema. They keep the time that compiling takes, which is quadratic
// in the number of its parts, and its memory far below a second and 16 MiB.
const (
	MaxBytes   = 1 << 20
	MaxValues  = 50_000 // all values of the document, those in enum and examples included
	MaxParts   = 3_000  // objects, true and false, wherever they stand
	MaxPointer = 1_024  // bytes of the names from the root to a part
)

// Weight is what it takes to compile a schema.
type Weight struct {
	Parts int
	// Steps is how long the programs of its patterns are; see pattern.Budget.
	Steps int
}

// Weigh returns what it takes to compile a schema, or why it is not compiled. It
// compiles nothing and does not judge whether the schema is valid.
func Weigh(schema json.RawMessage) (Weight, error) {
	_, w, err := weigh(schema)
	return w, err
}

// weigh decodes a schema within the limits.
func weigh(schema json.RawMessage) (doc any, _ Weight, err error) {
	if len(schema) > MaxBytes {
		return nil, Weight{}, fmt.Errorf("the schema has %d bytes; at most %d are allowed", len(schema), MaxBytes)
	}
	if doc, err = decode(schema); err != nil {
		return nil, Weight{}, err
	}
	s := scale{seen: map[string]bool{}}
	if err := s.value(doc, "", 0); err != nil {
		return nil, Weight{}, err
	}
	return doc, Weight{Parts: s.parts, Steps: s.patterns}, nil
}

// scale counts the values of a schema document.
type scale struct {
	values, parts, patterns int
	seen                    map[string]bool // patterns: one is compiled once, wherever it stands
}

// value counts a value at a key of its parent, below names of so many bytes.
func (s *scale) value(v any, key string, pointer int) error {
	if s.values++; s.values > MaxValues {
		return fmt.Errorf("the schema has more than %d values", MaxValues)
	}
	switch v := v.(type) {
	case bool:
		if key != "additionalProperties" && key != "unevaluatedProperties" { // what Strict adds
			return s.part(pointer)
		}
	case string:
		if key == "pattern" {
			return s.pattern(v)
		}
	case []any:
		for _, item := range v {
			if err := s.value(item, "", pointer+len("/0000")); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := s.part(pointer); err != nil {
			return err
		}
		for name, member := range v {
			if key == "patternProperties" {
				if err := s.pattern(name); err != nil {
					return err
				}
			}
			if err := s.value(member, name, pointer+1+len(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scale) part(pointer int) error {
	if pointer > MaxPointer {
		return fmt.Errorf("the names that lead to a part of the schema have more than %d bytes together", MaxPointer)
	}
	if s.parts++; s.parts > MaxParts {
		return fmt.Errorf("the schema has more than %d parts (objects, true and false)", MaxParts)
	}
	return nil
}

// pattern counts the steps of an expression. A text that is not an
// expression may be a property called pattern, and is for the compiler to judge.
func (s *scale) pattern(text string) error {
	if s.seen[text] {
		return nil
	}
	s.seen[text] = true
	steps, _ := pattern.Steps(text) // Compile refuses it by its place, if it is a pattern
	if s.patterns += steps; s.patterns > pattern.MaxTotal {
		return fmt.Errorf("the patterns of the schema take more than %d steps for a character together; write smaller or fewer repetitions", pattern.MaxTotal)
	}
	return nil
}
