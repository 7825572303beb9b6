package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// maxLook is the largest block, in bytes, that is looked at for what it may be meant as.
const maxLook = 64 << 10

// look is what a fenced block that may hold a challenge looks like, before it is read.
type look struct {
	// challenge: it is to be read as one.
	challenge bool
	// refused says why the document is refused; empty: it is not.
	refused string
	// near says what would make it a challenge, which it is not; empty: nothing suggests
	// that it is meant as one.
	near string
	// kind is the type that it would have as a challenge, and advice what would make it one;
	// empty: none.
	kind, advice string
}

// Lookalike is a block at the end of a step without a challenge that would be one if
// Type were a type of challenges, which only its drivers know. Advice says how.
type Lookalike struct {
	Type, Advice string
	Place        Place
}

// meant reports whether the block is probably meant as a challenge.
func (l look) meant() bool { return l.challenge || l.refused != "" || l.near != "" }

func (l look) candidate(at Place) *Lookalike {
	if l.meant() || l.kind == "" {
		return nil
	}
	return &Lookalike{Type: l.kind, Advice: l.advice, Place: at}
}

// lookOf looks at a block.
func lookOf(f fence) look {
	switch {
	case f.isYAML():
		return lookOfYAML(f.content)
	case isMarkdown(f.language):
		return look{} // it shows a document
	case f.isJSON() && f.objectWith(keyChallenge):
		return lookOfOurs(f.content)
	case len(f.content) > maxLook:
		return look{}
	}
	l := lookOfJSON(f.content)
	if f.language == "" && l == (look{}) && beginsLikeYAML(f.content) {
		return look{near: "write the language yaml behind the opening marks of the block"}
	}
	if f.isJSON() {
		return l
	}
	l.kind, l.advice = "", ""
	if l.challenge || l.refused != "" {
		return look{near: fmt.Sprintf("a block of language %q is text; write json behind the opening marks", cut(f.language))}
	}
	return l
}

// isJSON reports whether the block has a language in which challenges are written.
func (f fence) isJSON() bool { return f.language == "json" || f.language == "" }

func (f fence) isYAML() bool {
	return strings.EqualFold(f.language, "yaml") || strings.EqualFold(f.language, "yml")
}

func isMarkdown(language string) bool {
	return strings.EqualFold(language, "md") || strings.EqualFold(language, "markdown")
}

// objectWith reports whether the block seems to be a JSON object with the key.
func (f fence) objectWith(key string) bool {
	return isObject([]byte(f.content)) && strings.Contains(f.content, `"`+key+`"`)
}

// lookOfOurs is the look of an object that has the word "challenge" in quotes. Only one
// without such a key can be anything else.
func lookOfOurs(content string) look {
	if len(content) <= maxLook {
		if top, err := members([]byte(content)); err == nil && !has(top, keyChallenge) {
			return lookOfMembers(top)
		}
	}
	return look{challenge: true}
}

// firstWord is the first key of an object, or of an object in a list, however it is
// quoted.
var firstWord = regexp.MustCompile("^[\\s\\[]*\\{\\s*[\"'`\u201c\u201d\u201e\u2018\u2019]?\\s*([\\w. -]{1,24}?)\\s*[\"'`\u201c\u201d\u201e\u2018\u2019]?\\s*:")

// lookOfJSON is the look of a block without the word "challenge" in quotes.
func lookOfJSON(content string) look {
	switch bare := strings.TrimLeft(content, " \t\r\n"); {
	case strings.HasPrefix(bare, "{"):
	case strings.HasPrefix(bare, "["):
		var list []json.RawMessage
		if json.Unmarshal([]byte(content), &list) == nil && len(list) > 0 && isObject(list[0]) && lookOfJSON(string(list[0])).meant() {
			return look{near: "a challenge is an object, not a list: {\"challenge\": {...}}"}
		}
		return look{}
	default:
		return look{}
	}
	top, err := members([]byte(content))
	if err == nil {
		return lookOfMembers(top)
	}
	if first := firstWord.FindStringSubmatch(content); first != nil && (isNear(first[1]) || first[1] == keyChallenge) {
		return look{refused: fmt.Sprintf("the block begins with %q and is not JSON: %s%s", first[1], err, hintOf(content, err))}
	}
	return look{}
}

// hintOf is the hint for an error of members.
func hintOf(content string, err error) string {
	if at, ok := err.(*jsonError); ok { //nolint:errorlint // members returns it as it is
		return jsonHint([]byte(content), at.offset)
	}
	return ""
}

// isNear reports whether a key is probably meant to be "challenge".
func isNear(key string) bool {
	return key != keyChallenge && fields.Misspelt(key, []string{keyChallenge}) != ""
}

// lookOfMembers is the look of an object without the key "challenge".
func lookOfMembers(top map[string]member) look {
	keys := slices.Sorted(maps.Keys(top))
	if contract, ok := top[keyContract]; has(top, keyChallenge) || ok && isContract(contract.value) {
		return look{challenge: true}
	}
	if l := lookOfKeys(keys, func(key string) bool { return isShaped(top[key].value) }); l != (look{}) {
		return l
	}
	kind := typeOf(top)
	switch {
	case kind != "" && isObject(top[kind].value):
		return look{near: inside(kind)}
	case kind != "":
		return look{kind: kind, advice: inside(kind)}
	case isLegacy(top):
		return look{near: `write {"challenge": {"cmd": ...}}`}
	case len(keys) == 1:
		return lookOfOne(keys[0], top[keys[0]].value)
	}
	return look{}
}

// lookOfKeys is the look of an object with a key that is nearly "challenge". Where it
// has others, the value of that key tells.
func lookOfKeys(keys []string, shaped func(key string) bool) look {
	for _, key := range keys {
		if !isNear(key) {
			continue
		}
		message := fmt.Sprintf("the key %.80q must be written %q", key, keyChallenge)
		if len(keys) == 1 {
			return look{refused: message}
		}
		if shaped(key) {
			return look{near: message}
		}
	}
	return look{}
}

// lookOfOne is the look of an object with one key.
func lookOfOne(key string, value json.RawMessage) look {
	if !isObject(value) {
		return look{}
	}
	instead := fmt.Sprintf("write %q in place of %q", keyChallenge, cut(key))
	if isShaped(value) {
		return look{near: instead}
	}
	below, err := members(value)
	switch {
	case err != nil:
	case isObject(below[keyChallenge].value):
		return look{near: fmt.Sprintf("take %q out of %q", keyChallenge, cut(key))}
	case typeOf(below) != "":
		return look{kind: typeOf(below), advice: instead}
	case len(below) == 1 && isObject(below[onlyKey(below)].value):
		return look{kind: onlyKey(below), advice: instead}
	}
	return look{kind: key, advice: inside(key)}
}

// typeOf is the text of the member "type"; empty: it is none.
func typeOf(top map[string]member) (kind string) {
	_ = json.Unmarshal(top["type"].value, &kind) // of another type it is none
	return kind
}

func onlyKey(top map[string]member) (key string) {
	for key = range top {
	}
	return key
}

func has(top map[string]member, key string) bool {
	_, ok := top[key]
	return ok
}

func inside(kind string) string {
	return fmt.Sprintf(`put it into {"challenge": {"type": %q, %q: {...}}}`, cut(kind), cut(kind))
}

// isShaped reports whether a value has the shape of a challenge: a type, and an object
// named after it or another key of every challenge.
func isShaped(value json.RawMessage) bool {
	if !isObject(value) {
		return false
	}
	top, err := members(value)
	if err != nil {
		return false
	}
	required := string(top["required"].value)
	demands := required == "true" || required == "false" || has(top, "approval_mode") // that of a JSON Schema is a list
	var kind string
	if json.Unmarshal(top["type"].value, &kind) != nil || kind == "" {
		return demands && slices.ContainsFunc(slices.Collect(maps.Values(top)), func(m member) bool { return isObject(m.value) })
	}
	return demands || isObject(top[kind].value)
}

// isContract reports whether the value of "contract" is a challenge.
func isContract(value json.RawMessage) bool {
	top, err := members(value)
	return err == nil && (isShaped(value) || isLegacy(top))
}

// isLegacy reports whether an object has the form of legacyChallenge.
func isLegacy(top map[string]member) bool {
	for key := range top {
		if key != "cmd" && key != "timeout_seconds" && key != "required" {
			return false
		}
	}
	return has(top, "cmd")
}

// CheckLookalikes reports the blocks of steps without a challenge that would be one if
// they were put into {"challenge": ...}, given the types of challenges that are known.
func CheckLookalikes(steps []Step, types []string) (found []Diagnostic) {
	for _, s := range steps {
		if s.Challenge == nil && s.Lookalike != nil && slices.Contains(types, s.Lookalike.Type) && len(found) < maxFindings {
			found = append(found, tolerated(s.Lookalike.Place, s.Label, notOne+s.Lookalike.Advice))
		}
	}
	return found
}

// notOne begins the messages about blocks that may be meant as a challenge.
const notOne = "this looks like a challenge and is text: "

// tolerated is an error that only lint makes of it.
func tolerated(at Place, step, message string) Diagnostic {
	d := finding(driver.SeverityWarning, at, step, message)
	d.Tolerated = true
	return d
}
