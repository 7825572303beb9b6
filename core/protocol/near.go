package protocol

import (
	"regexp"
	"strings"
)

// nearChallenges reports what in a step without a challenge is probably meant as one.
// The document is stored all the same, as existing clients expect.
func (p *parse) nearChallenges(s *Step, body span) {
	all := p.text.within(body)
	for i, f := range all {
		l := lookOf(f)
		why := l.near
		switch {
		case i == len(all)-1 && l.refused != "":
			continue // reported as an error
		case (l.challenge || l.refused != "") && i < len(all)-1:
			why = "it must be the last thing of its step"
		case l.challenge && !f.alone:
			why = "it stands in a quote or behind a list marker; put it on lines of its own"
		}
		if why == "" && f.schemaKey() != "" {
			p.found.add(tolerated(p.text.placeOf(f.start), s.Label, "this block is text: inputs are declared between the title and the first step"))
		}
		if why != "" {
			p.found.add(tolerated(p.text.placeOf(f.start), s.Label, notOne+why))
		}
	}
	if pos := p.text.unfenced(body); pos >= 0 {
		p.found.add(tolerated(p.text.placeOf(pos), s.Label, notOne+"put it into a block between lines of ``` with the language json"))
	}
}

// bareChallenge is a challenge without the marks of a block.
var bareChallenge = regexp.MustCompile("^[ \\t>*+-]*`*(?:\\{\\s*[\"'`\u201c\u201d\u201e\u2018\u2019]?([\\w. -]{1,24}?)[\"'`\u201c\u201d\u201e\u2018\u2019]?\\s*:|(challenge):\\s*$)")

var indentedKey = regexp.MustCompile(`^[ \t]+\w+:`)

// unfenced is where the first challenge outside of any block stands; -1: there is none.
func (o outline) unfenced(body span) int {
	blocks := o.within(body)
	for start := body.start; start < body.end; {
		for len(blocks) > 0 && blocks[0].end <= start {
			blocks = blocks[1:]
		}
		if len(blocks) > 0 && blocks[0].contains(start) {
			start = blocks[0].end
			continue
		}
		end := min(o.lineEnd(start), body.end)
		line := strings.TrimRight(o.src[start:min(end, start+maxMessage)], "\n")
		next := o.src[end:min(o.lineEnd(end), end+maxMessage)]
		m := bareChallenge.FindStringSubmatch(line)
		if m != nil && (m[1] == keyChallenge || isNear(m[1]) || m[2] != "" && indentedKey.MatchString(next)) {
			return start
		}
		start = end
	}
	return -1
}
