package library

import (
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
)

// Observer hears what the library did, once it is done and stored. It is
// called concurrently, with values that the caller keeps using, and returns at once.
type Observer interface {
	// Operated: a use case on protocols ended.
	Operated(Operation)
	// Stored: a protocol is stored, anew or in the place of its older version.
	Stored(space string, steps int)
	// Rated: a rating of a step is written.
	Rated(Rated)
	// RatingsLost: ratings could not be written and never will be.
	RatingsLost(space string, ratings int)
	// SimilarFound: a mint was refused because of a protocol that is much alike.
	SimilarFound(transport, space string)
}

// OperationKind is what was done with protocols.
type OperationKind string

// The kinds of operations.
const (
	OperationStore    OperationKind = "store"
	OperationRetrieve OperationKind = "retrieve"
	OperationSearch   OperationKind = "search"
	OperationUpdate   OperationKind = "update"
	OperationDelete   OperationKind = "delete"
)

// Operation is a use case on protocols.
type Operation struct {
	Kind  OperationKind
	Space string // the caller's
	Took  time.Duration
	// Done and Failed count what it was asked to do: URIs, or the call itself.
	Done, Failed int
}

// Rated is a rating that is written.
type Rated struct {
	Space string
	// Agent is the model that wrote or attested; empty: not known.
	Agent   string
	Outcome Outcome
	Attest  bool // it comes from an attestation
	Score   int  // with a Tier
	Tier    string
	Bonus   float64
}

// operated tells of an operation that counts as one. It is deferred:
//
//	defer operated(observer, OperationSearch, c, time.Now(), &err)
func operated(o Observer, kind OperationKind, c access.Caller, began time.Time, err *error) {
	op := Operation{Kind: kind, Space: c.Space, Took: time.Since(began)}
	if op.Done = 1; *err != nil {
		op.Done, op.Failed = 0, 1
	}
	o.Operated(op)
	if fault.CodeOf(*err) == fault.SimilarMemoryFound {
		o.SimilarFound(c.Client.Transport, c.Space)
	}
}

// Retrieved tells of a protocol that was read for a run. It is deferred:
//
//	defer l.Retrieved(c.Space, time.Now(), &err)
func (l *Library) Retrieved(space string, began time.Time, err *error) {
	operated(l.opt.Observer, OperationRetrieve, access.Caller{Space: space}, began, err)
}

// operatedOn tells of an operation on several URIs.
func operatedOn(o Observer, kind OperationKind, c access.Caller, began time.Time, done, failed *int, err *error) {
	op := Operation{Kind: kind, Space: c.Space, Took: time.Since(began), Done: *done, Failed: *failed}
	if *err != nil {
		op.Failed++
	}
	o.Operated(op)
}

// Silence is the observer where nobody listens.
type Silence struct{}

// Operated implements Observer.
func (Silence) Operated(Operation) {}

// Stored implements Observer.
func (Silence) Stored(string, int) {}

// Rated implements Observer.
func (Silence) Rated(Rated) {}

// RatingsLost implements Observer.
func (Silence) RatingsLost(string, int) {}

// SimilarFound implements Observer.
func (Silence) SimilarFound(string, string) {}
