// Package rules says what must hold: the operator's list of matchers and effects, compiled
// once. Entries only add, and all that match count. It is pure: it knows neither drivers'
// processes nor runs.
package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Set is a compiled list of rules. It never changes; all methods may be called
// concurrently. A nil Set demands nothing.
type Set struct {
	digest string
	rules  []rule
	// states are the members of the actions that each driver states.
	states map[string]map[string]bool
}

// rule is an entry of the list.
type rule struct {
	line    int
	index   int
	match   map[string]string // by matcher of the core
	members []member
	when    decision.Condition
	demand  Demand
	// named: the approval asks for the step's name as a phrase.
	named bool
}

// Subject is a step that rules may match.
type Subject struct {
	// Facts are what conditions read. Of the challenge they have no type if the step has none.
	Facts decision.Facts
	// Actions are what the step would do, as its drivers state it. Nil: it is not known, and
	// no rule about actions matches.
	Actions []Action
}

// Action is what a step would do.
type Action struct {
	// Drivers stated it. A member that one of them declares and nobody stated may be anything.
	Drivers []string
	// Stated are JSON objects, the first ones first. A later one fills in what an earlier one left
	// open, and takes back nothing that it said.
	Stated []json.RawMessage
}

// For is what the rules demand of a step. A rule whose condition fails matches: a
// protocol must not escape a demand with a challenge that the condition cannot read.
func (s *Set) For(sub Subject) Demand { return s.demand(sub, func(*rule) bool { return true }) }

// ForAction is For with those rules alone that look at what the step does.
func (s *Set) ForAction(sub Subject) Demand {
	return s.demand(sub, func(r *rule) bool { return len(r.members) > 0 })
}

// ForText is For as far as it is known of a protocol that is not run yet: rules about the
// run are left out, and those about the space if that is not known.
func (s *Set) ForText(sub Subject) Demand {
	return s.demand(sub, func(r *rule) bool {
		_, space := r.match["space"]
		inSpace := space || r.when.Reads("protocol", "space")
		return !r.when.ReadsRun() && (!inSpace || sub.Facts.Protocol.Space != "")
	})
}

func (s *Set) demand(sub Subject, known func(*rule) bool) Demand {
	var d Demand
	if s == nil {
		return d
	}
	actions := decoded(sub.Actions)
	for i := range s.rules {
		if r := &s.rules[i]; known(r) && s.matches(r, sub.Facts, actions) {
			d = d.And(r.demanded(sub.Facts))
		}
	}
	return d
}

// matches reports whether every matcher of the rule fits. All members have to be of one action.
func (s *Set) matches(r *rule, f decision.Facts, actions []action) bool {
	for matcher, want := range r.match {
		if !matchers[matcher](f, want) {
			return false
		}
	}
	if len(r.members) > 0 && !slices.ContainsFunc(actions, func(a action) bool { return s.stated(r.members, a) }) {
		return false
	}
	holds, err := r.when.Holds(f)
	return holds || err != nil
}

// matchers are those of the core. Others are members of actions.
var matchers = map[string]func(f decision.Facts, want string) bool{
	"type": func(f decision.Facts, want string) bool { return f.Challenge.Type == want },
	"space": func(f decision.Facts, want string) bool {
		return strings.EqualFold(f.Protocol.Space, protocol.SpaceName(want))
	},
	"protocol": func(f decision.Facts, want string) bool {
		p := f.Protocol
		return strings.EqualFold(p.Title, want) || p.Slug == want || p.URI == want
	},
	"tag": func(f decision.Facts, want string) bool {
		return slices.ContainsFunc(f.Protocol.Tags, func(tag string) bool { return strings.EqualFold(tag, want) })
	},
	"step": func(f decision.Facts, want string) bool { return f.Step.Name == want },
}

// demanded is what the rule demands of the step.
func (r *rule) demanded(f decision.Facts) Demand {
	d := r.demand
	if r.named {
		a := *d.Approval
		a.Phrases = []string{f.Step.Name}
		d.Approval = &a
	}
	return d
}

// place names the rule for messages.
func (r *rule) place() string { return fmt.Sprintf("rules[%d], line %d", r.index, r.line) }

// Digest changes with the text and the place of the rules.
func (s *Set) Digest() string {
	if s == nil {
		return ""
	}
	return s.digest
}

// ReadsDigest reports whether a condition reads protocol.digest.
func (s *Set) ReadsDigest() bool {
	return s != nil && slices.ContainsFunc(s.rules, func(r rule) bool { return r.when.Reads("protocol", "digest") })
}

// ReadsCaller reports whether a condition reads who calls.
func (s *Set) ReadsCaller() bool {
	return s != nil && slices.ContainsFunc(s.rules, func(r rule) bool { return r.when.Reads("caller") })
}

// Spaces are the names of spaces that rules match, or compare with in conditions.
func (s *Set) Spaces() (names []string) {
	if s == nil {
		return nil
	}
	for _, r := range s.rules {
		if name, ok := r.match["space"]; ok {
			names = append(names, name)
		}
		names = append(names, r.when.Spaces()...)
	}
	return names
}

// Len is the number of rules.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.rules)
}

// OfChallenge is what a challenge itself demands. Its groups without a realm are of this one.
func OfChallenge(c protocol.Common, realm string) Demand {
	d := Demand{Evidence: c.Evidence.Provenances()}
	if c.Approval == nil {
		return d
	}
	d.Approval = &Approval{How: protocol.WithParts(c.ApprovalHow())}
	if c.Approval.NamesPeople() {
		d.Approval.named(People{Of: protocol.InRealm(c.Approval.By, realm), Count: max(1, c.Approval.Quorum)}, c.Approval.Not == protocol.NotRunner)
	}
	if phrase := c.ApprovalPhrase(); phrase != "" {
		d.Approval.Phrases = []string{phrase}
	}
	return d
}

// action is an Action that was decoded. Each value of a member counts.
type action struct {
	drivers []string
	members map[string][]any
}

func decoded(actions []Action) []action {
	out := make([]action, len(actions))
	for i, a := range actions {
		out[i] = action{drivers: a.Drivers, members: map[string][]any{}}
		for _, stated := range a.Stated {
			var members map[string]any
			if json.Unmarshal(stated, &members) != nil {
				continue // nothing is known of it, so that its members may be anything
			}
			for name, value := range members {
				if value != nil { // as if it were left out
					out[i].members[name] = append(settled(out[i].members[name]), value)
				}
			}
		}
	}
	return out
}

// stated reports whether the action has all the members.
func (s *Set) stated(members []member, a action) bool {
	for _, m := range members {
		values, there := a.members[m.name]
		switch {
		case slices.ContainsFunc(values, m.matches):
		case !there && slices.ContainsFunc(a.drivers, func(name string) bool { return s.states[name][m.name] }):
		default:
			return false
		}
	}
	return true
}

// evidenceWord is the word for what counts.
func evidenceWord(only []driver.Provenance) string {
	for _, word := range []protocol.EvidenceFrom{protocol.FromPerson, protocol.FromServer} {
		if slices.Equal(word.Provenances(), only) {
			return string(word)
		}
	}
	return string(protocol.FromAnyone)
}
