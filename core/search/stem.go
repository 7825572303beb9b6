package search

import (
	"runtime"
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/german"
)

// term is the form of a word that the index holds. The language of a word is
// unknown, of a query's word above all, so every word goes through the English
// rules and then through the German ones: what one language has done, the
// other finds done, and both forms of a word come out the same. That makes
// some words the same that are not (time and timer); scoring looks at the
// words themselves and counts those a little less.
func term(word string) string {
	if len(word) < 3 || !ascii(word) {
		return word
	}
	for _, suffix := range germanNouns {
		if cut, ok := strings.CutSuffix(word, suffix); ok && len(cut) >= 4 {
			word = cut
			break
		}
	}
	return germanStem(englishStem(word))
}

// germanNouns are endings that the German rules leave on words they shorten
// otherwise: Prüfung and prüfen, Installation and installieren.
var germanNouns = []string{"ierungen", "ierung", "ierten", "ieren", "ierte", "iert", "ungen", "ung"}

func englishStem(word string) string {
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}

func germanStem(word string) string {
	env := snowballstem.NewEnv(word)
	german.Stem(env)
	return env.Current()
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// root is a word without the endings of Polish, which has more of them than a
// stemmer for other languages takes off. At least four letters stay. Nothing
// is indexed by roots: they begin all forms of a word.
func root(word string) string {
	if !ascii(word) {
		return word
	}
	for _, suffix := range polishEndings {
		if cut, ok := strings.CutSuffix(word, suffix); ok && len(cut) >= 4 {
			return cut
		}
	}
	return word
}

// polishEndings, longest first, without diacritics.
var polishEndings = strings.Fields(`iami iach iego iemu owie
	ami ach ego emu ymi imi iem iej
	ow om em ie ia iu ej ich ych im ym
	a e i o u y`)

// stemmer remembers the terms of words. It belongs to one goroutine at a time.
type stemmer struct{ known map[string]stemmed }

type stemmed struct{ word, term string }

// stemmers are shared: most words of a text have been seen before. They outlive
// garbage collections, unlike what is in a sync.Pool: a library is read in
// while there are many.
var stemmers = stemmerList{idle: make(chan *stemmer, runtime.GOMAXPROCS(0))}

type stemmerList struct{ idle chan *stemmer }

func (l stemmerList) get() *stemmer {
	select {
	case s := <-l.idle:
		return s
	default:
		return &stemmer{known: make(map[string]stemmed, 1024)}
	}
}

func (l stemmerList) put(s *stemmer) {
	select {
	case l.idle <- s:
	default:
	}
}

// rememberedWords bounds the memory of a stemmer to about 4 MB.
const rememberedWords = 32 << 10

func (s *stemmer) term(word string) string {
	if known, ok := s.known[word]; ok {
		return known.term
	}
	return s.learn(strings.Clone(word)).term
}

// word returns the word as a string, and its term.
func (s *stemmer) word(b []byte) (word, term string) {
	known, ok := s.known[string(b)]
	if !ok {
		known = s.learn(string(b))
	}
	return known.word, known.term
}

func (s *stemmer) learn(word string) stemmed {
	if len(s.known) >= rememberedWords {
		clear(s.known)
	}
	known := stemmed{word, term(word)}
	s.known[word] = known
	return known
}
