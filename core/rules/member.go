package rules

import (
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// member is a matcher of a member of actions: a text, or the words with which a list begins.
type member struct {
	name  string
	text  string
	words []string // nil: it is a text
}

// matches reports whether the value that a driver stated fits. A value that it could not
// read fits every rule.
func (m member) matches(stated any) bool {
	if unparsed(stated) {
		return true
	}
	list, isList := stated.([]any)
	if m.words == nil {
		return m.is(stated) || isList && contains(list, m.is)
	}
	return isList && (m.begins(list) || contains(list, func(element any) bool { return unparsed(element) || m.begins(wordsOf(element)) }))
}

func contains(list []any, fits func(any) bool) bool {
	for _, element := range list {
		if fits(element) {
			return true
		}
	}
	return false
}

// is reports whether the value is the text. Case does not tell two tools or servers apart.
func (m member) is(stated any) bool {
	return unparsed(stated) || same(stated, m.text)
}

// begins reports whether the list begins with the words of the rule, as far as they are known.
func (m member) begins(list []any) bool {
	for i, word := range m.words {
		switch {
		case i >= len(list):
			return false
		case unparsed(list[i]):
			return true // it may be this word and the next ones
		case !same(list[i], word):
			return false
		}
	}
	return true
}

func same(stated any, want string) bool {
	text, ok := stated.(string)
	return ok && strings.EqualFold(plain.Normal(text), plain.Normal(want))
}

// unparsed reports whether the driver marked the value as one that it could not read
// (driver.Unparsed).
func unparsed(value any) bool {
	object, ok := value.(map[string]any)
	_, marked := object["unparsed"]
	return ok && marked
}

// settled are the values without what is left open in them.
func settled(values []any) []any {
	values = slices.DeleteFunc(slices.Clone(values), unparsed)
	for i, value := range values {
		if list, ok := value.([]any); ok {
			values[i] = slices.DeleteFunc(slices.Clone(list), func(element any) bool {
				return unparsed(element) || slices.ContainsFunc(wordsOf(element), unparsed)
			})
		}
	}
	return values
}

// wordsOf are the words of an element of a list, or of another way to read it.
func wordsOf(element any) []any {
	if object, ok := element.(map[string]any); ok {
		element = object["reads_as"]
	}
	words, _ := element.([]any)
	return words
}
