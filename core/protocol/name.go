package protocol

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// maxName is how many characters the name of a step has at most.
const maxName = 64

// nameForm is the form of a name: letters of every language in lower case, digits
// and _. It does not begin with a digit.
const nameForm = `[\p{Ll}\p{Lo}\p{Lm}_][\p{Ll}\p{Lo}\p{Lm}\p{M}\p{Nd}_]*`

const nameRule = "lower-case letters of any language, digits and _, not starting with a digit"

var namePattern = regexp.MustCompile(`^` + nameForm + `$`)

// latin are the letters of Latin script that are customarily written with others
// where only a to z are at hand, as in passports (ICAO Doc 9303). All other
// letters of that script lose their marks.
var latin = map[rune]string{
	'ä': "ae", 'ö': "oe", 'ü': "ue", 'ß': "ss", 'æ': "ae", 'ø': "oe", 'å': "aa", 'œ': "oe", 'þ': "th", 'ð': "d", 'đ': "d",
	'ł': "l", 'ħ': "h", 'ı': "i", 'ĳ': "ij", 'ŋ': "n", 'ŧ': "t", 'ſ': "s", 'ə': "e", 'ĸ': "q",
}

// Slug returns the name that a label gives a step: letters, digits and _, not
// starting with a digit, at most 64 characters; empty if the label has no letters
// and digits. Latin letters become a to z, other scripts stay.
func Slug(label string) string {
	var b strings.Builder
	gap := false
	for _, r := range transliterated(label) {
		if plain.Hidden(r) && !unicode.IsSpace(r) {
			continue // a reader sees one word
		}
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.Is(unicode.Nd, r) {
			gap = true
			continue
		}
		if b.Len() == 0 && !unicode.IsLetter(r) {
			if unicode.IsMark(r) {
				continue
			}
			b.WriteByte('_')
		} else if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(r)
	}
	return strings.TrimRight(firstRunes(b.String(), maxName), "_")
}

// Hyphenated is a name for a menu or a file, of at most so many bytes: like Slug,
// with hyphens, and cut between words if that is possible. It may be empty.
func Hyphenated(text string, most int) string {
	name := strings.Trim(strings.ReplaceAll(Slug(text), "_", "-"), "-")
	if len(name) <= most {
		return name
	}
	name = beginning(name, most)
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	return strings.TrimRight(name, "-")
}

// sameName is a form that is equal for two ways to write one name: größe and
// groesse, composed or not.
func sameName(name string) string { return transliterated(name) }

// transliterated is the text in lower case with a to z for the letters of Latin
// script, and otherwise in its composed form.
func transliterated(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	afterLatin := false
	for _, r := range norm.NFC.String(strings.ToLower(norm.NFKC.String(s))) {
		switch letters, listed := latin[r]; {
		case listed:
			b.WriteString(letters)
		case unicode.IsMark(r) && afterLatin: // no composed form
			continue
		case r < utf8.RuneSelf || !unicode.Is(unicode.Latin, r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Map(withoutMark, norm.NFKD.String(string(r))))
		}
		afterLatin = unicode.Is(unicode.Latin, r)
	}
	return b.String()
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

func withoutMark(r rune) rune {
	if unicode.IsMark(r) {
		return -1
	}
	return r
}

// nameSteps names each step: by its challenge, else by the slug of its label, else
// by its position. Names of challenges take precedence, so that a label elsewhere
// never takes one. Two ways to write one name are one name.
func nameSteps(steps []Step) []Diagnostic {
	var found []Diagnostic
	taken := map[string]string{} // by sameName
	for i := range steps {
		name := ownName(steps[i])
		if name == "" {
			continue
		}
		if same := sameName(name); taken[same] != "" {
			found = append(found, steps[i].problem("/name", alreadyTaken(name, taken[same])))
		} else {
			taken[same] = name
		}
		steps[i].Name = name
	}
	next := map[string]int{}
	for i := range steps {
		if steps[i].Name != "" {
			continue
		}
		base := Slug(steps[i].Label)
		if base == "" {
			base = fmt.Sprintf("step_%d", i+1)
		}
		steps[i].Name = unique(base, taken, next)
		taken[sameName(steps[i].Name)] = steps[i].Name
	}
	return found
}

func alreadyTaken(name, other string) string {
	if name == other {
		return fmt.Sprintf("name %q is already the name of another step", name)
	}
	return fmt.Sprintf("name %q is the name %q of another step in other letters", name, other)
}

// unique is the base, or the base with the next free number, starting at 2.
func unique(base string, taken map[string]string, next map[string]int) string {
	if taken[sameName(base)] == "" {
		return base
	}
	for n := max(2, next[base]); ; n++ {
		if name := fmt.Sprintf("%s_%d", base, n); taken[sameName(name)] == "" {
			next[base] = n + 1
			return name
		}
	}
}

func ownName(s Step) string {
	c, err := CommonOf(s.Challenge)
	if err != nil || !namePattern.MatchString(c.Name) {
		return ""
	}
	return norm.NFC.String(c.Name)
}
