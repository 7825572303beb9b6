package plain

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Visible returns what can be seen of s: without hidden characters, without
// U+FFFD, which takes the place of what is not a character at all, and without
// space around it. Line feeds and tabs inside stay.
func Visible(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r != unicode.ReplacementChar && !Hidden(r) {
			return r
		}
		return -1
	}, s))
}

// Empty reports whether there is nothing to see in s.
func Empty(s string) bool { return Visible(s) == "" }

// Normal returns s without what a reader cannot tell apart in it: hidden characters,
// compatible forms of one character, and the number and kind of blanks between words. Case
// and scripts stay. It is for comparing and never for showing.
func Normal(s string) string {
	return strings.Join(strings.Fields(norm.NFKC.String(Visible(norm.NFKC.String(s)))), " ")
}

// Length is how many characters of s a reader sees: hidden ones do not count, nor more
// than one of the blanks between words, nor more than one mark on a letter.
func Length(s string) int {
	n, bare := 0, false // bare: the last character was a letter without a mark
	for _, r := range norm.NFC.String(strings.Join(strings.Fields(Visible(s)), " ")) {
		isMark := unicode.IsMark(r)
		if !isMark || bare {
			n++
		}
		bare = !isMark && unicode.IsLetter(r)
	}
	return n
}

// Rejected reports whether s is the word "rejected", however it is written: in
// any case, in quotation marks or with a full stop, in full-width letters, with
// hidden characters in it, or with letters that only look like these.
func Rejected(s string) bool { return Word(s) == "rejected" }

// Approved reports whether s is the word "approved", as Rejected does.
func Approved(s string) bool { return Word(s) == "approved" }

// Word returns the skeleton without what stands around its letters, to compare a
// short answer with the Word of what is expected.
func Word(s string) string {
	return strings.TrimFunc(Skeleton(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// Skeleton returns a form that is equal for texts that look alike to a reader of
// Latin letters: without hidden characters, in lower case, with compatible
// characters as one, and with the Latin letter for letters of other scripts that
// look like it. It is for comparing and never for showing. It is the part of the
// skeleton of UTS 39 that leads to ASCII letters; pairs within ASCII, such as rn
// and m, stay apart.
func Skeleton(s string) string {
	return strings.Map(func(r rune) rune {
		if Hidden(r) && r != '\n' && r != '\t' {
			return -1
		}
		for _, form := range []rune{r, unicode.ToUpper(r), unicode.ToLower(r)} {
			if latin, alike := lookAlikes[form]; alike {
				return unicode.ToLower(latin)
			}
		}
		return unicode.ToLower(r)
	}, norm.NFKC.String(s))
}

// lookAlikes are letters by the Latin letter that they look like.
var lookAlikes = func() map[rune]rune {
	out := make(map[rune]rune)
	for latin, others := range alphabet {
		for _, r := range others {
			out[r] = latin
		}
	}
	return out
}()

// alphabet holds the letters of Latin, Greek, Cyrillic, Armenian, Cherokee,
// Coptic and Lisu whose prototype is one ASCII letter in confusables.txt of
// Unicode 16 (https://www.unicode.org/Public/security/, Unicode License v3).
// Those of compatible characters are missing, because NFKC maps them. Capital
// iotas stand at I, where the file has l.
var alphabet = map[rune]string{
	'A': "ΑАᎪꓮ",
	'B': "ΒВᏴⲂꓐꞴ",
	'C': "СᏟⲤꓚ",
	'D': "Ꭰꓓ",
	'E': "ΕЕᎬꓰ",
	'F': "ϜꓝꞘ",
	'G': "ԌᏀᏳꓖ",
	'H': "ΗНᎻⲎꓧ",
	'I': "ΙІⲒ",
	'J': "ͿЈᎫꓙꞲ",
	'K': "ΚКᏦⲔꓗ",
	'L': "ᏞⳐꓡ",
	'M': "ΜϺМᎷⲘꓟ",
	'N': "ΝⲚꓠ",
	'O': "ΟОՕⲞꓳ",
	'P': "ΡРᏢⲢⳎꓑ",
	'R': "ƦᎡᏒꓣ",
	'S': "ЅՏᏕᏚꓢ",
	'T': "ΤТᎢⲦꓔ",
	'U': "Սꓴ",
	'V': "ѴᏙꓦ",
	'W': "ԜᎳᏔꓪ",
	'X': "ΧХⲬꓫꞳ",
	'Y': "ΥУҮᎩᎽⲨꓬ",
	'Z': "ΖᏃꓜ",
	'a': "ɑαа",
	'b': "ƄЬᏏ",
	'c': "сᴄⲥꮯ",
	'd': "ԁᏧꓒ",
	'e': "еҽꬲ",
	'f': "ƒքẝꞙꬵ",
	'g': "ƍɡցᶃ",
	'h': "һհᏂ",
	'i': "ıɩɪιіւᎥⲓꙇꭵ",
	'j': "ϳј",
	'l': "ƖǀӀӏꓲ",
	'n': "ոռ",
	'o': "οσϭоօᴏᴑⲟꬽ",
	'p': "þƿρϸрⲣⳏ",
	'q': "ԛգզ",
	'r': "гᴦⲅꭇꭈꮁ",
	's': "ƽѕꜱꮪ",
	'u': "ʋυսᴜꞟꭎꭒ",
	'v': "νѵᴠꮩ",
	'w': "ɯшѡԝաᴡⲽꮃ",
	'x': "х",
	'y': "ɣʏγуүᶌỿⲩꭚ",
	'z': "ᴢꮓ",
}
