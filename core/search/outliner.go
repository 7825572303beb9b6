package search

import (
	"math"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// outliner collects the words of a protocol.
type outliner struct {
	*lexicon
	said  []namedBy
	split splitter
	here  place
}

// outlinedEntry is a distinct word of a protocol.
type outlinedEntry struct {
	number int32 // in the lexicon
	last   place
	about  float32
	told   bool
	times  [3]uint16 // in the title, the description, and the steps
}

// aboutness is how much a word of a field counts. A description counts like a second line
// of the title.
var aboutness = [fields]float32{
	fieldTitle: 3, fieldAltTitle: 3, fieldSlug: 3, fieldTrigger: 3, fieldDescription: 3, fieldLabel: 1.5, fieldTags: 1.5, fieldChainTags: 1.5, fieldText: 1,
}

const (
	maxWeight  = 63
	saturation = 1.0 // the sum of aboutness that counts half
)

// weight is a number that grows with the number of places of a word, ever slower, as
// in BM25.
func (e *outlinedEntry) weight() uint8 {
	return uint8(math.Round(float64(maxWeight * e.about / (e.about + saturation))))
}

func (w *outliner) name(o *Outline, f field, number int, text string) {
	o.names = append(o.names, nameOf(text))
	w.add(number, f, text)
}

// add adds the words of a text.
func (w *outliner) add(number int, f field, text string) {
	if text != "" {
		w.here = placeOf(number, f)
		w.split.read(text)
	}
}

// found adds a word. Stop words count only in names and labels, where they may be
// all there is.
func (w *outliner) found(word []byte, primary bool) {
	f, number := w.here.field(), w.number(word)
	l := &w.words[number]
	if l.common && f >= fieldTags {
		return
	}
	if l.entry == 0 {
		if len(w.entries) == maxEntries {
			return
		}
		w.entries = append(w.entries, outlinedEntry{number: number, last: ^place(0)})
		l.entry = int32(len(w.entries)) //nolint:gosec // at most maxEntries
	}
	e := &w.entries[l.entry-1]
	if primary {
		e.count(w.here)
	}
	if e.last == w.here {
		return
	}
	e.last = w.here
	e.about += aboutness[f]
	e.told = e.told || f.names() || f == fieldDescription || f == fieldLabel
	if f.names() {
		w.said = append(w.said, namedBy{l.entry - 1, uint8(min(w.here.name(), math.MaxUint8))}) //nolint:gosec // at most 255
	}
}

// count counts a word for what the parts mean.
func (e *outlinedEntry) count(at place) {
	part := 0
	switch f := at.field(); {
	case f == fieldDescription:
		part = 1
	case f == fieldText && at.step() < maxMeantSteps:
		part = 2
	case f != fieldTitle:
		return
	}
	if e.times[part] < math.MaxUint16 {
		e.times[part]++
	}
}

// maxMeantSteps limits the steps that count for the meaning of a protocol.
const maxMeantSteps = 64

func (w *outliner) outlined() []outlined {
	out := make([]outlined, len(w.entries))
	for i := range w.entries {
		e := &w.entries[i]
		l := &w.words[e.number]
		out[i] = outlined{text: l.text, row: l.row, weight: e.weight(), told: e.told}
	}
	return out
}

// parts are the vectors of what is compared with a request: the protocol, and each of
// its other names. That of the protocol is between those of its title, of the title with
// the description, and of all its texts.
func (w *outliner) parts(c protocol.Chain) [][]float32 {
	n := w.table.Dimensions()
	space := make([]float32, 3*n)
	sums := [3][]float32{space[:n], space[n : 2*n], space[2*n:]} // of the title, the description, and the steps
	for i := range w.entries {
		e := &w.entries[i]
		row := w.words[e.number].row
		for part, times := range e.times {
			if row >= 0 && times > 0 {
				w.table.Add(sums[part], int(row), float32(times))
			}
		}
	}
	title := sums[0]
	described := added(sums[1], title)
	whole := added(sums[2], described)
	parts := [][]float32{added(added(directionOf(title), directionOf(described)), directionOf(whole))}
	for _, name := range append([]string{c.AltTitle}, c.Triggers[:min(len(c.Triggers), protocol.MaxTriggers)]...) {
		if name != "" {
			parts = append(parts, vectorOf(w.table, name))
		}
	}
	return parts
}

// added adds v to sum.
func added(sum, v []float32) []float32 {
	for i, x := range v {
		sum[i] += x
	}
	return sum
}

// directionOf is a vector of length 1, or all zero.
func directionOf(v []float32) []float32 {
	sum, out := squares(v), make([]float32, len(v))
	if sum > 0 {
		scale := float32(1 / math.Sqrt(sum))
		for i, x := range v {
			out[i] = x * scale
		}
	}
	return out
}

// squares is the sum of the squares of the numbers of a vector.
func squares(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return sum
}

// maxMeant is how many bytes of a request count for its meaning.
const maxMeant = 4 << 10

// vectorOf is the sum of the vectors of the words of a text.
func vectorOf(table *meaning.Table, text string) []float32 {
	return Mean(table, text[:min(len(text), maxMeant)]).Vector
}
