package library

import (
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
)

// Observer is notified of completed and stored operations. It is called
// concurrently, must not modify the values, and returns at once.
type Observer interface {
	// Operated is called when a use case on protocols ends.
	Operated(Operation)
	// Stored is called when a protocol is stored, new or in place of an older
	// version.
	Stored(space string, steps int)
	// Rated is called when a rating of a step is written.
	Rated(Rated)
	// RatingsLost is called when ratings could not be written; they are dropped.
	RatingsLost(space string, ratings int)
	// SimilarFound is called when a mint was refused because of a similar protocol.
	SimilarFound(transport, space string)
}

// OperationKind is the kind of an operation on protocols.
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
	// Done and Failed count the URIs of the request, or the call itself.
	Done, Failed int
}

// Rated is a rating that is written.
type Rated struct {
	Space string
	// Agent is the model that wrote or attested, or empty if that is not known.
	Agent   string
	Outcome Outcome
	Attest  bool // it comes from an attestation
	Score   int  // with a Tier
	Tier    string
	Bonus   float64
}

// operated reports an operation that counts as one. It is deferred:
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

// Retrieved reports that a protocol was read for a run. It is deferred:
//
//	defer l.Retrieved(c.Space, time.Now(), &err)
func (l *Library) Retrieved(space string, began time.Time, err *error) {
	operated(l.opt.Observer, OperationRetrieve, access.Caller{Space: space}, began, err)
}

// operatedOn reports an operation on several URIs.
func operatedOn(o Observer, kind OperationKind, c access.Caller, began time.Time, done, failed *int, err *error) {
	op := Operation{Kind: kind, Space: c.Space, Took: time.Since(began), Done: *done, Failed: *failed}
	if *err != nil {
		op.Failed++
	}
	o.Operated(op)
}

// Silence is an observer that does nothing.
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
