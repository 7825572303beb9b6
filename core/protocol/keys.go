package protocol

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// blockKeys are the keys of the blocks that the core owns.
var blockKeys = map[string][]string{
	"sampling": {"system", "user", "temperature", "top_p", "max_tokens"},
	"judge":    {"question", "required"},
}

// unknownKeys reports unknown keys. They are errors in judge, where with a misspelt
// question the default one would be answered, and where a known key is misspelt;
// elsewhere they are warnings. A challenge without a type may have an older form whose
// keys only its driver knows.
func (s Step) unknownKeys(kind string) []Diagnostic {
	var found []Diagnostic
	_ = walkJSON(s.Challenge, jsonWalker{onMember: func(pointer string, at, _, _ int) {
		message, misspelt := unknownKey(pointer[1:], kind)
		if message == "" || len(found) == maxFindings {
			return
		}
		d := s.problemAt(at, pointer, message)
		if !misspelt && !strings.HasPrefix(pointer, "/judge/") {
			d.Severity = driver.SeverityWarning
		}
		found = append(found, d)
	}})
	return found
}

// unknownKey describes a key of a challenge, given its pointer, that is not known, and
// reports whether it is one that is, misspelt; empty: it is known, or the driver's.
func unknownKey(key, kind string) (message string, misspelt bool) {
	block, inner, below := strings.Cut(key, "/")
	known := blockKeys[block]
	switch {
	case !below && (commonKeys[strings.ToLower(key)] || kind != "" && key == pointerEscaper.Replace(kind)):
		return "", false
	case !below && kind != "" && fields.Misspelt(key, []string{kind}) != "":
		return fmt.Sprintf("the type is %.80q and its object %.80q: both must be the same word", kind, key), true
	case !below:
		known = commonNames
		longer := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(key, k+"_") }) // of an earlier build, such as evidence_from
		misspelt = longer >= 0 || fields.Misspelt(key, known) != ""
		if kind == "" && !misspelt {
			return "", false
		}
		return fmt.Sprintf("unknown key %.80q beside %.80q%s", key, kind, meant(key, known)), misspelt
	case known == nil || strings.Contains(inner, "/") || slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, inner) }):
		return "", false
	}
	return fmt.Sprintf("unknown key %.80q in %q%s", inner, block, meant(inner, known)), fields.Misspelt(inner, known) != ""
}

// meant ends a message about an unknown key with the known one.
func meant(key string, known []string) string {
	if k := fields.Misspelt(key, known); k != "" {
		return fmt.Sprintf("; did you mean %q?", k)
	}
	return fields.Suggestion(key, known)
}

// typeByOnlyKey gives a challenge without a type the type that its only key of an
// object names: {"mcp": {...}} is of type mcp.
func (s *Step) typeByOnlyKey() {
	present, err := members(s.Challenge)
	if err != nil || has(present, "type") {
		return
	}
	var kinds []string
	for key, m := range present {
		if !commonKeys[strings.ToLower(key)] && isObject(m.value) && fields.Misspelt(key, commonNames) == "" {
			kinds = append(kinds, key)
		}
	}
	if len(kinds) == 1 {
		s.insertType(kinds[0], present[kinds[0]].key)
	}
}

// insertType writes the type into the text of the challenge. Its place is that of the
// key at the offset, which names it.
func (s *Step) insertType(kind string, offset int) {
	quoted, err := quote(kind)
	if err != nil {
		return
	}
	brace := bytes.IndexByte(s.Challenge, '{') + 1
	rest := s.Challenge[brace:]
	blank := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))]
	added := slices.Concat(blank, []byte(`"type": `), quoted, []byte(","))
	if len(blank) == 0 {
		added = append(added, ' ')
	}
	at, next := s.placeAt(offset), s.placeAt(brace)
	i := 0
	for i < len(s.Anchors) && s.Anchors[i].Offset < brace {
		i++
	}
	moved := []Anchor{{brace + len(blank) + len(`"type": `), at}, {brace + len(added), next}}
	for _, a := range s.Anchors[i:] {
		moved = append(moved, Anchor{a.Offset + len(added), a.Place})
	}
	s.Anchors = append(s.Anchors[:i:i], moved...)
	s.Challenge = slices.Concat(s.Challenge[:brace], added, rest)
}
