package search

import (
	"runtime"

	"github.com/kairos-mcp/kairos/core/meaning"
)

// lexeme is what outlines need to know of a word.
type lexeme struct {
	text   string
	row    int32 // of the table, or unknown
	common bool  // a stop word
	entry  int32 // 1 + its index in entries; 0: the protocol lacks the word so far
}

// lexicon remembers words, because most of a text were seen before. It belongs to one
// goroutine at a time.
type lexicon struct {
	table   *meaning.Table // nil: no word has a row
	numbers map[string]int32
	words   []lexeme
	entries []outlinedEntry // of the protocol that is read
}

// lexicons survive garbage collections, of which there are many while a library is loaded.
var lexicons = make(chan *lexicon, runtime.GOMAXPROCS(0))

// lexiconOf returns an idle lexicon with the rows of a table. The caller passes it to
// release.
func lexiconOf(table *meaning.Table) *lexicon {
	select {
	case l := <-lexicons:
		if l.table == table && len(l.words) < rememberedWords {
			return l
		}
	default:
	}
	return &lexicon{table: table, numbers: make(map[string]int32, 1024)}
}

func (l *lexicon) release() {
	for i := range l.entries {
		l.words[l.entries[i].number].entry = 0
	}
	l.entries = l.entries[:0]
	select {
	case lexicons <- l:
	default:
	}
}

// number returns the number of a word in words.
func (l *lexicon) number(word []byte) int32 {
	if n, known := l.numbers[string(word)]; known {
		return n
	}
	w := lexeme{text: string(word), row: unknown}
	w.common = common[w.text]
	if l.table != nil && !w.common {
		if row, ok := l.table.Row(w.text); ok {
			w.row = int32(row) //nolint:gosec // a table has fewer rows
		}
	}
	n := int32(len(l.words)) //nolint:gosec // a document has fewer words
	l.words = append(l.words, w)
	l.numbers[w.text] = n
	return n
}
