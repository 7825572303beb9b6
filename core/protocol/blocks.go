package protocol

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// outline is the block structure of a Markdown document that the parser needs: its
// headings and code blocks. All positions are byte offsets into src.
type outline struct {
	src      string
	raw      []byte // src, as goldmark wants it
	newlines []int  // offsets of the line ends
	headings []heading
	fences   []fence
	html     []span
	excess   string // the limit that the document exceeds; empty: none
}

// span is a range of whole lines.
type span struct{ start, end int }

func (s span) contains(pos int) bool { return s.start <= pos && pos < s.end }

// heading is a heading of the document itself, not of a list or a quote in it.
type heading struct {
	span
	level      int
	text       string
	underlined bool // written with a line of = or - below
}

// isStep reports whether the heading begins a step.
func (h heading) isStep() bool { return h.level == 2 && h.text != "" }

// fence is a fenced code block at any depth.
type fence struct {
	span
	language string
	content  string
	// lines holds the offset in the document of each line of the content.
	lines  []int
	closed bool
	// alone reports that only blanks precede the opening fence on its line.
	alone bool
}

// outlineOf parses the block structure according to CommonMark. Inline structure
// is not needed, so no inline parser runs. Parsing stops at a limit, which excess
// names.
func outlineOf(src string) outline {
	o := outline{src: src, raw: []byte(src)}
	lines := strings.Count(src, "\n")
	if lines > maxLines {
		o.excess = tooManyLines(lines)
		return o
	}
	o.newlines = make([]int, 0, lines)
	for i := range len(src) {
		if src[i] == '\n' {
			o.newlines = append(o.newlines, i)
		}
	}
	pc := parser.NewContext()
	s := &scan{Reader: text.NewReader(o.raw), outline: &o, open: pc}
	p := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))
	s.root = p.Parse(s, parser.WithContext(pc))
	s.take(true)
	o.reopen()
	return o
}

// scan is the reader of a document that removes blocks from goldmark's tree as
// soon as they are closed: the tree stays small however long the document is, and
// a document that exceeds a limit ends there.
type scan struct {
	text.Reader
	outline *outline
	open    parser.Context
	root    ast.Node // nil until the first block is open
	blocks  int
	nested  int // open blocks beyond freeNesting, summed over the lines
	steps   int
	titles  int // H1s
}

// AdvanceLine is called by the parser after each line.
func (s *scan) AdvanceLine() {
	s.Reader.AdvanceLine()
	s.take(len(s.open.OpenedBlocks()) == 0)
	if s.nested += max(0, len(s.open.OpenedBlocks())-freeNesting); s.nested > maxNested {
		s.outline.excess = "too many lines of the document are deep in lists and quotes"
	}
	if s.outline.excess != "" {
		line, _ := s.Position()
		s.SetPosition(line, text.NewSegment(len(s.outline.src), len(s.outline.src)))
	}
}

// SkipBlankLines is called by the parser where no block is open.
func (s *scan) SkipBlankLines() (text.Segment, int, bool) {
	at, lines, more := s.Reader.SkipBlankLines()
	if !more {
		s.take(true)
	}
	return at, lines, more
}

// take moves closed blocks from the tree to the outline: every block has at
// most its last child open, and none if all are closed. An open block must stay: an
// underlined heading takes its text from the paragraph before it when it is closed.
func (s *scan) take(all bool) {
	if open := s.open.OpenedBlocks(); s.root == nil && len(open) > 0 {
		s.root = open[0].Node.Parent()
	}
	for n := s.root; n != nil; n = n.LastChild() {
		for c := n.FirstChild(); c != nil && (all || c != n.LastChild()); c = n.FirstChild() {
			s.collect(c, n == s.root)
			n.RemoveChild(n, c)
		}
	}
}

// collect adds a block and its children to the outline.
func (s *scan) collect(n ast.Node, top bool) {
	o := s.outline
	if s.blocks++; s.blocks > maxBlocks {
		o.excess = fmt.Sprintf("the document has too many headings, paragraphs, list items and other blocks; at most %d are allowed", maxBlocks)
	}
	switch n := n.(type) {
	case *ast.Heading:
		if top {
			s.heading(o.heading(n))
		}
	case *ast.FencedCodeBlock:
		o.fences = append(o.fences, o.fence(n))
	case *ast.HTMLBlock:
		o.html = append(o.html, o.htmlBlock(n))
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		s.collect(c, false)
	}
}

func (s *scan) heading(h heading) {
	o := s.outline
	o.headings = append(o.headings, h)
	if h.isStep() {
		s.steps++
	}
	if h.level == 1 {
		s.titles++
	}
	switch {
	case s.titles > maxChains:
		o.excess = fmt.Sprintf("the document has too many protocols (H1); at most %d are allowed", maxChains)
	case s.steps > maxSteps:
		o.excess = fmt.Sprintf("the document has too many steps; at most %d are allowed", maxSteps)
	case len(o.headings)-s.steps > maxHeadings:
		o.excess = fmt.Sprintf("the document has too many headings that begin no step; at most %d are allowed", maxHeadings)
	}
}

// reopen corrects blocks that end with their list, where the next line looks like
// their closing fence but opens the next block.
func (o outline) reopen() {
	for i := range o.fences {
		f := &o.fences[i]
		if i+1 < len(o.fences) && f.closed && o.fences[i+1].start < f.end {
			f.end, f.closed = o.fences[i+1].start, false
		}
	}
}

func (o outline) heading(n *ast.Heading) heading {
	start := o.lineStart(n.Pos())
	h := heading{span: span{start, o.lineEnd(start)}, level: n.Level}
	line := strings.TrimSpace(o.src[h.start:h.end])
	if rest, ok := atxContent(line, n.Level); ok {
		h.text = orNothing(trimClosing(rest))
		return h
	}
	var words []string
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		words = append(words, strings.TrimSpace(string(seg.Value(o.raw))))
		h.end = o.lineEnd(o.lineStart(seg.Start))
	}
	h.end = o.lineEnd(h.end) // the underline
	h.underlined = true
	h.text = orNothing(trimClosing(strings.Join(words, " ")))
	return h
}

func atxContent(line string, level int) (string, bool) {
	rest, ok := strings.CutPrefix(line, strings.Repeat("#", level))
	if !ok || (rest != "" && rest[0] != ' ' && rest[0] != '\t') {
		return "", false
	}
	return rest, true
}

// trimClosing removes closing sequences of # until none is left, so that the text
// stays the same when it is written as an ATX heading and parsed again.
func trimClosing(s string) string {
	for {
		s = strings.TrimSpace(s)
		cut := strings.TrimRight(s, "#")
		if cut == s || (cut != "" && !strings.HasSuffix(cut, " ") && !strings.HasSuffix(cut, "\t")) {
			return s
		}
		s = cut
	}
}

func (o outline) fence(n *ast.FencedCodeBlock) fence {
	start := o.lineStart(n.Pos())
	f := fence{span: span{start, o.lineEnd(start)}, language: string(n.Language(o.raw))}
	open := o.src[start:f.end]
	bare := strings.TrimLeft(open, " \t")
	f.alone = strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~")
	var content strings.Builder
	if lines := n.Lines(); lines.Len() > 0 {
		f.lines = make([]int, 0, lines.Len())
		content.Grow(lines.At(lines.Len()-1).Stop - lines.At(0).Start)
	}
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		content.Write(seg.Value(o.raw))
		f.lines = append(f.lines, seg.Start)
		f.end = o.lineEnd(o.lineStart(seg.Start))
	}
	f.content = content.String()
	end := o.lineEnd(f.end)
	if f.end < len(o.src) && closesFence(o.src[f.end:end], open) {
		f.end, f.closed = end, true
	}
	return f
}

// closesFence reports whether line ends the code block that open began.
func closesFence(line, open string) bool {
	char := "`"
	if i := strings.IndexAny(open, "`~"); i >= 0 {
		open = open[i:]
		char = open[:1]
	}
	want := len(open) - len(strings.TrimLeft(open, char))
	line = strings.TrimLeft(line, " \t>")
	bar := len(line) - len(strings.TrimLeft(line, char))
	return bar >= want && strings.TrimSpace(line[bar:]) == ""
}

func (o outline) htmlBlock(n *ast.HTMLBlock) span {
	start := o.lineStart(n.Pos())
	s := span{start, o.lineEnd(start)}
	if k := n.Lines().Len(); k > 0 {
		s.end = o.lineEnd(o.lineStart(n.Lines().At(k - 1).Start))
	}
	if n.HasClosure() {
		s.end = o.lineEnd(o.lineStart(n.ClosureLine.Start))
	}
	return s
}

func (o outline) lineStart(pos int) int {
	line, _ := slices.BinarySearch(o.newlines, pos)
	if line == 0 {
		return 0
	}
	return o.newlines[line-1] + 1
}

// lineEnd is the offset after the line that begins at start, including its
// newline.
func (o outline) lineEnd(start int) int {
	line, _ := slices.BinarySearch(o.newlines, start)
	if line == len(o.newlines) {
		return len(o.src)
	}
	return o.newlines[line] + 1
}

// lineOf is the 1-based line of a position.
func (o outline) lineOf(pos int) int {
	line, _ := slices.BinarySearch(o.newlines, pos)
	return line + 1
}

// within returns the fences of a range, in order.
func (o outline) within(s span) []fence {
	before := func(f fence, pos int) int { return cmp.Compare(f.start, pos) }
	from, _ := slices.BinarySearchFunc(o.fences, s.start, before)
	to, _ := slices.BinarySearchFunc(o.fences, s.end, before)
	return o.fences[from:to]
}

// headingsIn returns the headings of a range, in order.
func (o outline) headingsIn(s span) []heading {
	before := func(h heading, pos int) int { return cmp.Compare(h.start, pos) }
	from, _ := slices.BinarySearchFunc(o.headings, s.start, before)
	to, _ := slices.BinarySearchFunc(o.headings, s.end, before)
	return o.headings[from:to]
}

// verbatim reports whether the position is in code or HTML, where nothing is markup.
func (o outline) verbatim(pos int) bool {
	fences := o.within(span{0, pos + 1})
	if n := len(fences); n > 0 && fences[n-1].contains(pos) {
		return true
	}
	i, exact := slices.BinarySearchFunc(o.html, pos, func(s span, pos int) int { return cmp.Compare(s.start, pos) })
	return exact || i > 0 && o.html[i-1].contains(pos)
}

func (o outline) lastFence(body span) (fence, bool) {
	all := o.within(body)
	if len(all) == 0 {
		return fence{}, false
	}
	return all[len(all)-1], true
}

// textBehind is the offset of the first text after a block.
func (o outline) textBehind(f fence) int {
	rest := o.src[f.end:]
	return f.end + len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
}

// positionIn is the offset in the document of an offset in a block's content.
func (o outline) positionIn(f fence, offset int) int {
	line := strings.Count(f.content[:min(offset, len(f.content))], "\n")
	if line >= len(f.lines) {
		return f.start
	}
	column := offset - (strings.LastIndexByte(f.content[:offset], '\n') + 1)
	return min(f.lines[line]+column, len(o.src))
}

// placesOf returns the place in the document of each line of a member of a block.
func (o outline) placesOf(f fence, m member) []Place {
	places := []Place{o.placeOf(o.positionIn(f, m.start))}
	first := strings.Count(f.content[:m.start], "\n")
	for i := range bytes.Count(m.value, []byte{'\n'}) {
		at := f.start
		if n := first + 1 + i; n < len(f.lines) {
			at = f.lines[n]
		}
		places = append(places, o.placeOf(at))
	}
	return places
}
