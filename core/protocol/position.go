package protocol

import (
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Position is the place in the parsed document of the value at a JSON pointer of
// the step's challenge. If there is no such value it is the place of the innermost
// value around it, and for a step that was not parsed from a document the first
// line.
func (s Step) Position(pointer string) Place { return s.Positions(pointer)[0] }

// Positions is Position for many pointers, in one pass over the challenge.
func (s Step) Positions(pointers ...string) []Place {
	out := make([]Place, len(pointers))
	if len(s.Anchors) == 0 || len(pointers) == 0 {
		for i := range out {
			out[i] = s.placeAt(0)
		}
		return out
	}
	wanted := map[string]int{"": 0} // pointers and their prefixes
	for _, p := range pointers {
		for ; p != "" && p[0] == '/'; p = p[:strings.LastIndexByte(p, '/')] {
			wanted[p] = -1
		}
	}
	_ = walkJSON(s.Challenge, jsonWalker{onValue: func(pointer string, start int) bool {
		if _, ok := wanted[pointer]; ok {
			wanted[pointer] = start
		}
		return true
	}})
	for i, p := range pointers {
		if p != "" && p[0] != '/' {
			p = ""
		}
		for p != "" && wanted[p] < 0 {
			p = p[:strings.LastIndexByte(p, '/')]
		}
		out[i] = s.placeAt(wanted[p])
	}
	return out
}

// placeAt is the place in the document of an offset of the challenge.
func (s Step) placeAt(offset int) Place {
	if len(s.Anchors) == 0 {
		return Place{max(s.ChallengeLine, s.Line, 1), 1}
	}
	return placeAmong(s.Anchors, s.Challenge, offset)
}

// maxColumn is where counting the characters of a line ends: a line can be as long
// as a document, and there can be many findings in it.
const maxColumn = 20_000

// columns is how many characters a line has, up to maxColumn bytes of it.
func columns[T ~string | ~[]byte](line T) int {
	return utf8.RuneCountInString(string(line[:min(len(line), maxColumn)]))
}

// Problem is an error at a JSON pointer of the step's challenge.
func (s Step) Problem(pointer, message string) *Diagnostic {
	d := s.problem(pointer, message)
	return &d
}

// problem is the error that Problem points to.
func (s Step) problem(pointer, message string) Diagnostic {
	return s.found(s.Position(pointer), pointer, message)
}

// problemAt is an error at an offset of the step's challenge, which has the pointer.
func (s Step) problemAt(offset int, pointer, message string) Diagnostic {
	return s.found(s.placeAt(offset), pointer, message)
}

func (s Step) found(at Place, pointer, message string) Diagnostic {
	return Diagnostic{
		Severity: driver.SeverityError, Line: at.Line, Column: at.Column, Step: s.Label, Pointer: pointer, Message: plain.Clip(message, maxMessage),
	}
}

// placeOf is the line and column of a byte of the document.
func (o outline) placeOf(pos int) Place {
	return Place{o.lineOf(pos), columns(o.src[o.lineStart(pos):pos]) + 1}
}
