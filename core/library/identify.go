package library

import (
	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// identify gives the steps of a new version their ids. A step that the old version
// has keeps its id, so that links stay valid. Steps are matched in this order:
// identical text, same name or heading, same text under another heading, and
// rewritten steps between matched neighbours. The first step, which most links
// name, passes its id to the new first step unless it is found elsewhere.
func identify(chain protocol.Chain, old *protocol.Chain) protocol.Chain {
	p := pairing{now: chain.Steps, then: nil}
	if old != nil {
		chain.CreatedAt = old.CreatedAt
		p.then = old.Steps
	}
	p.pair()
	for i := range chain.Steps {
		s := &chain.Steps[i]
		s.UUID = uuid.NewString()
		if j := p.of[i]; j >= 0 {
			s.UUID = p.then[j].UUID
		}
		if s.Tags == nil {
			s.Tags = protocol.Tags(*s)
		}
	}
	return chain
}

// tellingName returns the name of a step unless it only tells the step's position.
func tellingName(s protocol.Step) string {
	if c, err := protocol.CommonOf(s.Challenge); err == nil && c.Name != "" || protocol.Slug(s.Label) != "" {
		return s.Name
	}
	return ""
}

// pairing matches the steps of the new version with those of the old one.
type pairing struct {
	now, then []protocol.Step
	of        []int  // index into then, -1: none
	taken     []bool // by index into then
}

func (p *pairing) pair() {
	p.of, p.taken = make([]int, len(p.now)), make([]bool, len(p.then))
	for i := range p.of {
		p.of[i] = -1
	}
	if len(p.then) == 0 {
		return
	}
	p.by(func(s protocol.Step) string { return s.Text + "\x00" + string(s.Challenge) })
	p.by(tellingName)
	p.by(func(s protocol.Step) string { return s.Label })
	p.by(func(s protocol.Step) string {
		if body := s.Body(); body != "" {
			return body + "\x00" + string(s.Challenge)
		}
		return "" // too little to identify a step
	})
	p.byPlace()
	if p.of[0] < 0 && !p.taken[0] {
		p.take(0, 0)
	}
}

func (p *pairing) take(i, j int) { p.of[i], p.taken[j] = j, true }

// by pairs steps with equal keys. Several steps with one key are paired in order.
func (p *pairing) by(key func(protocol.Step) string) {
	free := make(map[string][]int)
	for j, s := range p.then {
		if k := key(s); !p.taken[j] && k != "" {
			free[k] = append(free[k], j)
		}
	}
	for i, s := range p.now {
		if k := key(s); p.of[i] < 0 && len(free[k]) > 0 {
			p.take(i, free[k][0])
			free[k] = free[k][1:]
		}
	}
}

// byPlace pairs the steps between the same neighbours in both versions if there
// are equally many: they were rewritten. Otherwise the match is ambiguous.
func (p *pairing) byPlace() {
	for i := 0; i < len(p.now); {
		if p.of[i] >= 0 {
			i++
			continue
		}
		end := i
		for end < len(p.now) && p.of[end] < 0 {
			end++
		}
		first := 0
		if i > 0 {
			first = p.of[i-1] + 1
		}
		last := first
		for last < len(p.then) && !p.taken[last] {
			last++
		}
		sameEnd := end == len(p.now) && last == len(p.then) || end < len(p.now) && p.of[end] == last
		for k := 0; sameEnd && end-i == last-first && k < end-i; k++ {
			p.take(i+k, first+k)
		}
		i = end
	}
}
