package schema

import (
	"encoding/json"
	"hash/maphash"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork is how often one validation may compare a value with a part of a schema.
// A schema of many alternatives, whose parts are referred to in many ways, or that
// refers to itself twice, multiplies the work with each item or level of the value.
const maxWork = 1 << 20

// So much of other work takes as long as one comparison.
const (
	patternSteps = 64   // of a pattern, each with one character
	textBytes    = 1024 // of a text that is counted or read
	membersSeen  = 8    // of an object that are looked up
	membersKept  = 4    // of an object or a list that are copied
	namesMissing = 4    // of the keys that an object must have
	scalars      = 16   // texts that are compared with one
	boundTakes   = 2    // comparisons: a bound of a number is exact arithmetic
	regexTakes   = 64   // comparisons for each byte of a value of format regex: A{1000} is short
	chainSeen    = 64   // references that led to a part
)

// affordable reports whether judging the value by the schema takes at most maxWork
// comparisons. It is an upper bound, and counting ends where the budget does.
func affordable(s *jsonschema.Schema, value any) bool {
	m := meter{left: maxWork}
	m.part(s, value, 0, false)
	return m.left >= 0
}

// meter counts the work of a validation without doing it.
type meter struct {
	left   int
	hashes maphash.Hash
}

func (m *meter) spend(n int) { m.left -= min(n, maxWork+1) }

// part counts what judging a value by a schema takes. chain is how many parts have
// judged the same value on the way; tracked reports that one of them needs to know
// which members and items were judged.
func (m *meter) part(s *jsonschema.Schema, v any, chain int, tracked bool) {
	m.spend(1 + chain/chainSeen)
	if s.Bool != nil || m.left < 0 {
		return
	}
	if s.Const != nil {
		m.equal(*s.Const, v)
	}
	if s.Enum != nil {
		for _, item := range s.Enum.Values {
			m.equal(item, v)
		}
		m.spend(len(s.Enum.Values) / scalars)
	}
	switch v := v.(type) {
	case map[string]any:
		tracked = tracked || s.UnevaluatedProperties != nil
		m.object(s, v, tracked)
	case []any:
		tracked = tracked || s.UnevaluatedItems != nil
		m.list(s, v, tracked)
	case string:
		m.text(s, v)
	case json.Number:
		for _, bound := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
			if bound != nil {
				m.spend(boundTakes)
			}
		}
	}
	eachPart(s, func(part *jsonschema.Schema) {
		if m.left >= 0 {
			m.part(part, v, chain+1, tracked)
		}
	})
}

func (m *meter) object(s *jsonschema.Schema, v map[string]any, tracked bool) {
	m.spend(len(v)/membersSeen + len(s.Required)/namesMissing + (len(s.DependentRequired)+len(s.Dependencies))/namesMissing)
	for _, names := range s.DependentRequired {
		m.spend(len(names) / namesMissing)
	}
	for _, names := range s.Dependencies {
		if names, ok := names.([]string); ok {
			m.spend(len(names) / namesMissing)
		}
	}
	if tracked {
		m.spend(len(v) / membersKept)
	}
	for name, member := range v {
		if m.left < 0 {
			return
		}
		m.member(s, name, member)
	}
}

// member counts what judging a member of an object takes. It looks the name up, as
// the validator does: trying all names would be more work than what it counts.
func (m *meter) member(s *jsonschema.Schema, name string, member any) {
	visit := func(part *jsonschema.Schema) { m.part(part, member, 0, false) }
	part, known := s.Properties[name]
	if known {
		visitAll(visit, part)
	}
	for expression, part := range s.PatternProperties {
		if m.match(expression, name); m.left >= 0 && expression.MatchString(name) {
			visitAll(visit, part)
		}
	}
	if !known {
		visitAny(visit, s.AdditionalProperties)
	}
	visitAll(visit, s.UnevaluatedProperties)
	if s.PropertyNames != nil {
		m.part(s.PropertyNames, name, 0, false)
	}
}

func (m *meter) list(s *jsonschema.Schema, v []any, tracked bool) {
	if tracked {
		m.spend(len(v) / membersKept)
	}
	if s.UniqueItems {
		m.unique(v)
	}
	for i, item := range v {
		if m.left < 0 {
			return
		}
		eachItem(s, i, func(part *jsonschema.Schema) { m.part(part, item, 0, false) })
	}
}

func (m *meter) text(s *jsonschema.Schema, v string) {
	if s.MinLength != nil || s.MaxLength != nil || s.Format != nil {
		m.spend(len(v) / textBytes)
	}
	if s.Format != nil && s.Format.Name == "regex" {
		m.spend(regexTakes * len(v))
	}
	if s.Pattern != nil {
		m.match(s.Pattern, v)
	}
}

// match counts what matching takes. Expressions of CompileWith have no steps: what
// matching them takes is the caller's to bound.
func (m *meter) match(expression jsonschema.Regexp, text string) {
	if costly, ok := expression.(interface{ Steps() int }); ok {
		m.spend(1 + costly.Steps()*len(text)/patternSteps)
	}
}

// equal counts what comparing two values for equality takes.
func (m *meter) equal(a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok && len(a) == len(b) {
			m.spend(m.size(a))
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			m.spend(m.size(a))
		}
	case json.Number:
		if _, ok := b.(json.Number); ok {
			m.spend(boundTakes)
		}
	}
}

// size is how many values a value holds, itself included; it stops counting where
// the budget ends.
func (m *meter) size(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if n += m.size(member); n > m.left {
				break
			}
		}
	case []any:
		for _, item := range v {
			if n += m.size(item); n > m.left {
				break
			}
		}
	}
	return n
}

// unique counts what comparing the items of a list with each other takes. The
// validator compares those with the same hash, and of lists and objects the hash
// does not tell where one text ends and the next begins.
func (m *meter) unique(list []any) {
	alike := make(map[uint64]int, len(list))
	for _, item := range list {
		size := m.size(item)
		m.spend(size)
		if m.left < 0 {
			return
		}
		m.hashes.Reset()
		m.hash(item)
		sum := m.hashes.Sum64()
		m.spend(alike[sum] * size)
		alike[sum]++
	}
	const fewItems = 20 // are all compared with each other
	if len(list) <= fewItems {
		for i, item := range list {
			m.spend(i * m.size(item))
		}
	}
}

// hash hashes what the validator does, so that values have the same hash here if
// they have it there.
func (m *meter) hash(v any) {
	write := func(tag byte, text string) {
		_ = m.hashes.WriteByte(tag) // a hash never fails
		_, _ = m.hashes.WriteString(text)
	}
	switch v := v.(type) {
	case map[string]any:
		write(0, "")
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			m.hash(name)
			m.hash(v[name])
		}
	case []any:
		write(1, "")
		for _, item := range v {
			m.hash(item)
		}
	case bool:
		write(3, map[bool]string{true: "\x01", false: "\x00"}[v])
	case string:
		write(4, v)
	case json.Number:
		if number, ok := new(big.Rat).SetString(v.String()); ok {
			write(5, string(number.Num().Bytes())+string(number.Denom().Bytes()))
		}
	default:
		write(2, "")
	}
}
