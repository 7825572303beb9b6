package run

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// PersonTakes is how long a person takes at least to answer a question that they have to
// read. A client that answers faster has answered itself.
const PersonTakes = 500 * time.Millisecond

// maxRoundTrip bounds what is taken for a round trip: a client that is slow with everything
// must not make its person look automatic.
const maxRoundTrip = 2 * time.Second

// Delay is how long an answer took, from when its question was sent.
type Delay struct {
	After time.Duration `json:"after"`
	// RoundTrip is the shortest time that the connection took for a message and its reply; zero: it is
	// not known, or the time is that of the record.
	RoundTrip time.Duration `json:"round_trip,omitempty"`
}

// Under reports whether the answer came faster than a person can give it. A delay that is not
// known, nil, is not.
func (d *Delay) Under() bool {
	return d != nil && d.After < PersonTakes+min(d.RoundTrip, maxRoundTrip)
}

// Words say whose answer it was, and how fast: "answered by the client in 8 ms". They are empty for an
// answer that may be a person's.
func (d *Delay) Words() string {
	if !d.Under() {
		return ""
	}
	return fmt.Sprintf("answered by the client in %d ms", d.After.Milliseconds())
}

// Automatic is an answer that a client gave to a person's question itself, faster than a person
// can. It decides nothing.
type Automatic struct {
	Input string `json:"input"`
	Via   string `json:"via"`
	// Connection that gave it, or empty for a client that keeps none; then Client is its name.
	Connection string `json:"connection,omitempty"`
	Client     string `json:"client,omitempty"`
	Delay      Delay  `json:"delay"`
}

// maxAutomatic is how many automatic answers are kept of a step.
const maxAutomatic = 16

// automatic closes a question that the client answered itself. Nothing is decided, so that
// an earlier decline stands.
func automatic(r *Run, e Event) error {
	q := r.Step.Question
	switch {
	case q.Seq != e.Seq:
		return ErrStale
	case !q.Human || e.Delay == nil:
		return lacks("a person's question, or the time that its answer took")
	}
	given := Automatic{Input: q.Input.ID, Via: q.Via, Connection: e.Connection, Delay: *e.Delay}
	if given.Connection == "" {
		given.Client = q.Client.Name
	}
	others := slices.DeleteFunc(slices.Clone(r.Step.Automatic), func(a Automatic) bool {
		return a.Input == given.Input && a.Via == given.Via && a.Connection == given.Connection && a.Client == given.Client
	})
	r.Step.Automatic = lastOf(append(others, given), maxAutomatic)
	r.Step.keepLink()
	r.unask()
	return nil
}

// keepLink keeps the link of the open question, if a client answered it itself: another way to the same answer
// must not end the page that a person has open.
func (s *Step) keepLink() {
	if q := s.Question; q != nil && q.Link != nil && !q.Link.ReadOnly && (q.Beside() || s.Automatically(q.Input.ID)) {
		s.Link = q.Link
	}
}

// Automatically reports whether a client answered the input itself.
func (s Step) Automatically(inputID string) bool {
	return slices.ContainsFunc(s.Automatic, func(a Automatic) bool { return a.Input == inputID })
}

// AnsweredBy is the automatic answer of the connection, or of the client that keeps none, to the input through
// the driver, or nil.
func (s Step) AnsweredBy(inputID, via, connection, client string) *Automatic {
	if connection != "" {
		client = ""
	}
	for i, a := range s.Automatic {
		if a.Input == inputID && a.Via == via && a.Connection == connection && a.Client == client {
			return &s.Automatic[i]
		}
	}
	return nil
}

// ofAPerson refuses an approval by anybody but a person after a client has answered the question for its
// person: then nothing tells what the person would have said.
func (s Step) ofAPerson(a Approval) error {
	if s.Automatically(approvalInput) && (a.Basis == BasisAgent || a.Basis == BasisReview || a.Provenance == driver.ModelGenerated) {
		return fmt.Errorf("a client answered for its person, so only a person approves: %w", ErrUnapproved)
	}
	return nil
}

// timed keeps how long the answer to an input took; nil: it is not known.
func (s *Step) timed(inputID string, d *Delay) {
	delays := maps.Clone(s.Delays) // the run before the event has it, too
	delete(delays, inputID)
	if d != nil {
		if delays == nil {
			delays = map[string]Delay{}
		}
		delays[inputID] = *d
	}
	s.Delays = delays
}

// DelayOf is how long the answer to the input took, or nil if that is not known.
func (v Evidence) DelayOf(inputID string) *Delay {
	if d, timed := v.Delays[inputID]; timed {
		return &d
	}
	return nil
}

// slower is the longer of two delays, of which each may be nil.
func slower(a, b *Delay) *Delay {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	if a.After < b.After {
		return b
	}
	return a
}
