package protocol

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The keys under which a block holds a challenge: ours, and that of the server before
// this one.
const (
	keyChallenge = "challenge"
	keyContract  = "contract"
)

// takeChallenge parses the challenge of a step's body into s and returns the rest
// of the body.
func (p *parse) takeChallenge(s *Step, body span) string {
	f, ok := p.text.lastFence(body)
	if ok {
		look := lookOf(f)
		if b, ok := p.challengeBlock(s, f, look, body); ok {
			p.setChallenge(s, b)
			return p.text.src[body.start:f.start]
		}
		s.Lookalike = look.candidate(p.text.placeOf(f.start))
	}
	rest := p.takeLegacy(s, body)
	if s.Challenge == nil && !p.found.failed {
		p.nearChallenges(s, body)
	}
	return rest
}

// setChallenge makes the block the challenge of the step.
func (p *parse) setChallenge(s *Step, b block) {
	challenge := b.top[b.key()]
	s.Challenge, s.ChallengeLine, s.Anchors = challenge.value, p.text.lineOf(b.start), b.anchorsOf(challenge)
	s.typeByOnlyKey()
	p.found.add(s.judgeCommon()...)
}

// key is the key of the block's challenge.
func (b block) key() string {
	if _, ok := b.top[keyChallenge]; ok {
		return keyChallenge
	}
	return keyContract
}

// challengeBlock reads the last fenced block of a step; false: it holds no challenge.
// It reports probable mistakes.
func (p *parse) challengeBlock(s *Step, f fence, look look, body span) (block, bool) {
	if look.refused != "" {
		p.fail(f.start, s.Label, look.refused)
	}
	if !look.challenge {
		return block{}, false
	}
	b, ok := p.read(f, s.Label)
	if !ok {
		return b, false
	}
	challenge, ok := b.top[b.key()]
	switch {
	case !ok:
		return b, false
	case !isObject(challenge.value):
		p.found.failAt(b.place(challenge.start), s.Label, fmt.Sprintf("%q must be an object", b.key()))
		return b, false
	case !f.alone:
		return b, false // reported with what is nearly a challenge
	case !f.closed:
		p.fail(f.start, s.Label, "the challenge block is not closed")
		return b, false
	case strings.TrimSpace(p.text.src[f.end:body.end]) != "":
		p.fail(p.text.textBehind(f), s.Label, "text follows the challenge block; it must be the last thing of its step")
		return b, false
	}
	p.warnBeside(s, b)
	p.warnSecond(s, f, body)
	return b, true
}

func (p *parse) warnBeside(s *Step, b block) {
	const most = 10
	own := b.key()
	if own == keyContract {
		p.found.warnAt(b.place(b.top[own].key), s.Label, `"contract" is read as "challenge", which is how it is written here`)
	}
	keys := slices.Sorted(maps.Keys(b.top))
	for i, key := range keys[:min(len(keys), most+1)] {
		switch {
		case key == own:
		case i == most:
			p.warn(b.start, s.Label, fmt.Sprintf("%d keys beside %q are dropped", len(keys)-1, own))
		default:
			p.found.warnAt(b.place(b.top[key].key), s.Label, fmt.Sprintf("the key %q beside %q is dropped", cut(key), own))
		}
	}
}

func (p *parse) warnSecond(s *Step, last fence, body span) {
	all := p.text.within(body)
	if len(all) < 2 {
		return
	}
	before := all[len(all)-2]
	if lookOf(before).challenge && before.end <= last.start && strings.TrimSpace(p.text.src[before.end:last.start]) == "" {
		p.warn(before.start, s.Label, "two challenge blocks end the step; the last one counts, this one is text")
	}
}

// readProblem reports an error in the text of a block at its place in the document.
func (p *parse) readProblem(b block, step string, err error) {
	var at *jsonError
	if !errors.As(err, &at) {
		p.fail(b.start, step, "the block must be a JSON object")
		return
	}
	p.found.failAt(b.place(at.offset), step, "invalid JSON: "+at.message+jsonHint(b.json, at.offset))
}
