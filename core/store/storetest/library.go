package storetest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// librarySpace is the space of the chains of a Library.
const librarySpace = mine

// The shape of a Library: words follow Zipf's law, like natural language.
const (
	libraryWords = 30_000
	librarySkew  = 1.07
	librarySteps = 5
	libraryFill  = 0.35 // share of stop words

	// queriedChains is how many of the first chains Queries asks for.
	queriedChains = 1000
)

// Library yields n protocols of five steps with 40 to 120 words each, like those
// of a large organisation: titles of three to seven words, some words in a third
// of all protocols and most in few. The same seed yields the same protocols, and a
// larger library begins with the smaller one.
func Library(n int, seed uint64) iter.Seq[protocol.Chain] {
	return func(yield func(protocol.Chain) bool) {
		titles := make(map[string]bool, n)
		for i := range n {
			if !yield(libraryChain(seed, i, titles)) {
				return
			}
		}
	}
}

func libraryChain(seed uint64, number int, titles map[string]bool) protocol.Chain {
	w := newWriter(seed, uint64(number))
	title := w.title(3 + w.IntN(5))
	if titles[title] {
		title += fmt.Sprintf(" %d", number)
	}
	titles[title] = true
	c := protocol.Chain{
		ID: protocol.ChainID(title), Space: librarySpace, Title: title, Description: w.text(20),
		ModelID: "library", CreatedAt: epoch, UpdatedAt: epoch,
	}
	for i := range librarySteps {
		label := w.title(2 + w.IntN(3))
		s := protocol.Step{
			UUID: w.uuid(), Label: label, Name: fmt.Sprintf("step_%d", i+1),
			Text: "## " + label + "\n\n" + w.text(40+w.IntN(81)) + "\n",
		}
		s.Tags = protocol.Tags(s)
		c.Steps = append(c.Steps, s)
	}
	return c
}

// LibraryQuery is a realistic query to a Library.
type LibraryQuery struct {
	Kind string // title, words, common, prefix, form, typo, unknown
	Text string
	// Title of the expected chain, or empty.
	Title string
}

// Queries yields endless queries for a Library of the seed with at least a
// thousand protocols: common kinds often, hard ones rarely.
func Queries(seed uint64) iter.Seq[LibraryQuery] {
	kinds := strings.Fields("title words words words common prefix form form typo unknown")
	return func(yield func(LibraryQuery) bool) {
		r := rand.New(rand.NewPCG(seed, ^seed))
		for i := 0; ; i++ {
			c := libraryChain(seed, r.IntN(queriedChains), map[string]bool{})
			if !yield(queryFor(r, kinds[i%len(kinds)], c)) {
				return
			}
		}
	}
}

func queryFor(r *rand.Rand, kind string, c protocol.Chain) LibraryQuery {
	q := LibraryQuery{Kind: kind, Text: c.Title, Title: c.Title}
	title := strings.Fields(c.Title)
	switch kind {
	case "words": // some of the title, and one of a step
		text := strings.Fields(c.Steps[r.IntN(len(c.Steps))].Text)
		q.Text = strings.Join(title[:2], " ") + " " + text[r.IntN(len(text))]
	case "common":
		q.Text, q.Title = libraryWord(r.IntN(20))+" "+libraryWord(r.IntN(20)), ""
	case "prefix":
		last := title[len(title)-1]
		title[len(title)-1] = last[:max(3, len(last)-2)]
		q.Text = strings.Join(title[1:], " ")
	case "form":
		for i := range title {
			title[i] += "s"
		}
		q.Text = "how to " + strings.Join(title, " ")
	case "typo":
		at := r.IntN(len(title))
		title[at] = mistype(r, title[at])
		q.Text = strings.Join(title, " ")
	case "unknown":
		q.Text, q.Title = fmt.Sprintf("xq%dzv wq%dxk", r.IntN(1000), r.IntN(1000)), ""
	}
	return q
}

// mistype swaps two letters inside a word.
func mistype(r *rand.Rand, word string) string {
	if len(word) < 4 {
		return word
	}
	b := []byte(word)
	at := 1 + r.IntN(len(b)-2)
	b[at], b[at+1] = b[at+1], b[at]
	return string(b)
}

// writer generates texts.
type writer struct {
	*rand.Rand
	zipf *rand.Zipf
}

func newWriter(seed, number uint64) writer {
	r := rand.New(rand.NewPCG(seed, number))
	return writer{Rand: r, zipf: rand.NewZipf(r, librarySkew, 8, libraryWords-1)}
}

func (w writer) word() string { return libraryWord(int(w.zipf.Uint64())) }

func (w writer) title(words int) string {
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.word())
	}
	return strings.ToUpper(b.String()[:1]) + b.String()[1:]
}

// filling are stop words.
var filling = strings.Fields("the to of and a in is for it with on that this when then not be are from by or as if you all")

func (w writer) text(words int) string {
	var b strings.Builder
	for i := range words {
		switch {
		case i%12 == 11:
			b.WriteString(".\n")
		case i > 0:
			b.WriteByte(' ')
		}
		if w.Float64() < libraryFill {
			b.WriteString(filling[w.IntN(len(filling))])
			continue
		}
		b.WriteString(w.word())
		if form := w.IntN(10); form < 3 {
			b.WriteString([]string{"s", "ing", "ed"}[form])
		}
	}
	return b.String()
}

func (w writer) uuid() string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(w.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

// libraryWord is the word of a rank: pronounceable, and shorter the more common it
// is.
func libraryWord(rank int) string {
	const onsets, vowels = "bdfgklmnprstvz", "aeiou"
	n := rank + 1
	var b strings.Builder
	for n > 0 || b.Len() < 4 {
		b.WriteByte(onsets[n%len(onsets)])
		n /= len(onsets)
		b.WriteByte(vowels[n%len(vowels)])
		n /= len(vowels)
	}
	b.WriteByte("rtnlkm"[rank%6])
	return b.String()
}
