package search

import (
	"runtime"
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/german"
)

// term is the form of a word in the index. The language of a word, especially in a
// query, is unknown, so every word passes the English rules and then the German
// ones, and different forms of a word get the same term. Some different words get
// the same term, too (time and timer); scoring compares the words themselves and
// gives those a little less.
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

// beginningOf is what all words with the term begin with. The rules replace at most the
// last letter of what they leave, except in dying, lying and tying.
func beginningOf(term string) string {
	if term == "die" || term == "lie" || term == "tie" {
		return term[:1]
	}
	return term[:max(1, min(len(term)-1, 3))]
}

// germanNouns are endings that the German rules keep although they shorten related
// words: Prüfung and prüfen, Installation and installieren.
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

// root is a word without Polish endings, of which there are more than other
// stemmers remove. At least four letters stay. Roots are not indexed: they are
// prefixes of all forms of a word.
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

// stemmer caches the terms of words. It belongs to one goroutine at a time.
type stemmer struct{ known map[string]stemmed }

type stemmed struct{ word, term string }

// stemmers are shared, because most words of a text were seen before. Unlike a
// sync.Pool they survive garbage collections, of which there are many while a
// library is loaded.
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

// rememberedWords bounds the cache of a stemmer to about 4 MB.
const rememberedWords = 32 << 10

func (s *stemmer) term(word string) string {
	if known, ok := s.known[word]; ok {
		return known.term
	}
	return s.learn(strings.Clone(word)).term
}

func (s *stemmer) learn(word string) stemmed {
	if len(s.known) >= rememberedWords {
		clear(s.known)
	}
	known := stemmed{word, term(word)}
	s.known[word] = known
	return known
}
