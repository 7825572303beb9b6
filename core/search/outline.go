package search

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Outline is what an Index keeps of a protocol: its names, its words, and what its
// parts mean. It is read-only.
type Outline struct {
	Space   string
	ChainID string
	Head

	names   []name
	words   []outlined
	said    []namedBy
	vectors []int8 // of the parts, one after the other
	width   int    // of a vector
}

// Head is what a list of protocols shows of one.
type Head struct {
	Title  string
	Line   string // the first line of the summary, else of the description, shortened
	UUID   string // of the first step
	Label  string // of the first step
	Inputs json.RawMessage
}

// outlined is a distinct word of a protocol.
type outlined struct {
	text   string
	row    int32 // of the table, or unknown
	weight uint8 // how much the protocol is about it, at most maxWeight
	told   bool  // a name, the description or a label has it
}

// namedBy is a word of a name.
type namedBy struct {
	word int32 // in Outline.words
	name uint8
}

// maxLine is the length of Head.Line in bytes.
const maxLine = 60

// OutlineOf makes the outline of a protocol. Without a table it has no meaning.
func OutlineOf(space string, c protocol.Chain, table *meaning.Table) Outline {
	o := Outline{Space: space, ChainID: c.ID, Head: Head{Title: strings.Clone(c.Title), Line: firstLine(cmp.Or(c.Summary, c.Description)), Inputs: c.Inputs}}
	if len(c.Steps) > 0 {
		o.UUID, o.Label = c.Steps[0].UUID, strings.Clone(c.Steps[0].Label)
	}
	w := outliner{lexicon: lexiconOf(table)}
	defer w.release()
	w.split.found = w.found
	w.name(&o, fieldTitle, 0, c.Title)
	w.name(&o, fieldAltTitle, 0, c.AltTitle)
	w.name(&o, fieldSlug, 0, c.Slug)
	for i, text := range c.Triggers[:min(len(c.Triggers), protocol.MaxTriggers)] {
		w.name(&o, fieldTrigger, i, text)
	}
	w.add(0, fieldChainTags, strings.Join(c.Tags, " "))
	// Labels before texts: beyond the limit it is text that is left out.
	for i, s := range c.Steps {
		w.add(i, fieldLabel, s.Label)
		w.add(i, fieldTags, strings.Join(s.Tags, " "))
	}
	w.add(0, fieldDescription, c.Summary)
	w.add(0, fieldDescription, c.Description)
	for i, s := range c.Steps {
		w.add(i, fieldText, s.Text)
	}
	o.words, o.said = w.outlined(), w.said
	if table != nil {
		o = o.With(table.Dimensions(), w.parts(c))
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
	sum := squares(v)
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
	if line = strings.Join(strings.Fields(line), " "); len(line) > maxLine {
		line = plain.Clip(line, maxLine-1)
	}
	return strings.Clone(line)
}
