package search

import (
	"math"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// Outline is what an Index keeps of a protocol: its names, its words, and what its
// parts mean. It is read-only.
type Outline struct {
	Space   string
	ChainID string
	Head

	names   []name
	words   []outlined // sorted by text
	vectors []int8     // of the parts, one after the other
	width   int        // of a vector
}

// Head is what a list of protocols shows of one.
type Head struct {
	Title string
	Line  string // the first line of the description, shortened
	UUID  string // of the first step
}

// outlined is a distinct word of a protocol.
type outlined struct {
	text   string
	weight uint8   // how much the protocol is about it, at most maxWeight
	names  []uint8 // the names that have it
	told   bool    // a name, the description or a label has it
}

// maxLine is the length of Head.Line in bytes.
const maxLine = 160

// OutlineOf makes the outline of a protocol. Without a table it has no meaning.
func OutlineOf(space string, c protocol.Chain, table *meaning.Table) Outline {
	a := Analyse(c)
	o := Outline{Space: space, ChainID: c.ID, Head: Head{Title: c.Title, Line: firstLine(c.Description)}, names: a.names}
	if len(c.Steps) > 0 {
		o.UUID = c.Steps[0].UUID
	}
	o.words = make([]outlined, len(a.entries))
	for i, e := range a.entries {
		w := outlined{text: e.text, weight: weightOf(e)}
		for _, p := range e.places {
			w.told = w.told || p.field().names() || p.field() == fieldDescription || p.field() == fieldLabel
			if p.field().names() {
				w.names = append(w.names, uint8(min(p.name(), math.MaxUint8))) //nolint:gosec // at most 255
			}
		}
		o.words[i] = w
	}
	if table != nil {
		return o.With(table.Dimensions(), partsOf(table, c))
	}
	return o
}

// With returns the outline with other vectors, all of one length, of its parts.
func (o Outline) With(width int, parts [][]float32) Outline {
	o.width, o.vectors = width, make([]int8, 0, width*len(parts))
	for _, p := range parts {
		if v := unit(p); len(v) == width {
			o.vectors = append(o.vectors, v...)
		}
	}
	return o
}

// unit is the direction of a vector, with 127 for 1; nil if it has none.
func unit(v []float32) []int8 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil
	}
	scale, out := 127/math.Sqrt(sum), make([]int8, len(v))
	for i, x := range v {
		out[i] = int8(math.Round(float64(x) * scale))
	}
	return out
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.Join(strings.Fields(line), " ")
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
		if at := strings.LastIndexByte(line, ' '); at > 0 {
			line = line[:at]
		}
		line += "…"
	}
	return strings.Clone(line)
}

// aboutness is how much a word of a field counts. A description counts nearly as much
// as a title.
var aboutness = [fields]float64{
	fieldTitle: 3, fieldAltTitle: 3, fieldSlug: 3, fieldTrigger: 3, fieldDescription: 2, fieldLabel: 1.5, fieldTags: 1.5, fieldChainTags: 1.5, fieldText: 1,
}

const (
	maxWeight  = 63
	saturation = 1.0 // the sum of aboutness that counts half
)

// weightOf is a number that grows with the number of places of a word, ever slower, as
// in BM25.
func weightOf(e entry) uint8 {
	sum := 0.0
	for _, p := range e.places {
		sum += aboutness[p.field()]
	}
	return uint8(math.Round(maxWeight * sum / (sum + saturation)))
}

// partsOf are the vectors of what is compared with a request: the protocol, and each of
// its other names. That of the protocol is between those of its title, of the title with
// the description, and of all its texts.
func partsOf(table *meaning.Table, c protocol.Chain) [][]float32 {
	title := vectorOf(table, c.Title)
	described := added(vectorOf(table, c.Description), title)
	whole := slices.Clone(described)
	for _, s := range c.Steps[:min(len(c.Steps), maxMeantSteps)] {
		whole = added(whole, vectorOf(table, s.Text))
	}
	parts := [][]float32{added(added(directionOf(title), directionOf(described)), directionOf(whole))}
	for _, name := range append([]string{c.AltTitle}, c.Triggers[:min(len(c.Triggers), protocol.MaxTriggers)]...) {
		if name != "" {
			parts = append(parts, vectorOf(table, name))
		}
	}
	return parts
}

// The limits of what counts for the meaning of a protocol.
const (
	maxMeantSteps = 64
	maxMeant      = 4 << 10 // bytes of a text
)

// added adds v to sum.
func added(sum, v []float32) []float32 {
	for i, x := range v {
		sum[i] += x
	}
	return sum
}

// directionOf is the vector with length 1, or as it is if it has none.
func directionOf(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	out := slices.Clone(v)
	if sum > 0 {
		for i := range out {
			out[i] /= float32(math.Sqrt(sum))
		}
	}
	return out
}

// vectorOf is the sum of the vectors of the words of a text.
func vectorOf(table *meaning.Table, text string) []float32 {
	sum := make([]float32, table.Dimensions())
	s := splitter{found: func(word []byte, primary bool) {
		if !primary || common[string(word)] {
			return
		}
		if row, ok := table.Row(string(word)); ok {
			table.Add(sum, row, 1)
		}
	}}
	s.read(text[:min(len(text), maxMeant)])
	return sum
}
